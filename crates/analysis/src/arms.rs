//! Arms of one capture side by side: which are of one system, and what differs between two of them.
//!
//! The first arm is the baseline of the others, yet the sick one is often the first and a later one its repair. A check
//! that lives from a comparison looks at all arms of its system, and says which it took.

use crate::evidence::{Evidence, Point};

/// True when two arms are runs of one system, so that their times may be compared. An arm that says it is `another
/// machine`, `another model` or `another deployment` is of the same system only as arms that begin with the same words.
pub fn are_of_one_system(a: &Evidence, b: &Evidence) -> bool {
    let (a_text, b_text) = (a.changed.trim(), b.changed.trim());
    let same_device = a.device.is_empty() || b.device.is_empty() || a.device == b.device;
    match (is_elsewhere(a), is_elsewhere(b)) {
        (false, false) => same_device,
        (true, true) => same_device && (a_text.starts_with(b_text) || b_text.starts_with(a_text)),
        _ => false,
    }
}

/// True when an arm says that it is not of the system the first arm is of.
pub fn is_elsewhere(evidence: &Evidence) -> bool {
    const ELSEWHERE: [&str; 3] = ["another ", "a second rig", "a third rig"];
    let changed = evidence.changed.trim().to_ascii_lowercase();
    ELSEWHERE.iter().any(|words| changed.starts_with(words))
}

/// A quantity in two arms at the same load: `key` (`client.concurrency`), the value here and there.
pub type Pair = (f64, f64, f64);

/// A quantity of two arms at equal operating points: rows of their sweeps with the same `key`, or the whole-run figures,
/// then with key 0.
pub fn at_equal_load(here: &Evidence, there: &Evidence, quantity: &str, key: &str) -> Vec<Pair> {
    let whole = here.figures.typical(quantity).zip(there.figures.typical(quantity));
    if let Some((mine, theirs)) = whole {
        return vec![(0.0, mine, theirs)];
    }
    let rows = |evidence: &Evidence| -> Vec<(f64, f64)> {
        let row = |point: &Point| Some((point.typical(key)?, point.typical(quantity)?));
        let swept: Vec<(f64, f64)> = evidence.figures.points().filter_map(row).collect();
        // An arm without a sweep is a row of its own.
        let whole = || evidence.figures.typical(key).zip(evidence.figures.typical(quantity));
        if swept.is_empty() { whole().into_iter().collect() } else { swept }
    };
    let theirs = rows(there);
    let same = |load: f64| theirs.iter().find(|(other, _)| (other - load).abs() <= 1e-9 * load.abs()).map(|(_, value)| *value);
    rows(here).into_iter().filter_map(|(load, mine)| Some((load, mine, same(load)?))).collect()
}

/// Typed load of two arms differs by more than a tenth where both state it: their times are not comparable.
pub fn load_differs(a: &Evidence, b: &Evidence) -> bool {
    ["client.concurrency", "client.request_rate", "server.prompt_tokens", "server.output_tokens"].iter().any(|name| {
        let pair = a.figures.typical(name).zip(b.figures.typical(name));
        pair.is_some_and(|(mine, theirs)| (mine - theirs).abs() > 0.1 * mine.abs().max(theirs.abs()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(changed: &str) -> Evidence {
        Evidence { changed: changed.to_string(), ..Evidence::default() }
    }

    #[test]
    fn another_machine_is_compared_with_itself_only() {
        let (first, proxy) = (arm(""), arm("nginx in front"));
        let (m1, m1_draft) = (arm("another machine: M1"), arm("another machine: M1, with the draft"));
        assert!(are_of_one_system(&first, &proxy));
        assert!(are_of_one_system(&m1, &m1_draft));
        assert!(!are_of_one_system(&first, &m1));
        assert!(!are_of_one_system(&m1, &arm("another machine: H100")));
    }
}
