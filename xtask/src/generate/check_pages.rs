//! `docs/checks/<id>.md` from each check's own page, and the list of all.

use analysis::checks::{CHECKS, Check};
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
    format!("{NOTICE}\n# {}\n\nLayer: {}\n\n{}\n", check.id, check.layer.as_str(), check.page.trim())
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
            let summary = check.page.trim_start().lines().next().unwrap_or_default().trim();
            text.push_str(&format!("- [`{id}`](checks/{id}.md): {summary}\n", id = check.id));
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
