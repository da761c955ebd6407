//! What `inference-perf` found wrong with its own reports (`validation.json`): a note per warning.

use capture::Severity;

use crate::builder::Builder;
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// Longest message that is kept, in characters.
const MAX_MESSAGE: usize = 200;

/// Reads the object of reports: for each the lists of its warnings and errors.
pub(super) fn read(json: &mut Json<&mut Input<'_>>, builder: &mut Builder<'_>) -> JsonResult<()> {
    json.object(|report, json| {
        if json.peek() != Some(b'{') {
            return json.skip();
        }
        json.object(|kind, json| match (kind, json.peek()) {
            ("warnings" | "errors", Some(b'[')) => json.array(|json| finding(report, json, builder)),
            _ => json.skip(),
        })
    })
}

fn finding(report: &str, json: &mut Json<&mut Input<'_>>, builder: &mut Builder<'_>) -> JsonResult<()> {
    if json.peek() != Some(b'{') {
        return json.skip();
    }
    let (mut check, mut message) = (String::new(), String::new());
    json.object(|key, json| {
        match key {
            "check" => check = json.lead()?.unwrap_or_default(),
            "message" => message = json.lead()?.unwrap_or_default(),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    let shown = |text: &str| text.chars().filter(|character| !character.is_control()).take(MAX_MESSAGE).collect::<String>();
    let place: String = format!("{} {}", shown(report), shown(&check));
    builder.issue(Severity::Note, "tool_warning", &place, 1, format!("`inference-perf` found with its own report: {}", shown(&message)));
    Ok(())
}
