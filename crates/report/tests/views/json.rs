//! The documents and their schemas.

use analysis::contract::Report;
use expect_test::{ExpectFile, expect_file};
use report::views::json;

use crate::{fixtures, verify};

/// `UPDATE_EXPECT=1` rewrites the schema under `docs/`.
fn check(schema: &str, expected: &ExpectFile) {
    expected.assert_eq(schema);
}

#[test]
fn the_checked_in_schemas_are_those_of_the_code() {
    check(&json::schema(), &expect_file!["../../../../docs/report.schema.json"]);
    check(&json::verification_schema(), &expect_file!["../../../../docs/verify.schema.json"]);
}

#[test]
fn a_document_reads_back_as_the_report_it_was() {
    for report in [fixtures::open_loop_32(), fixtures::healthy(), fixtures::insufficient(), fixtures::layer_only(), fixtures::empty()] {
        let text = json::render(&report);
        let read: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(read, report);
        assert_eq!(json::render(&read), text);
    }
    let verification = verify::confirmed();
    let read: analysis::contract::Verification = serde_json::from_str(&json::render_verification(&verification)).unwrap();
    assert_eq!(read, verification);
}

#[test]
fn hostile_strings_and_figures_stay_valid_json() {
    let text = json::render(&fixtures::hostile());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["verdict"]["confidence"], serde_json::Value::Null);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "control characters are escaped");
}

#[test]
fn the_fields_tools_rely_on_have_their_names() {
    let document: serde_json::Value = serde_json::from_str(&json::render(&fixtures::open_loop_32())).unwrap();
    assert_eq!(document["schema"], "inferoscope.report/1");
    assert_eq!(document["verdict"]["status"], "localized");
    assert_eq!(document["verdict"]["layer"], "scheduling");
    assert_eq!(document["verdict"]["check"], "batch_cap_reached");
    assert_eq!(document["findings"][0]["role"], "cause");
    assert_eq!(document["findings"][0]["hypotheses"][0]["predictions"][0]["primary"], true);
    assert_eq!(document["accounts"]["request"][2]["part"], "queue");
}
