//! Every failure mode comes with three cases: found, the same system fixed, and a look-alike that is something else.

use std::path::Path;

use analysis::checks::CHECKS;

use super::Breach;
use crate::cases::{self, Case};

/// Failure modes that lack one of the three.
pub(super) fn breaches(cases: &Path) -> anyhow::Result<Vec<Breach>> {
    let found = cases::read(cases)?;
    Ok(CHECKS.iter().flat_map(|check| missing(check.id, &found)).collect())
}

fn missing(check: &str, cases: &[Case]) -> Vec<Breach> {
    let found: Vec<&Case> = cases.iter().filter(|case| case.finds(check)).collect();
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
        Case { expected: expected.into(), check: check.into(), twin: twin.into(), look_alike_of: look_alike_of.into(), ..Case::default() }
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
