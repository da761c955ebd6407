//! `docs/validation.md`: on what evidence each failure mode was ever tried, from the case files themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use analysis::checks::CHECKS;
use analysis::precedence::LIMITS;
use anyhow::ensure;

use super::NOTICE;
use crate::cases;

/// Provenances, best first.
const BEST_FIRST: [&str; 5] = ["recorded", "trace", "report", "simulated", "typed"];

/// The page.
pub(super) fn render(root: &Path) -> anyhow::Result<String> {
    let cases = cases::read(&root.join("cases"))?;
    let mut page = format!("{NOTICE}\n# On what each failure mode was tried\n\n");
    page.push_str("Cases shipped in `cases/`, by the failure mode that must be found. A failure mode that only typed or simulated\n");
    page.push_str("evidence ever exercised is printed *unvalidated* and its confidence stops at 0.6.\n\n");
    page.push_str("| failure mode | best evidence | found in | look-alikes told apart |\n|---|---|---|---|\n");
    for check in CHECKS {
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for case in cases.iter().filter(|case| case.finds(check.id)) {
            *found.entry(case.provenance.as_str()).or_default() += 1;
        }
        let best = BEST_FIRST.into_iter().find(|known| found.contains_key(known)).unwrap_or("none");
        ensure!(
            best == check.validated_on || check.rank >= LIMITS,
            "`{}` says it was validated on {} evidence, its cases say {best}: make `validated_on` say so too",
            check.id,
            check.validated_on
        );
        let counts: Vec<String> = BEST_FIRST.into_iter().filter_map(|known| Some(format!("{} {known}", found.get(known)?))).collect();
        let alike = cases.iter().filter(|case| case.look_alike_of == check.id).count();
        writeln!(page, "| [`{}`](checks/{}.md) | {best} | {} | {alike} |", check.id, check.id, counts.join(", "))?;
    }
    let count = |expected: &str| cases.iter().filter(|case| case.expected == expected).count();
    writeln!(page, "\n{} cases must be called healthy, {} must be called undecided.", count("healthy"), count("insufficient"))?;
    Ok(page)
}
