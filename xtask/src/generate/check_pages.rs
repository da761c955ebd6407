//! `docs/checks/<id>.md` from each check's own page, and the list of all.

use analysis::check::Check;
use analysis::checks::CHECKS;
use analysis::contract::Layer;

use super::{NOTICE, Pages};

/// Adds a page per failure mode and `docs/checks.md`.
pub(super) fn render(pages: &mut Pages) {
    for check in CHECKS {
        pages.insert(format!("docs/checks/{}.md", check.id).into(), page(check));
    }
    pages.insert("docs/checks.md".into(), list(CHECKS));
}

fn page(check: &Check) -> String {
    format!("{NOTICE}\n# {}\n\nLayer: {}\n\n{}\n", check.id, check.layer.as_str(), unindented(check.page).trim())
}

/// Doc comments keep the space behind `///`.
fn unindented(page: &str) -> String {
    let lines = page.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// The first paragraph of a page, on one line.
fn summary(page: &str) -> String {
    let lines = page.trim_start().lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

fn list(checks: &[Check]) -> String {
    let mut text =
        format!("{NOTICE}\n# Failure modes\n\nWhat is decided today, by layer. `inferoscope explain CHECK` prints the same pages.\n");
    for layer in Layer::ALL {
        let mut of_layer = checks.iter().filter(|check| check.layer == layer).peekable();
        if of_layer.peek().is_some() {
            text.push_str(&format!("\n## {}\n\n", layer.as_str()));
        }
        for check in of_layer {
            text.push_str(&format!("- [`{id}`](checks/{id}.md): {}\n", summary(check.page), id = check.id));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_mode_has_a_page_and_a_line_in_the_list() {
        let mut pages = Pages::new();
        render(&mut pages);
        assert_eq!(pages.len(), CHECKS.len() + 1);
        let list = &pages[std::path::Path::new("docs/checks.md")];
        assert_eq!(list.matches("\n- [`").count(), CHECKS.len());
    }
}
