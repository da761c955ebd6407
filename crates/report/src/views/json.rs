//! The documents as JSON, and their schemas.
//!
//! Fields come in the order of the contract, maps in the order of their keys, so equal reports give equal bytes. A figure
//! that is not finite is `null`: JSON has no word for it.

use analysis::contract::{Report, Verification};
use schemars::{JsonSchema, schema_for};
use serde::Serialize;

/// A diagnosis, pretty-printed, with a final line break.
pub fn render(report: &Report) -> String {
    pretty(report)
}

/// A verification, pretty-printed, with a final line break.
pub fn render_verification(verification: &Verification) -> String {
    pretty(verification)
}

/// JSON Schema of a diagnosis.
pub fn schema() -> String {
    schema_of::<Report>()
}

/// JSON Schema of a verification.
pub fn verification_schema() -> String {
    schema_of::<Verification>()
}

fn schema_of<T: JsonSchema>() -> String {
    pretty(&schema_for!(T))
}

/// Serializing structs, strings, numbers and string-keyed maps cannot fail.
fn pretty(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}
