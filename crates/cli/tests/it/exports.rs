//! What `export` writes, and where it does not.

use std::fs;

use expect_test::expect;

use crate::outputs::{evidence, in_folder, names};

#[test]
fn a_capture_becomes_a_trace_and_tables() {
    let folder = evidence();
    let run = in_folder(folder.path(), &["export", "metrics.prom", "--perfetto", "a.pftrace", "--csv", "tables"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    expect![[r#"
        wrote a.pftrace: 1 slices and 4 values on 3 tracks
        wrote tables: 2 tables, 7 rows
    "#]]
    .assert_eq(&run.stdout);
    let run = in_folder(folder.path(), &["export", "metrics.prom", "--perfetto", "a.json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    let values: Vec<&serde_json::Value> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["name"] == "engine.running, engine 0, replica 0 [request]")
        .collect();
    assert_eq!(values.len(), 2, "{trace}");
    assert_eq!(values[1]["ts"].to_string(), "1796036993000000.0");
    let samples = fs::read_to_string(folder.path().join("tables/samples.csv")).unwrap();
    assert!(samples.starts_with("t_ns,run_idx,point_idx,signal,labels,value,source\n1796036992000000000,0,"), "{samples}");
}

#[test]
fn what_is_there_stays_unless_it_may_go() {
    let folder = evidence();
    fs::write(folder.path().join("mine.json"), "{}").unwrap();
    fs::create_dir(folder.path().join("tables")).unwrap();
    fs::write(folder.path().join("tables/mine.csv"), "a\n").unwrap();
    for refused in [["--perfetto", "mine.json"], ["--csv", "tables"], ["--perfetto", "metrics.prom"]] {
        let run = in_folder(folder.path(), &["export", "metrics.prom", refused[0], refused[1]]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("mine.json")).unwrap(), "{}");
    let run = in_folder(folder.path(), &["export", "metrics.prom", "--perfetto", "mine.json", "--csv", "tables", "--force"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(names(&folder.path().join("tables")), ["mine.csv", "runs.csv", "samples.csv"]);
    let run = in_folder(folder.path(), &["export", "metrics.prom", "--perfetto", "metrics.prom", "--force"]);
    assert!(run.code == 2 && run.stderr.contains("is one of the inputs"), "{run:?}");
}

#[test]
fn nothing_to_fold_is_said() {
    let folder = evidence();
    let run = in_folder(folder.path(), &["export", "metrics.prom", "--folded", "out.folded"]);
    assert_eq!(run.code, 2);
    expect![[r"
        error: there are no device events to fold; --folded-stacks writes sampled stacks of host threads
    "]]
    .assert_eq(&run.stderr);
    assert_eq!(names(folder.path()), ["metrics.prom"]);
    assert_eq!(in_folder(folder.path(), &["export", "metrics.prom"]).code, 2, "a form must be named");
}
