//! Verification on synthetic captures.

use analysis::contract::Outcome;
use analysis::verify;

use crate::synthetic::Synthetic;

fn fault() -> Synthetic {
    Synthetic { seat_wait_s: 2.0, ..Synthetic::default() }
}

fn fix() -> Synthetic {
    // The same rate while requests arrive: 16 running either way.
    Synthetic { seats: 32.0, running: 16.5, ..Synthetic::default() }
}

#[test]
fn a_fix_is_confirmed_and_its_reverse_refuted() {
    let (before, after) = (fault().build(), fix().build());
    let forward = verify(&before, &after, None);
    assert_eq!(forward.outcome, Outcome::Confirmed, "{forward:#?}");
    let backward = verify(&after, &before, None);
    assert_eq!(backward.outcome, Outcome::Refuted, "{backward:#?}");
}

#[test]
fn a_run_against_itself_is_never_confirmed() {
    for synthetic in
        [fault(), fix(), Synthetic { kv_wait_s: 1.0, ..Synthetic::default() }, Synthetic { held_s: 0.5, ..Synthetic::default() }]
    {
        let capture = synthetic.build();
        assert_ne!(verify(&capture, &capture, None).outcome, Outcome::Confirmed);
    }
}

#[test]
fn another_load_is_not_comparable() {
    let outcome = verify(&fault().build(), &Synthetic { running: 3.0, ..fix() }.build(), None);
    assert_eq!(outcome.outcome, Outcome::NotComparable);
    let outcome = verify(&fault().build(), &Synthetic { prompt: 400.0, ..fix() }.build(), None);
    assert_eq!(outcome.outcome, Outcome::NotComparable);
}

#[test]
fn an_unknown_hypothesis_is_named_as_such() {
    let outcome = verify(&fault().build(), &fix().build(), Some("h9"));
    assert_eq!(outcome.outcome, Outcome::Inconclusive);
    assert!(outcome.why.contains("h9") && outcome.why.contains("h1"), "{}", outcome.why);
}
