//! The list of views.

use report::views::{VIEWS, ViewOptions, find};

use crate::fixtures;

#[test]
fn every_view_shows_every_report() {
    let reports = [
        fixtures::open_loop_32(),
        fixtures::healthy(),
        fixtures::insufficient(),
        fixtures::layer_only(),
        fixtures::trace_only(),
        fixtures::empty(),
        fixtures::hostile(),
    ];
    for view in VIEWS {
        for report in &reports {
            let text = (view.render)(report, &ViewOptions::default());
            assert!(text.len() > 40 && text.ends_with('\n'), "{} of {}", view.id, report.verdict.sentence);
            assert_eq!(text, (view.render)(report, &ViewOptions::default()), "{} differs between two runs", view.id);
        }
    }
}

#[test]
fn ids_and_extensions_are_unique_and_found() {
    for (at, view) in VIEWS.iter().enumerate() {
        assert!(VIEWS[..at].iter().all(|other| other.id != view.id && other.extension != view.extension), "{}", view.id);
        assert_eq!(find(view.id).map(|found| found.extension), Some(view.extension));
    }
    assert!(find("pdf").is_none());
}
