//! `docs/validation.md`: on what evidence each failure mode, format and engine was ever tried, from cases and samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use analysis::checks::CHECKS;
use analysis::precedence::LIMITS;
use anyhow::ensure;

use super::NOTICE;
use crate::cases::{self, Case};

/// Provenances, best first.
const BEST_FIRST: [&str; 5] = ["recorded", "trace", "report", "simulated", "typed"];

/// The page.
pub(super) fn render(root: &Path) -> anyhow::Result<String> {
    let cases = cases::read(&root.join("cases"))?;
    let mut page = format!("{NOTICE}\n# On what each failure mode was tried\n\n");
    page.push_str("Cases shipped in `cases/`, by the failure mode that must be found. A failure mode that only typed or simulated\n");
    page.push_str("evidence ever exercised is printed *unvalidated* and its confidence stops at 0.6.\n\n");
    page.push_str("*Hits* are cases that show it and in which the program finds it today, *misses* those in which it does not, as their\n");
    page.push_str(
        "`expected.txt` has it; *false alarms* are look-alikes of it in which it is found nevertheless. A miss is kept as a case\n",
    );
    page.push_str("until it is mended. These are the cases it was built with: how it does on others is for others to measure.\n\n");
    page.push_str("| failure mode | best evidence | cases | hits | misses | look-alikes | false alarms |\n|---|---|---|---|---|---|---|\n");
    let mut wrong = Vec::new();
    for check in CHECKS {
        let tried = Tried::read(&cases, check.id);
        if tried.best() != check.validated_on && check.rank < LIMITS {
            wrong.push(format!("`{}` says `{}`, its cases say `{}`", check.id, check.validated_on, tried.best()));
        }
        writeln!(page, "| [`{}`](checks/{}.md) | {} |", check.id, check.id, tried.row())?;
    }
    ensure!(wrong.is_empty(), "`validated_on` must be the best evidence that a case brings: {}", wrong.join("; "));
    let count = |expected: &str| cases.iter().filter(|case| case.expected == expected).count();
    writeln!(page, "\n{} cases must be called healthy, {} must be called undecided.", count("healthy"), count("insufficient"))?;
    page.push_str(&super::samples::section(root)?);
    page.push_str(&super::measured_runs::section(root)?);
    Ok(page)
}

/// What cases say of one failure mode.
struct Tried<'c> {
    by_provenance: BTreeMap<&'c str, usize>,
    hit_count: usize,
    misses: Vec<String>,
    alike_count: usize,
    alarms: Vec<String>,
}

impl<'c> Tried<'c> {
    fn read(cases: &'c [Case], check: &str) -> Self {
        let mut tried = Self { by_provenance: BTreeMap::new(), hit_count: 0, misses: Vec::new(), alike_count: 0, alarms: Vec::new() };
        for case in cases {
            let role = Case::role(&case.answers(), check);
            if case.finds(check) {
                *tried.by_provenance.entry(case.provenance.as_str()).or_default() += 1;
                if role.is_some() { tried.hit_count += 1 } else { tried.misses.push(name(case)) }
            }
            if case.look_alike_of == check && case.check != check {
                tried.alike_count += 1;
                if role.is_some_and(|role| role == "cause" || role == "contributes") {
                    tried.alarms.push(name(case));
                }
            }
        }
        tried
    }

    fn best(&self) -> &'static str {
        BEST_FIRST.into_iter().find(|known| self.by_provenance.contains_key(known)).unwrap_or("none")
    }

    fn row(&self) -> String {
        let counts: Vec<String> =
            BEST_FIRST.into_iter().filter_map(|known| Some(format!("{} {known}", self.by_provenance.get(known)?))).collect();
        let listed = |names: &[String]| if names.is_empty() { "0".to_string() } else { format!("{}: {}", names.len(), names.join(", ")) };
        let (misses, alarms) = (listed(&self.misses), listed(&self.alarms));
        format!("{} | {} | {} | {misses} | {} | {alarms}", self.best(), counts.join(", "), self.hit_count, self.alike_count)
    }
}

/// Last two parts of a case's folder.
fn name(case: &Case) -> String {
    let mut parts: Vec<_> = case.folder.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.reverse();
    format!("`{}`", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(folder: &Path, check: &str, look_alike_of: &str, answers: &str) -> Case {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("expected.txt"), answers).unwrap();
        let (check, look_alike_of) = (check.to_string(), look_alike_of.to_string());
        Case { folder: folder.into(), expected: "found".into(), provenance: "typed".into(), check, look_alike_of, ..Case::default() }
    }

    #[test]
    fn hits_misses_and_false_alarms_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join("one").join(name);
        let cases = [
            case(&at("hit"), "one", "", "head\n\none                found cause 0.9\n"),
            case(&at("miss"), "one", "", "one                cannot tell\none_more           found cause 0.9\n"),
            case(&at("alike"), "two", "one", "one                clear\ntwo found cause 1.00\n"),
            case(&at("beside"), "two", "one", "one                found context -\n"),
            case(&at("alarm"), "two", "one", "one                found contributes 0.10\n"),
        ];
        assert_eq!(Tried::read(&cases, "one").row(), "typed | 2 typed | 1 | 1: `one/miss` | 3 | 1: `one/alarm`");
        assert_eq!(Tried::read(&cases, "three").best(), "none");
    }
}
