//! Every failure mode comes with three cases: found, the same system fixed, and a look-alike that is something else.
//! Limits and context are never a cause: they need a case whose answers list them as found, and one where they are clear.

use std::path::Path;

use analysis::check::Check;
use analysis::checks::CHECKS;
use analysis::precedence::LIMITS;

use super::Breach;
use crate::cases::{self, Case};

/// Failure modes that lack one of the three.
pub(super) fn breaches(cases: &Path) -> anyhow::Result<Vec<Breach>> {
    let found = cases::read(cases)?;
    let answers: Vec<String> =
        found.iter().map(|case| std::fs::read_to_string(case.folder.join("expected.txt")).unwrap_or_default()).collect();
    let may_be_cause = |check: &&Check| check.rank < LIMITS;
    let causes = CHECKS.iter().filter(may_be_cause).flat_map(|check| missing(check.id, &found));
    let others = CHECKS.iter().filter(|check| !may_be_cause(check)).flat_map(|check| unanswered(check.id, &answers));
    Ok(causes.chain(others).collect())
}

/// Answers that no case gives: `found` and `clear` are needed.
fn unanswered(check: &str, answers: &[String]) -> Vec<Breach> {
    let gives = |word: &str| {
        let line = |line: &str| line.strip_prefix(check).is_some_and(|rest| rest.starts_with(' ') && rest.trim_start().starts_with(word));
        answers.iter().any(|text| text.lines().any(line))
    };
    ["found", "clear"].into_iter().filter(|word| !gives(word)).map(|word| breach(check, &format!("a case where it is {word}"))).collect()
}

fn breach(check: &str, what: &str) -> Breach {
    Breach { rule: "case", what: format!("{check}: {what}"), found: "missing under cases/".into() }
}

fn missing(check: &str, cases: &[Case]) -> Vec<Breach> {
    let found: Vec<&Case> = cases.iter().filter(|case| case.finds(check)).collect();
    let has = [
        ("a case that finds it", !found.is_empty()),
        ("a fixed twin", found.iter().any(|case| !case.twin.is_empty())),
        ("a look-alike", cases.iter().any(|case| case.look_alike_of == check && case.check != check)),
    ];
    has.iter().filter(|(_, is_there)| !is_there).map(|(what, _)| breach(check, what)).collect()
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
    fn a_limit_needs_an_answer_of_either_kind() {
        let what = |answers: &[&str]| {
            let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
            unanswered("drift", &answers).into_iter().map(|breach| breach.what).collect::<Vec<_>>()
        };
        assert_eq!(what(&["drift_more  found context -", "drift   clear"]), ["drift: a case where it is found"]);
        assert!(what(&["drift  found context -", "drift   clear"]).is_empty());
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
