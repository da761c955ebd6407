//! The first screen in the README: the program's own output on the example, pasted between two marks.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::workspace::{cargo, root};

const EXAMPLE: &str = "examples/slow-first-token";
const START: &str = "<!-- screen -->\n";
const END: &str = "<!-- /screen -->\n";

/// The README as it should be.
pub(super) fn readme_with_screen() -> anyhow::Result<String> {
    let readme = fs::read_to_string(root().join("README.md")).context("could not read `README.md`")?;
    paste(&readme, &screen()?)
}

fn screen() -> anyhow::Result<String> {
    ensure!(root().join(EXAMPLE).is_dir(), "`{EXAMPLE}` is missing");
    let mut command =
        cargo(&["run", "--quiet", "--package", "cli", "--", "diagnose", EXAMPLE, "--width", "80", "--color", "never", "--exit-zero"]);
    let output = command.output().context("could not start cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`diagnose {EXAMPLE}` failed: {}", told.trim());
    String::from_utf8(output.stdout).context("the screen is not text")
}

fn paste(readme: &str, screen: &str) -> anyhow::Result<String> {
    let missing = || format!("expected the lines `{}` and `{}` in `README.md`", START.trim(), END.trim());
    let (before, rest) = readme.split_once(START).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{START}```text\n{}\n```\n{END}{after}", screen.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_replaces_what_stood_between_the_marks() {
        let readme = format!("top\n{START}old\n{END}bottom\n");
        let pasted = paste(&readme, "SCHEDULING  batch_cap_reached\n").unwrap();
        assert_eq!(pasted, format!("top\n{START}```text\nSCHEDULING  batch_cap_reached\n```\n{END}bottom\n"));
        assert_eq!(paste(&pasted, "SCHEDULING  batch_cap_reached\n").unwrap(), pasted);
        assert!(paste("no marks", "x").is_err());
    }
}
