//! The documents as JSON, and their schemas.
//!
//! Fields come in the order of the contract, maps in the order of their keys, so equal reports give equal bytes. A figure
//! that is not finite is `null`: JSON has no word for it. Signs that would steer a terminal or reorder a line are written as
//! escapes: the document says the same, and can be looked at.

use analysis::contract::{Report, Verification};
use analysis::plan::document::Plan;
use analysis::round::Round;
use analysis::whatif::WhatIf;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;

use crate::clean::is_unsafe;

/// A diagnosis, pretty-printed, with a final line break.
pub fn render(report: &Report) -> String {
    pretty(report)
}

/// A verification, pretty-printed, with a final line break.
pub fn render_verification(verification: &Verification) -> String {
    pretty(verification)
}

/// Predictions: one, or all that a search tried.
pub fn render_what_if(answers: &[WhatIf], chosen: Option<usize>, searched: bool) -> String {
    match answers {
        [answer] if !searched => pretty(answer),
        _ => pretty(&serde_json::json!({ "schema": "inferoscope.whatif_search/1", "best": chosen, "tried": answers })),
    }
}

/// JSON Schema of a prediction.
pub fn what_if_schema() -> String {
    schema_of::<WhatIf>()
}

/// A plan, pretty-printed, with a final line break.
pub fn render_plan(plan: &Plan) -> String {
    pretty(plan)
}

/// JSON Schema of a plan.
pub fn plan_schema() -> String {
    schema_of::<Plan>()
}

/// A round of the loop, pretty-printed, with a final line break.
pub fn render_round(round: &Round) -> String {
    pretty(round)
}

/// JSON Schema of a round of the loop.
pub fn round_schema() -> String {
    schema_of::<Round>()
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
    let mut text = escaped(&serde_json::to_string_pretty(document).unwrap_or_default());
    text.push('\n');
    text
}

/// Beyond ASCII a sign of a JSON document stands in a string, where an escape means the same. Those below a space are
/// escaped already.
fn escaped(document: &str) -> String {
    let must_escape = |sign: char| sign != '\n' && is_unsafe(sign);
    let mut text = String::with_capacity(document.len());
    for sign in document.chars() {
        if must_escape(sign) {
            sign.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        } else {
            text.push(sign);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_steer_a_terminal_are_escaped_and_mean_the_same() {
        let name = "a\u{1b}[31m\u{7f}\u{85}\u{9b}2J\u{202a}\u{202e}\u{2066}\u{2069}\u{e0041}\u{2028}\n größer 模型";
        let text = pretty(&vec![name]);
        assert_eq!(
            text.lines().nth(1),
            Some(r#"  "a\u001b[31m\u007f\u0085\u009b2J\u202a\u202e\u2066\u2069\udb40\udc41\u2028\n größer 模型""#)
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [name]);
    }
}
