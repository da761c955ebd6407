//! `cargo xtask tidy`: the rules of STYLE.md that a program can hold. Exceptions stand in `xtask/tidy-allow.toml`, each
//! with its reason; an exception nothing needs any more is an error too.

mod allowed;
mod case_rules;
mod rust_source;
mod text_rules;

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::workspace::{files, root};

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breach {
    /// Name of the rule, as in the allow list.
    pub(crate) rule: &'static str,
    /// What breaks it: a file, `file::function`, a check's missing case.
    pub(crate) what: String,
    /// What was found and what was expected.
    pub(crate) found: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.what, self.found, self.rule)
    }
}

/// Prints every breach that is not allowed.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut breaches = case_rules::breaches(&root().join("cases"))?;
    for file in files()? {
        breaches.extend(of_file(&file)?);
    }
    breaches.sort();
    let left = allowed::left_over(&root().join("xtask/tidy-allow.toml"), breaches)?;
    for complaint in &left {
        println!("{complaint}");
    }
    if !left.is_empty() {
        bail!("{} breaches of the style guide", left.len());
    }
    Ok(())
}

fn of_file(file: &Path) -> anyhow::Result<Vec<Breach>> {
    let bytes = std::fs::read(root().join(file)).with_context(|| format!("could not read `{}`", file.display()))?;
    // What is not text (compressed artifacts, images) has no style.
    let Ok(text) = String::from_utf8(bytes) else { return Ok(Vec::new()) };
    Ok(text_rules::breaches(file, &text))
}
