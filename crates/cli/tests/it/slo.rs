//! `--slo` on percentiles: from request rows, from buckets, and when neither tells.

use analysis::contract::{Report, Status};

use crate::{cases, program};

fn diagnose(case: &str, slo: &str) -> Report {
    let folder = cases::artifacts(case);
    let run = program::run(["diagnose".as_ref(), "--json".as_ref(), folder.as_os_str(), "--slo".as_ref(), slo.as_ref()]);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

fn remarks(report: &Report) -> String {
    report.trust.remarks.join("\n")
}

#[test]
fn request_rows_decide_percentiles() {
    let slow = "batch_cap_reached/recorded";
    let broken = diagnose(slow, "ttft.p99=1s");
    assert_eq!(broken.verdict.status, Status::Localized);
    assert!(remarks(&broken).contains("limit broken: TTFT p99"), "{}", remarks(&broken));
    // Nothing is slow by the user's own measure.
    let kept = diagnose(slow, "ttft.p99=10min,e2e.p95=10min,tpot.p95=10s");
    assert_eq!(kept.verdict.status, Status::Healthy, "{}", kept.verdict.sentence);
    assert!(remarks(&kept).contains("limit kept: TPOT p95"), "{}", remarks(&kept));
}

#[test]
fn buckets_decide_beside_the_limit_and_not_around_it() {
    let scrapes = "batch_cap_reached/scrapes_alone";
    let report = diagnose(scrapes, "server.ttft.p90=1ms");
    assert!(remarks(&report).contains("limit broken: TTFT p90 between"), "{}", remarks(&report));
    let within = remarks(&report);
    let bounds = within.split("TTFT p90 between ").nth(1).unwrap().split(", limit").next().unwrap();
    let (low, high) = bounds.split_once(" and ").unwrap();
    let seconds = |text: &str| text.trim_end_matches(" s").parse::<f64>().unwrap();
    let middle = f64::midpoint(seconds(low), seconds(high));
    let open = diagnose(scrapes, &format!("server.ttft.p90={middle}s"));
    assert!(remarks(&open).contains("cannot tell, the limit lies inside the histogram's bucket"), "{}", remarks(&open));
    // What cannot be told neither calls the server well nor changes the verdict.
    let without = diagnose(scrapes, "server.ttft.p90=1ms");
    assert_eq!((open.verdict.status, open.verdict.check), (without.verdict.status, without.verdict.check));
    let above = diagnose(scrapes, &format!("server.ttft.p90={}s", seconds(high) * 2.0));
    assert_eq!(above.verdict.status, Status::Healthy, "{}", above.verdict.sentence);
}

#[test]
fn a_limit_on_something_else_is_named() {
    let report = diagnose("batch_cap_reached/recorded", "kv.usage.max=90%");
    assert!(remarks(&report).contains("only TTFT, TPOT, ITL and e2e are compared"), "{}", remarks(&report));
}
