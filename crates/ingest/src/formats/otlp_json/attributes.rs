//! Attributes of a span: the few that say when and how much, never what was asked or by whom.
//!
//! Values of other keys are skipped unread: they hold prompts, answers, headers, keys. vLLM and SGLang share the names of
//! `gen_ai.latency.*`, which the semantic conventions do not have; token counts come under the old names of the
//! conventions (`prompt_tokens`) and the new ones (`input_tokens`).

use std::io::BufRead;

use capture::text_time::seconds_to_ns;

use crate::json::{Json, JsonResult};

/// Longest id or name that is kept.
const MAX_TEXT_CHARS: usize = 200;

/// What a span tells of a request. Durations are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) request_id: String,
    pub(super) model: String,
    pub(super) finish: String,
    pub(super) queue_ns: Option<i64>,
    pub(super) ttft_ns: Option<i64>,
    pub(super) e2e_ns: Option<i64>,
    pub(super) prefill_ns: Option<i64>,
    pub(super) decode_ns: Option<i64>,
    pub(super) tokens_in: Option<i64>,
    pub(super) tokens_out: Option<i64>,
    pub(super) tokens_cached: Option<i64>,
    pub(super) status: Option<i64>,
}

impl Told {
    /// Reads one attribute: `{"key": ..., "value": {"doubleValue": ...}}`.
    pub(super) fn read<R: BufRead>(&mut self, json: &mut Json<R>) -> JsonResult<()> {
        let mut known = None;
        json.object(|key, json| {
            match (key, known) {
                ("key", _) => known = Some(kind_of(&json.text()?)),
                ("value", Some(kind)) if kind != Kind::Unknown => {
                    if let Some(text) = value(json)? {
                        self.take(kind, &text);
                    }
                }
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn take(&mut self, kind: Kind, text: &str) {
        let seconds = || seconds_to_ns(text.as_bytes()).filter(|ns| *ns >= 0);
        let count = || text.parse::<i64>().ok().filter(|count| *count >= 0);
        match kind {
            Kind::Unknown => {}
            Kind::RequestId => self.request_id = short(text),
            Kind::Model => self.model = short(text),
            Kind::Finish => self.finish = short(text),
            Kind::Queue => self.queue_ns = seconds(),
            Kind::Ttft => self.ttft_ns = seconds(),
            Kind::E2e => self.e2e_ns = seconds(),
            Kind::Prefill => self.prefill_ns = seconds(),
            Kind::Decode => self.decode_ns = seconds(),
            Kind::TokensIn => self.tokens_in = count(),
            Kind::TokensOut => self.tokens_out = count(),
            Kind::TokensCached => self.tokens_cached = count(),
            Kind::Status => self.status = count(),
        }
    }
}

/// Text cut to what a name needs.
pub(super) fn short(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_TEXT_CHARS).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unknown,
    RequestId,
    Model,
    Finish,
    Queue,
    Ttft,
    E2e,
    Prefill,
    Decode,
    TokensIn,
    TokensOut,
    TokensCached,
    Status,
}

fn kind_of(key: &str) -> Kind {
    match key {
        "gen_ai.request.id" => Kind::RequestId,
        "gen_ai.response.model" | "gen_ai.request.model" => Kind::Model,
        "gen_ai.response.finish_reasons" => Kind::Finish,
        "gen_ai.latency.time_in_queue" => Kind::Queue,
        "gen_ai.latency.time_to_first_token" => Kind::Ttft,
        "gen_ai.latency.e2e" => Kind::E2e,
        "gen_ai.latency.time_in_model_prefill" => Kind::Prefill,
        "gen_ai.latency.time_in_model_decode" => Kind::Decode,
        "gen_ai.usage.prompt_tokens" | "gen_ai.usage.input_tokens" => Kind::TokensIn,
        "gen_ai.usage.completion_tokens" | "gen_ai.usage.output_tokens" => Kind::TokensOut,
        "gen_ai.usage.cached_tokens" | "gen_ai.usage.cache_read.input_tokens" => Kind::TokensCached,
        "http.response.status_code" | "http.status_code" => Kind::Status,
        _ => Kind::Unknown,
    }
}

/// The text of a scalar value, or of the first one in an array.
fn value<R: BufRead>(json: &mut Json<R>) -> JsonResult<Option<String>> {
    let mut found = None;
    json.object(|key, json| {
        match key {
            "stringValue" | "intValue" | "doubleValue" | "string_value" | "int_value" | "double_value" => found = json.scalar()?,
            "arrayValue" | "array_value" => json.object(|key, json| {
                if key != "values" {
                    return json.skip();
                }
                json.array(|json| if found.is_some() { json.skip() } else { value(json).map(|first| found = first) })
            })?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(found)
}
