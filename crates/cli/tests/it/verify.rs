//! `verify` on the pairs under `cases/`: a fix is not refuted, no change is not confirmed, the exit code is the outcome's.

use std::path::Path;

use analysis::contract::{Outcome, Verification};

use crate::case::{Case, Expected};
use crate::{cases, program};

/// A few cases that have a fixed twin, with it.
fn pairs() -> Vec<(Case, Case)> {
    let is_fault = |case: &Case| case.expected == Expected::Found && !case.twin.is_empty();
    let mut pairs = Vec::new();
    for case in cases::all().into_iter().filter(is_fault) {
        let twin = cases::all().into_iter().find(|other| other.name() == case.twin);
        pairs.extend(twin.filter(|twin| twin.expected == Expected::Healthy).map(|twin| (case, twin)));
    }
    assert!(!pairs.is_empty(), "no case has a fixed twin");
    pairs.truncate(6);
    pairs
}

fn verify(before: &Path, after: &Path) -> Verification {
    let run = program::run(["verify".as_ref(), "--json".as_ref(), before.as_os_str(), after.as_os_str()]);
    let verification: Verification = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let promised = match verification.outcome {
        Outcome::Confirmed => 0,
        Outcome::Refuted => 1,
        Outcome::Inconclusive => 3,
        Outcome::NotComparable => 4,
    };
    assert_eq!(run.code, promised, "{:?}", verification.outcome);
    verification
}

#[test]
fn a_fix_that_worked_is_not_refuted() {
    for (fault, fixed) in pairs() {
        let verification = verify(&fault.artifacts(), &fixed.artifacts());
        assert_ne!(verification.outcome, Outcome::Refuted, "{} to {}: {}", fault.name(), fixed.name(), verification.why);
    }
}

#[test]
fn no_change_confirms_nothing() {
    for (fault, _) in pairs() {
        let verification = verify(&fault.artifacts(), &fault.artifacts());
        assert_ne!(verification.outcome, Outcome::Confirmed, "{}: {}", fault.name(), verification.why);
    }
}

/// A misspelled id is no verdict on the change.
#[test]
fn a_hypothesis_nobody_stated_is_refused_with_those_that_are() {
    let (fault, _) = pairs().swap_remove(0);
    let verify =
        |id: &str, after: &Path| program::run([Path::new("verify"), &fault.artifacts(), after, Path::new("--hypothesis"), Path::new(id)]);
    let run = verify("h99", Path::new("nowhere"));
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    let known = run.stderr.strip_prefix("error: the report of BEFORE has no hypothesis `h99`; it states ").expect(&run.stderr);
    let first = known.trim_end().split(", ").next().unwrap();
    assert_ne!(verify(first, &fault.artifacts()).code, 2);
}
