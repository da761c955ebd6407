//! Who may use whom. The table is that of ARCHITECTURE.md; a new edge or crate is its own change.

use serde_json::Value;

use crate::workspace::metadata;

/// Crate and the workspace crates it may use outside its tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("capture", &[]),
    ("model", &[]),
    ("simulate", &["model"]),
    ("ingest", &["capture"]),
    ("analysis", &["capture", "model", "simulate"]),
    ("report", &["analysis", "capture"]),
    ("live", &["capture", "ingest", "model", "simulate"]),
    ("cli", &["capture", "ingest", "model", "simulate", "analysis", "report", "live"]),
    ("xtask", &["capture", "ingest", "model", "analysis", "report", "live"]),
];

/// Start of a dependency's name and the only crate that may name it, tests included.
const ONLY: &[(&str, &str)] = &[
    ("rusqlite", "ingest"),
    ("hyper", "live"),
    ("tokio", "live"),
    ("tokio-rustls", "live"),
    ("tokenizers", "live"),
    ("datafusion", "fleet"),
    ("ballista", "fleet"),
];

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// What is wrong with the manifests, one sentence each.
fn complaints(metadata: &Value, may_use: &[(&str, &[&str])]) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let members: Vec<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let mut complaints = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let Some((_, allowed)) = may_use.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("{name} is not in the table"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = text(dependency, "name");
            let in_tests_only = dependency["kind"] == "dev";
            if members.contains(&used) && !in_tests_only && !allowed.contains(&used) {
                complaints.push(format!("{name} may not use {used}"));
            }
            for (start, only) in ONLY {
                if used.starts_with(start) && name != *only {
                    complaints.push(format!("only {only} may name {used}, {name} does"));
                }
            }
        }
    }
    complaints.sort();
    complaints
}

#[test]
fn dependencies_point_one_way() {
    assert_eq!(complaints(&metadata(&["--no-deps"]).unwrap(), MAY_USE), Vec::<String>::new());
}

/// The real manifests against a stricter table: what the test above would say if an edge were new.
#[test]
fn a_new_edge_is_named() {
    let strict: Vec<(&str, &[&str])> = MAY_USE
        .iter()
        .filter(|(name, _)| *name != "model")
        .map(|&(name, used)| (name, if name == "ingest" { &[] } else { used }))
        .collect();
    let found = complaints(&metadata(&["--no-deps"]).unwrap(), &strict);
    assert_eq!(found, ["ingest may not use capture", "model is not in the table"]);
}
