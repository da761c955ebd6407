//! The text for an issue.

use analysis::contract::Report;
use expect_test::{ExpectFile, expect_file};
use report::views::markdown::render;

use crate::fixtures;

fn check(report: &Report, expected: &ExpectFile) {
    expected.assert_eq(&render(report));
}

#[test]
fn the_target_case() {
    check(&fixtures::open_loop_32(), &expect_file!["expected/target.md"]);
}

#[test]
fn thin_evidence() {
    check(&fixtures::insufficient(), &expect_file!["expected/insufficient.md"]);
}

/// A page without its fenced blocks; a fence ends at a line of as many backticks and nothing else.
fn without_fences(page: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut kept = String::new();
    for line in page.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => kept.extend([line, "\n"]),
        }
    }
    assert_eq!(fence, None, "a fence stays open");
    kept
}

#[test]
fn hostile_strings_open_no_markup() {
    let page = render(&fixtures::hostile());
    let outside_code: String = without_fences(&page).replace("\\`", "").split('`').step_by(2).collect();
    assert!(!outside_code.contains("<script") && !outside_code.contains("<img") && !outside_code.contains("</style"), "{page}");
    assert!(!page.chars().any(|sign| sign.is_control() && sign != '\n'));
    for line in without_fences(&page).lines().filter(|line| line.starts_with('|')) {
        let bars = line.replace("\\|", "").matches('|').count();
        assert!((4..=7).contains(&bars), "a cell broke the table: {line}");
    }
}
