//! What the README shows of the program: its first screen on the example, and the failure modes it decides.
//! Each stands between two marks; the rest of the README is written by hand.

use std::fs;

use analysis::checks::CHECKS;
use analysis::contract::Layer;
use anyhow::{Context as _, ensure};

use crate::workspace::{cargo, root};

const EXAMPLE: &str = "examples/slow-first-token";

/// The README as it should be.
pub(super) fn render() -> anyhow::Result<String> {
    let readme = fs::read_to_string(root().join("README.md")).context("could not read `README.md`")?;
    let readme = paste(&readme, "screen", &format!("```text\n{}\n```", screen()?.trim_end()))?;
    paste(&readme, "checks", &decided())
}

fn screen() -> anyhow::Result<String> {
    ensure!(root().join(EXAMPLE).is_dir(), "`{EXAMPLE}` is missing");
    let words = [
        "run",
        "--quiet",
        "--package",
        "cli",
        "--",
        "diagnose",
        EXAMPLE,
        "--width",
        "80",
        "--color",
        "never",
        "--exit-zero",
        "--no-ledger",
    ];
    let output = cargo(&words).output().context("could not start cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`diagnose {EXAMPLE}` failed: {}", told.trim());
    String::from_utf8(output.stdout).context("the screen is not text")
}

/// Failure modes by layer, layers without any named as such.
fn decided() -> String {
    let mut lines = Vec::new();
    for layer in Layer::ALL {
        let links: Vec<String> = CHECKS
            .iter()
            .filter(|check| check.layer == layer)
            .map(|check| format!("[`{id}`](docs/checks/{id}.md)", id = check.id))
            .collect();
        let links = if links.is_empty() { "nothing yet".to_string() } else { links.join(", ") };
        lines.push(format!("- {}: {links}", layer.as_str()));
    }
    lines.join("\n")
}

/// Puts `content` between `<!-- mark -->` and `<!-- /mark -->`.
fn paste(readme: &str, mark: &str, content: &str) -> anyhow::Result<String> {
    let (start, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->\n"));
    let missing = || format!("expected the lines `{}` and `{}` in `README.md`", start.trim(), end.trim());
    let (before, rest) = readme.split_once(&start).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    Ok(format!("{before}{start}{content}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_between_the_marks_is_replaced() {
        let readme = "top\n<!-- screen -->\nold\n<!-- /screen -->\nbottom\n";
        let pasted = paste(readme, "screen", "new").unwrap();
        assert_eq!(pasted, "top\n<!-- screen -->\nnew\n<!-- /screen -->\nbottom\n");
        assert_eq!(paste(&pasted, "screen", "new").unwrap(), pasted);
        assert!(paste(readme, "checks", "new").is_err());
    }

    #[test]
    fn every_layer_and_failure_mode_is_listed_once() {
        let decided = decided();
        assert_eq!(decided.lines().count(), Layer::ALL.len());
        for check in CHECKS {
            assert_eq!(decided.matches(&format!("[`{}`]", check.id)).count(), 1, "{}", check.id);
        }
    }
}
