//! Traces in JSON lines: Mooncake, Bailian, LLMServingSim.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Number;

use super::{Fault, Format, Record, RecordReader};

/// All fields of all formats; which are there says which format it is.
#[derive(Deserialize)]
struct Fields {
    timestamp: Option<Number>,
    arrival_time: Option<Number>,
    arrival_time_ns: Option<Number>,
    #[serde(alias = "input_toks")]
    input_length: Option<i64>,
    #[serde(alias = "output_toks")]
    output_length: Option<i64>,
    hash_ids: Option<Vec<u64>>,
    chat_id: Option<i64>,
    parent_chat_id: Option<i64>,
}

/// Reads records and, for chats, which conversation they belong to.
pub(super) struct JsonLines {
    format: Format,
    session_of_chat: HashMap<i64, u32>,
    sessions: u32,
}

/// The format of a first record.
pub(super) fn open(line: &str) -> Option<(Format, JsonLines)> {
    let fields: Fields = serde_json::from_str(line).ok()?;
    fields.input_length?;
    let format = if fields.chat_id.is_some() {
        Format::Bailian
    } else if fields.timestamp.is_some() {
        Format::Mooncake
    } else if fields.arrival_time.is_some() || fields.arrival_time_ns.is_some() {
        Format::EngineLog
    } else {
        return None;
    };
    Some((format, JsonLines { format, session_of_chat: HashMap::new(), sessions: 0 }))
}

fn missing<T>(field: &'static str, value: Option<T>) -> Result<T, Fault> {
    value.ok_or((field, "a value", "nothing".to_string()))
}

/// A time in this unit. Floats carry about 16 digits: seconds since 1970 are exact to 240 ns.
fn time_ns(field: &'static str, value: &Number, unit_ns: i64) -> Result<i64, Fault> {
    let wrong = || (field, "a time", value.to_string());
    if let Some(whole) = value.as_i64() {
        return whole.checked_mul(unit_ns).ok_or_else(wrong);
    }
    let units = value.as_f64().ok_or_else(wrong)?;
    let (whole, part) = (units.trunc(), units.fract());
    if whole.abs() > 9.2e18 / unit_ns as f64 {
        return Err(wrong());
    }
    Ok(whole as i64 * unit_ns + (part * unit_ns as f64).round() as i64)
}

impl JsonLines {
    fn arrival_ns(&self, fields: &Fields) -> Result<i64, Fault> {
        match (self.format, &fields.arrival_time_ns) {
            (Format::Mooncake, _) => time_ns("timestamp", &missing("timestamp", fields.timestamp.clone())?, 1_000_000),
            (Format::Bailian, _) => time_ns("timestamp", &missing("timestamp", fields.timestamp.clone())?, 1_000_000_000),
            (_, Some(ns)) => time_ns("arrival_time_ns", ns, 1),
            _ => time_ns("arrival_time", &missing("arrival_time", fields.arrival_time.clone())?, 1_000_000_000),
        }
    }

    /// The conversation of a chat: that of its parent, or a new one. Ids below 0 mean no parent.
    fn session(&mut self, fields: &Fields) -> u32 {
        let Some(chat) = fields.chat_id else { return 0 };
        let known = fields.parent_chat_id.filter(|parent| *parent >= 0).and_then(|parent| self.session_of_chat.get(&parent).copied());
        let session = known.unwrap_or_else(|| {
            self.sessions = self.sessions.saturating_add(1);
            self.sessions
        });
        self.session_of_chat.insert(chat, session);
        session
    }
}

impl RecordReader for JsonLines {
    fn record(&mut self, line: &str, record: &mut Record) -> Result<(), Fault> {
        let fields: Fields = serde_json::from_str(line).map_err(|error| ("line", "a JSON object of this trace", error.to_string()))?;
        record.arrival_ns = self.arrival_ns(&fields)?;
        record.prompt_tokens = missing("input length", fields.input_length)?;
        record.output_tokens = missing("output length", fields.output_length)?;
        record.session = self.session(&fields);
        record.blocks.clear();
        record.blocks.extend(fields.hash_ids.unwrap_or_default());
        Ok(())
    }
}
