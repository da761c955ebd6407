//! A diagnosis as metrics in Prometheus text (0.0.4), for dashboards and alerts.
//!
//! Every family is there with every report, so that an alert can tell "nothing found" from "nobody looks". A check that was
//! found and one that was not differ by their series: what was not found has none. Left out: evidence and advice, which are
//! sentences.

use analysis::contract::{Finding, Report, Role, Status};

/// The report as metrics. `made_s`: host time of the diagnosis, seconds since the epoch.
pub fn render(report: &Report, made_s: f64) -> String {
    let mut page = Page::default();
    page.family("inferoscope_diagnosis_timestamp_seconds", "Time of the last diagnosis.");
    page.value("", made_s);
    page.family("inferoscope_window_seconds", "Length of the time that was diagnosed.");
    page.value("", report.window.end_ns.saturating_sub(report.window.start_ns) as f64 / 1e9);
    page.family("inferoscope_engines", "Engines in the diagnosed time.");
    page.value("", f64::from(report.window.engines));
    page.family("inferoscope_verdict", "1 for the verdict that holds, 0 for the others.");
    for (status, word) in
        [(Status::Healthy, "healthy"), (Status::Localized, "localized"), (Status::InsufficientEvidence, "insufficient_evidence")]
    {
        page.value(&labels(&[("status", word)]), f64::from(u8::from(report.verdict.status == status)));
    }
    page.family("inferoscope_confidence", "Confidence of the verdict, 0 to 1.");
    page.value("", report.verdict.confidence);
    page.family("inferoscope_request_seconds", "Mean time of a request in the account.");
    if let Some(mean_s) = report.accounts.request_mean_s {
        page.value("", mean_s);
    }
    page.family("inferoscope_requests", "Requests in the account.");
    page.value("", report.accounts.request_count as f64);
    page.family("inferoscope_part_seconds", "Mean time of a request in one of its parts; the parts add up to the request.");
    for part in &report.accounts.request {
        let layer = part.layer.map_or("", |layer| layer.as_str());
        page.value(&labels(&[("part", &part.part), ("layer", layer)]), part.mean_s);
    }
    page.family("inferoscope_loss_seconds", "Mean time of a request beyond what it would take unhindered: what the checks explain.");
    if let Some(loss_s) = loss_s(report) {
        page.value("", loss_s);
    }
    page.family("inferoscope_explained_seconds", "Mean time per request that a failure mode owns.");
    for finding in &report.findings {
        if let Some(seconds) = explained_s(finding, report) {
            page.value(&of(finding), seconds);
        }
    }
    page.family("inferoscope_explained_ratio", "Share of the loss that a failure mode owns.");
    for finding in &report.findings {
        if let Some(share) = finding.explained {
            page.value(&of(finding), share);
        }
    }
    page.family("inferoscope_unknown_checks", "Failure modes that the evidence does not decide.");
    page.value("", report.unknown.len() as f64);
    page.family("inferoscope_input_issues", "Things lost or doubtful in the evidence.");
    page.value("", report.issues.len() as f64);
    page.0
}

fn of(finding: &Finding) -> String {
    let role = match finding.role {
        Role::Cause => "cause",
        Role::Contributes => "contributes",
        Role::TrueNotCause => "true_not_cause",
        Role::Limit => "limit",
        Role::Context => "context",
    };
    labels(&[("layer", finding.layer.as_str()), ("check", &finding.check), ("role", role)])
}

fn loss_s(report: &Report) -> Option<f64> {
    report.symptom.loss.as_ref().filter(|loss| loss.unit == "s").map(|loss| loss.value)
}

/// The share of the loss in seconds, else the finding's own cost where that is seconds.
fn explained_s(finding: &Finding, report: &Report) -> Option<f64> {
    let of_loss = finding.explained.zip(loss_s(report)).map(|(share, loss_s)| share * loss_s);
    of_loss.or_else(|| finding.cost.as_ref().filter(|cost| cost.unit == "s").map(|cost| cost.value))
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// The page so far, and the family whose values follow.
#[derive(Default)]
struct Page(String, &'static str);

impl Page {
    fn family(&mut self, name: &'static str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        self.1 = name;
    }

    fn value(&mut self, labels: &str, value: f64) {
        if value.is_finite() {
            self.0.push_str(&format!("{}{labels} {value}\n", self.1));
        }
    }
}
