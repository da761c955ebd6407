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

#[test]
fn hostile_strings_open_no_markup() {
    let page = render(&fixtures::hostile());
    let outside_code: String = page.replace("\\`", "").split('`').step_by(2).collect();
    assert!(!outside_code.contains("<script") && !outside_code.contains("<img") && !outside_code.contains("</style"), "{page}");
    assert!(!page.chars().any(|sign| sign.is_control() && sign != '\n'));
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let bars = line.replace("\\|", "").matches('|').count();
        assert!((4..=7).contains(&bars), "a cell broke the table: {line}");
    }
}
