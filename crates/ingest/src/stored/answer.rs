//! One answer of a Prometheus server's HTTP API, read as it streams by: times stay decimal text until they are integers.

use crate::json::{Json, JsonError, JsonResult};

/// Kept of what stands in an answer that cannot be used.
const MAX_SHOWN: usize = 200;

/// Why an answer gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The server understood and says no.
    #[error("the server answers `{kind}`: {words}")]
    Refused {
        /// `errorType`: `bad_data`, `execution`, `timeout`, ...
        kind: String,
        /// What it says, cut.
        words: String,
    },
    /// The text ends early or stops being JSON.
    #[error("expected {expected} at byte {} of the answer, found {}", offset + 1, if *at_end { "its end" } else { "something else" })]
    Damaged {
        /// Place, from 0.
        offset: u64,
        /// What should stand there.
        expected: &'static str,
        /// True when the text ends there.
        at_end: bool,
    },
    /// JSON, but not of this API.
    #[error("expected an answer with `status` and a `data` of the Prometheus API, found {found}")]
    Foreign {
        /// What it is, in words.
        found: String,
    },
    /// More than is held in memory.
    #[error("expected at most {limit} {what} in the window, found more")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl From<JsonError> for AnswerError {
    fn from(error: JsonError) -> Self {
        Self::Damaged { offset: error.offset, expected: error.expected, at_end: error.at_end }
    }
}

/// An answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    status: Option<String>,
    error_kind: String,
    error_words: String,
    result_type: Option<String>,
    pub(super) series: Vec<AnswerSeries>,
    pub(super) strings: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) native_histograms: i64,
}

/// One series of an answer.
#[derive(Debug, Default)]
pub(super) struct AnswerSeries {
    pub(super) name: String,
    labels: Vec<(String, String)>,
    pub(super) values: Vec<(i64, f64)>,
}

impl AnswerSeries {
    /// The value of a label; empty when there is none.
    pub(super) fn label(&self, key: &str) -> &str {
        self.labels.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value.as_str())
    }

    /// The series as metrics text writes it.
    pub(super) fn text(&self) -> String {
        let mut text = self.name.clone();
        for (at, (key, value)) in self.labels.iter().enumerate() {
            text.push(if at == 0 { '{' } else { ',' });
            text.push_str(key);
            text.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' | '"' => text.extend(['\\', character]),
                    '\n' => text.push_str("\\n"),
                    other => text.push(other),
                }
            }
            text.push('"');
        }
        if !self.labels.is_empty() {
            text.push('}');
        }
        text
    }
}

/// Reads a range of samples: a `matrix`.
pub(super) fn read(body: &[u8]) -> Result<Answer, AnswerError> {
    let answer = read_any(body)?;
    match answer.result_type.as_deref() {
        Some("matrix") => Ok(answer),
        Some(other) => Err(AnswerError::Foreign { found: format!("a result of type `{}`", cut(other)) }),
        None => Err(AnswerError::Foreign { found: "one without `resultType`".to_string() }),
    }
}

/// Reads an answer of whatever type; the server's own refusal is an error.
pub(super) fn read_any(body: &[u8]) -> Result<Answer, AnswerError> {
    let mut json = Json::new(body);
    match json.peek() {
        Some(b'{') => {}
        found => return Err(AnswerError::Foreign { found: foreign(found).to_string() }),
    }
    let mut answer = Answer::default();
    json.object(|key, json| {
        match key {
            "status" => answer.status = json.scalar()?,
            "errorType" => answer.error_kind = json.scalar()?.unwrap_or_default(),
            "error" => answer.error_words = json.scalar()?.unwrap_or_default(),
            "data" => answer.data(json)?,
            "warnings" => strings(json, &mut answer.warnings)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    match answer.status.as_deref() {
        Some("success") => Ok(answer),
        Some("error") => Err(AnswerError::Refused { kind: cut(&answer.error_kind), words: cut(&answer.error_words) }),
        _ => Err(AnswerError::Foreign { found: "a JSON document without them".to_string() }),
    }
}

impl Answer {
    fn data(&mut self, json: &mut Json<&[u8]>) -> JsonResult<()> {
        match json.peek() {
            Some(b'[') => strings(json, &mut self.strings),
            Some(b'{') => json.object(|key, json| match key {
                "resultType" => {
                    self.result_type = json.scalar()?;
                    Ok(())
                }
                "result" => self.result(json),
                _ => json.skip(),
            }),
            _ => json.skip(),
        }
    }

    fn result(&mut self, json: &mut Json<&[u8]>) -> JsonResult<()> {
        json.array(|json| {
            if json.peek() != Some(b'{') {
                return json.skip(); // a scalar or a string
            }
            let mut series = AnswerSeries::default();
            json.object(|key, json| match key {
                "metric" => series.metric(json),
                "values" => json.array(|json| series.value(json)),
                "histograms" => json.array(|json| {
                    self.native_histograms += 1;
                    json.skip()
                }),
                _ => json.skip(),
            })?;
            self.series.push(series);
            Ok(())
        })
    }
}

impl AnswerSeries {
    fn metric(&mut self, json: &mut Json<&[u8]>) -> JsonResult<()> {
        json.object(|key, json| {
            let value = json.scalar()?.unwrap_or_default();
            if key == "__name__" {
                self.name = value;
            } else {
                self.labels.push((key.to_string(), value));
            }
            Ok(())
        })
    }

    /// `[<seconds>, "<value>"]`; a pair of anything else is left out.
    fn value(&mut self, json: &mut Json<&[u8]>) -> JsonResult<()> {
        if json.peek() != Some(b'[') {
            return json.skip();
        }
        let (mut place, mut t_ns, mut value) = (0, None, None);
        json.array(|json| {
            match place {
                0 => t_ns = json.seconds_ns()?,
                1 => value = json.quoted_f64()?,
                _ => json.skip()?,
            }
            place += 1;
            Ok(())
        })?;
        self.values.extend(t_ns.zip(value));
        Ok(())
    }
}

fn strings(json: &mut Json<&[u8]>, into: &mut Vec<String>) -> JsonResult<()> {
    json.array(|json| {
        into.extend(json.scalar()?);
        Ok(())
    })
}

fn cut(words: &str) -> String {
    words.chars().take(MAX_SHOWN).collect()
}

fn foreign(first: Option<u8>) -> &'static str {
    match first {
        None => "nothing",
        Some(b'<') => "an HTML page",
        Some(b'#') => "metrics text: this is a metrics page, not a Prometheus server",
        Some(_) => "something that is not a JSON object",
    }
}
