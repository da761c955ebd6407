//! The page.

use analysis::contract::Report;
use expect_test::{ExpectFile, expect_file};
use report::views::html::{Curve, render};

use crate::fixtures::{self, TWO_THIRTY_ONE_NS};

/// The words of a page in reading order, one block per line: tags, style and drawings left out.
fn check(report: &Report, expected: &ExpectFile) {
    let page = render(report, &curves());
    let body = page.split_once("<main ").unwrap().1;
    let mut words = String::new();
    let mut in_svg = 0;
    for piece in body.split('<') {
        let Some((tag, text)) = piece.split_once('>') else { continue };
        match tag.split(' ').next().unwrap() {
            "svg" => in_svg += 1,
            "/svg" => in_svg -= 1,
            "p" | "h1" | "h2" | "h3" | "tr" | "li" | "dl" | "section" | "figure" | "pre" | "footer" | "article" => words.push('\n'),
            "td" | "th" | "dt" | "dd" | "span" | "small" | "b" => words.push(' '),
            _ => {}
        }
        if in_svg == 0 {
            words.push_str(text);
        }
    }
    let lines: Vec<String> =
        words.lines().map(|line| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")).collect();
    let text = lines.iter().filter(|line| !line.is_empty()).fold(String::new(), |text, line| text + line + "\n");
    expected.assert_eq(&text.replace('\u{a0}', " "));
}

/// Ten minutes of the target case at one scrape per second, with a minute missing.
fn curves() -> Vec<Curve> {
    let start_ns = TWO_THIRTY_ONE_NS - 120_000_000_000;
    let times = || (0..600).filter(|at| !(400..460).contains(at)).map(|at| (at, start_ns + at * 1_000_000_000));
    let curve = |title: &str, unit: &str, value: &dyn Fn(i64) -> f64, threshold: Option<f64>| Curve {
        title: title.into(),
        unit: unit.into(),
        points: times().map(|(at, time_ns)| (time_ns, value(at))).collect(),
        threshold,
        mark_onset: true,
    };
    let wave = |at: i64, period: f64| (at as f64 / period).sin();
    vec![
        curve(
            "requests running",
            "request",
            &|at| if at < 120 { 18.0 + 6.0 * wave(at, 9.0) } else { 32.0 - f64::from(at % 7 == 0) },
            Some(32.0),
        ),
        curve("requests waiting", "request", &|at| if at < 120 { 0.0 } else { 22.6 + 5.0 * wave(at, 23.0) + 2.0 * wave(at, 3.1) }, None),
        curve("KV cache used", "ratio", &|at| if at < 120 { 0.05 + 0.01 * wave(at, 9.0) } else { 0.09 }, Some(1.0)),
        curve("TTFT mean", "s", &|at| if at < 120 { 0.11 } else { 2.51 + 0.4 * wave(at, 31.0) }, Some(1.0)),
    ]
}

#[test]
fn the_target_case_reads_in_the_order_of_the_screen() {
    check(&fixtures::open_loop_32(), &expect_file!["expected/target.page.txt"]);
}

#[test]
fn thin_evidence_starts_with_the_recording() {
    check(&fixtures::insufficient(), &expect_file!["expected/insufficient.page.txt"]);
}

#[test]
fn a_healthy_page() {
    check(&fixtures::healthy(), &expect_file!["expected/healthy.page.txt"]);
}

#[test]
fn hostile_strings_stay_text() {
    let curve = Curve { title: "</title><script>alert(1)</script>\u{1b}".into(), unit: "\"><b>".into(), ..curves()[0].clone() };
    let page = render(&fixtures::hostile(), &[curve]);
    let lower = page.to_lowercase();
    for forbidden in ["<script", "<img", "<b>", "javascript:alert(1)\"", "]]></style"] {
        assert!(!lower.contains(forbidden), "{forbidden}");
    }
    assert_eq!(lower.matches("<style>").count(), 1);
    assert_eq!(lower.matches("</style>").count(), 1);
    assert!(!page.chars().any(|sign| sign.is_control() && sign != '\n'));
    assert!(!page.contains("NaN") && !page.contains("inf%") && !page.contains("inf\""));
    assert!(page.len() < 200_000, "{} bytes", page.len());
    check_tags(&page);
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    for report in [
        fixtures::open_loop_32(),
        fixtures::healthy(),
        fixtures::insufficient(),
        fixtures::layer_only(),
        fixtures::trace_only(),
        fixtures::empty(),
    ] {
        let page = render(&report, &curves());
        for forbidden in ["src=", "href=", "url(", "@import", "<script", "<link", "<iframe", "onload", "NaN"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        check_tags(&page);
    }
}

#[test]
fn a_page_of_devices_counts_devices_and_holds_kernels_against_them() {
    let page = render(&fixtures::trace_only(), &[]);
    assert!(page.contains("2 devices") && !page.contains("2 requests"), "the population is not of requests");
    for cell in ["nvjet_tst", "matmul b=1 m=888 n=640 k=2880 bf16", "42\u{a0}% of its compute bound", "each too short to judge"] {
        assert!(page.contains(cell), "{cell}");
    }
}

/// Every tag is closed in order, and no attribute holds a bare quote.
fn check_tags(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("a bare `<`: {piece}"));
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !matches!(name, "meta" | "!doctype") {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn a_thousand_issues_are_cut_and_counted() {
    let mut report = fixtures::insufficient();
    report.issues =
        (0..1000).map(|at| analysis::contract::InputIssue { place: format!("line {at}"), ..report.issues[0].clone() }).collect();
    let page = render(&report, &[]);
    assert_eq!(page.matches("<td class=\"\" data-label=\"place\">").count(), 300);
    assert!(page.contains("700 more rows in the JSON document"));
}
