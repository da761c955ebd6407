//! Every failure mode comes with three cases: found, the same system fixed, and a look-alike that is something else.

use std::fs;
use std::path::Path;

use analysis::checks::CHECKS;
use anyhow::Context as _;
use toml::{Table, Value};

use super::Breach;

/// What the rule needs to know of one case.
#[derive(Clone, Debug, Default)]
struct Case {
    expected: String,
    check: String,
    twin: String,
    look_alike_of: String,
}

/// Failure modes that lack one of the three.
pub(super) fn breaches(cases: &Path) -> anyhow::Result<Vec<Breach>> {
    let mut found = Vec::new();
    collect(cases, &mut found)?;
    Ok(CHECKS.iter().flat_map(|check| missing(check.id, &found)).collect())
}

fn collect(folder: &Path, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    let path = folder.join("case.toml");
    if path.is_file() {
        let table: Table = fs::read_to_string(&path)?.parse().with_context(|| format!("could not parse `{}`", path.display()))?;
        let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        cases.push(Case { expected: text("expected"), check: text("check"), twin: text("twin"), look_alike_of: text("look_alike_of") });
        return Ok(());
    }
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, cases)?;
        }
    }
    Ok(())
}

fn missing(check: &str, cases: &[Case]) -> Vec<Breach> {
    let found: Vec<&Case> = cases.iter().filter(|case| case.expected == "found" && case.check == check).collect();
    let has = [
        ("a case that finds it", !found.is_empty()),
        ("a fixed twin", found.iter().any(|case| !case.twin.is_empty())),
        ("a look-alike", cases.iter().any(|case| case.look_alike_of == check && case.check != check)),
    ];
    let breach = |(what, _): &(&str, bool)| Breach { rule: "case", what: format!("{check}: {what}"), found: "missing under cases/".into() };
    has.iter().filter(|(_, is_there)| !is_there).map(breach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(expected: &str, check: &str, twin: &str, look_alike_of: &str) -> Case {
        Case { expected: expected.into(), check: check.into(), twin: twin.into(), look_alike_of: look_alike_of.into() }
    }

    fn lacks(cases: &[Case]) -> Vec<String> {
        missing("kv_thrash", cases).into_iter().map(|breach| breach.what).collect()
    }

    #[test]
    fn a_failure_mode_needs_three_cases() {
        assert_eq!(lacks(&[]), ["kv_thrash: a case that finds it", "kv_thrash: a fixed twin", "kv_thrash: a look-alike"]);
        let found = case("found", "kv_thrash", "kv_thrash/small_pool_fixed", "");
        assert_eq!(lacks(std::slice::from_ref(&found)), ["kv_thrash: a look-alike"]);
        let itself = case("found", "kv_thrash", "", "kv_thrash");
        assert_eq!(lacks(&[found.clone(), itself]), ["kv_thrash: a look-alike"]);
        assert!(lacks(&[found, case("found", "overload", "", "kv_thrash")]).is_empty());
    }
}
