//! Perf Analyzer's `profile_export.json`, on which GenAI-Perf works: experiments with requests, epoch nanoseconds.
//!
//! Each experiment is a load; several are a sweep. A response that carries no token (the role, an empty delta, `[DONE]`)
//! is no chunk; of a response only its start is looked at, and nothing is kept. The file counts no tokens: output tokens are the
//! server's, where a response tells its usage.

use capture::Severity;

use crate::builder::{Builder, Load};
use crate::formats::chunks::Gaps;
use crate::formats::client_row::ClientRow;
use crate::formats::figures::{self, MAX_RUNS};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "perf_analyzer_json", stage: Stage::Clocked, sniff, read };

type FileJson<'a, 'b> = Json<&'a mut Input<'b>>;

/// Most responses of one request that are looked at.
const MAX_RESPONSES: usize = 1_000_000;

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_export =
        probe.first_byte() == Some(b'{') && ["\"experiments\"", "\"experiment\"", "\"requests\""].iter().all(|key| probe.has(key));
    if is_export && (probe.has("\"mode\"") || probe.has("\"timestamp\"")) { Confidence::Sure } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    let mut count = 0;
    let outcome = json.object(|key, json| match key {
        "experiments" => json.array(|json| {
            if count >= MAX_RUNS {
                figures::leave_out_run(builder);
                return json.skip();
            }
            let mut experiment = Experiment { point_idx: count, ..Experiment::default() };
            let outcome = experiment.read(json, builder);
            if experiment.requests > 0 {
                builder.facts.loads.push(experiment.load());
                count += 1;
            }
            outcome
        }),
        _ => json.skip(),
    });
    if let Err(error) = outcome {
        builder.damaged_json(&error);
    }
    if count == 0 {
        builder.refuse("no_rows", "expected experiments of Perf Analyzer with their requests, found none");
        return;
    }
    builder.issue(
        Severity::Note,
        "definitions",
        "",
        1,
        "nanoseconds; first token and gaps are those of responses that carry a token; output tokens are the server's count, where a response tells it",
    );
}

/// One experiment: a load and its requests.
#[derive(Default)]
struct Experiment {
    point_idx: i32,
    mode: Option<String>,
    value: Option<f64>,
    span: Option<(i64, i64)>,
    requests: u64,
}

impl Experiment {
    fn read(&mut self, json: &mut FileJson<'_, '_>, builder: &mut Builder<'_>) -> JsonResult<()> {
        json.object(|key, json| match (key, json.peek()) {
            ("experiment", Some(b'{')) => json.object(|key, json| {
                match key {
                    "mode" => self.mode = json.scalar()?,
                    "value" => self.value = json.f64()?.filter(|value| (0.0..1e9).contains(value)),
                    _ => json.skip()?,
                }
                Ok(())
            }),
            ("requests", Some(b'[')) => json.array(|json| self.read_request(json, builder)),
            _ => json.skip(),
        })
    }

    fn load(&self) -> Load {
        let value = |mode: &str| self.value.filter(|_| self.mode.as_deref() == Some(mode));
        Load { span: self.span, max_concurrency: value("concurrency"), request_rate: value("request_rate") }
    }

    fn read_request(&mut self, json: &mut FileJson<'_, '_>, builder: &mut Builder<'_>) -> JsonResult<()> {
        let mut sent = None;
        let mut times: Vec<i64> = Vec::new();
        let mut responses = Responses::default();
        json.object(|key, json| match (key, json.peek()) {
            ("timestamp", _) => {
                sent = json.scaled_ns(0)?;
                Ok(())
            }
            ("response_timestamps", Some(b'[')) => json.array(|json| {
                let time = json.scaled_ns(0)?;
                times.extend(time.filter(|_| times.len() < MAX_RESPONSES));
                Ok(())
            }),
            ("response_outputs", Some(b'[')) => json.array(|json| responses.read(json)),
            _ => json.skip(),
        })?;
        let number = self.requests;
        let place = format!("request {number}");
        let Some((sent_ns, done_ns)) = sent.zip(times.last().copied()) else {
            builder.issue_once(Severity::Warning, "request_incomplete", &place, || {
                "expected a request with its time and those of its responses, found one without; it is left out".to_string()
            });
            return Ok(());
        };
        self.requests += 1;
        let carries = |at: &usize| responses.carry_token.get(*at).copied().unwrap_or(true);
        // The only response of a request that was not streamed says nothing about its first token.
        let is_streamed = times.len() > 1;
        let tokens: Vec<i64> = (0..times.len()).filter(|_| is_streamed).filter(carries).map(|at| times[at]).collect();
        let mut gaps = Gaps::default();
        tokens.windows(2).for_each(|pair| gaps.push(pair[1].saturating_sub(pair[0])));
        let row = ClientRow {
            id: if self.point_idx == 0 { number.to_string() } else { format!("{}/{number}", self.point_idx) },
            point_idx: self.point_idx,
            sent_ns,
            first_ns: tokens.first().copied(),
            last_ns: tokens.last().copied(),
            done_ns: Some(done_ns),
            tokens_in: responses.tokens_in,
            tokens_out: responses.tokens_out,
            gaps: (!tokens.is_empty()).then_some(gaps),
            ..ClientRow::default()
        };
        if row.add(&place, builder) {
            let span = self.span.get_or_insert((sent_ns, done_ns));
            *span = (span.0.min(sent_ns), span.1.max(done_ns));
            builder.covers(sent_ns);
            builder.covers(done_ns);
        }
        Ok(())
    }
}

/// What the responses of one request say.
#[derive(Default)]
struct Responses {
    carry_token: Vec<bool>,
    tokens_in: Option<i64>,
    tokens_out: Option<i64>,
}

impl Responses {
    fn read(&mut self, json: &mut FileJson<'_, '_>) -> JsonResult<()> {
        let mut carries = true;
        match json.peek() {
            Some(b'{') => json.object(|key, json| {
                if matches!(key, "response" | "text_output") {
                    let text = json.lead()?.unwrap_or_default();
                    carries = carries_token(&text);
                    self.tokens_in = number_after(&text, "\"prompt_tokens\"").or(self.tokens_in);
                    self.tokens_out = number_after(&text, "\"completion_tokens\"").or(self.tokens_out);
                    return Ok(());
                }
                json.skip()
            })?,
            _ => json.skip()?,
        }
        if self.carry_token.len() < MAX_RESPONSES {
            self.carry_token.push(carries);
        }
        Ok(())
    }
}

/// False for what a stream sends beside tokens: nothing, its end, the role, an empty piece, the usage.
fn carries_token(text: &str) -> bool {
    let plain: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    if plain.is_empty() || plain == "data:[DONE]" || plain.contains("\"choices\":[]") {
        return false;
    }
    let is_filled = |key: &str| {
        plain.match_indices(key).any(|(at, _)| {
            let rest = &plain[at + key.len()..];
            rest.starts_with('"') && !rest.starts_with("\"\"")
        })
    };
    let pieces = ["\"content\":", "\"reasoning_content\":", "\"text\":", "\"text_output\":"];
    let has_piece = pieces.iter().any(|key| plain.contains(key)) || plain.contains("\"delta\":");
    !has_piece || plain.contains("\"tool_calls\":[{") || pieces.iter().any(|key| is_filled(key))
}

/// The whole number that follows a key.
fn number_after(text: &str, key: &str) -> Option<i64> {
    let rest = text[text.find(key)? + key.len()..].trim_start().strip_prefix(':')?.trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_responses_with_a_piece_of_text_carry_a_token() {
        for (text, expected) in [
            ("", false),
            ("data: [DONE]\n\n", false),
            ("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}", false),
            ("data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}", false),
            ("data: {\"choices\":[{\"delta\":{\"content\": \" a\"}}]}", true),
            ("data: {\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"x\"}}]}", true),
            ("data: {\"choices\":[],\"usage\":{\"completion_tokens\": 7}}", false),
            ("{\"text_output\":\"tok\"}", true),
            ("raw", true),
        ] {
            assert_eq!(carries_token(text), expected, "{text}");
        }
        assert_eq!(number_after("{\"completion_tokens\" : 32}", "\"completion_tokens\""), Some(32));
        assert_eq!(number_after("{\"completion_tokens\": x", "\"completion_tokens\""), None);
    }
}
