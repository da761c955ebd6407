//! Static order in which claims are served (attribution, section 4). Checks carry their rank; this file holds the
//! owners that are no checks, and the test that the order is total wherever two owners can meet.

/// Rank of `own_floor`: what the same requests cost unhindered. After every check, before sharing and limits.
pub const OWN_FLOOR: u16 = 200;
/// Rank of `sharing`: the price of batching.
pub const SHARING: u16 = 210;
/// Limits of hardware and model (`Found::limit`) claim from this rank on: what nobody else owns.
pub const LIMITS: u16 = 220;
/// Name of the floor's owner.
pub const OWN_FLOOR_ID: &str = "own_floor";
/// Name of sharing's owner.
pub const SHARING_ID: &str = "sharing";

#[cfg(test)]
mod tests {
    use crate::checks::CHECKS;

    #[test]
    fn order_is_total_where_two_checks_share_a_phase() {
        for (at, a) in CHECKS.iter().enumerate() {
            assert!(a.rank < super::OWN_FLOOR || a.rank > super::SHARING, "{} claims among the floor and sharing", a.id);
            for b in &CHECKS[at + 1..] {
                let meet = a.phases.iter().any(|phase| b.phases.contains(phase));
                assert!(!meet || a.rank != b.rank, "{} and {} share a phase and a rank", a.id, b.id);
            }
        }
    }

    #[test]
    fn every_check_has_its_file_and_page() {
        for check in CHECKS {
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/checks/{}.rs", check.id));
            assert!(file.exists(), "{}", check.id);
            for heading in ["## Why it costs time", "## How to confirm", "## Fix", "## When this is wrong"] {
                assert!(check.page.contains(heading), "{} lacks {heading}", check.id);
            }
        }
    }
}
