//! Typed access to the fields of a JSON object, with errors that say what was there.

use serde_json::{Map, Value};

use super::{MOST_JSON_BYTES, ReadModelError, shown};

/// One object of a file.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) file: &'static str,
    pub(super) map: &'a Map<String, Value>,
}

/// Parses bytes as one JSON value. Nesting is bounded by the parser, size by the limit.
pub(super) fn parse(file: &'static str, bytes: &[u8]) -> Result<Value, ReadModelError> {
    let form = |expected: &str, found: String| ReadModelError::Form { file, expected: expected.to_owned(), found };
    if bytes.len() > MOST_JSON_BYTES {
        return Err(form("at most 64 MiB of JSON", format!("{} bytes", bytes.len())));
    }
    serde_json::from_slice(bytes).map_err(|error| form("JSON", shown(&error.to_string())))
}

impl<'a> Fields<'a> {
    /// The fields of an object.
    pub(super) fn of(file: &'static str, value: &'a Value) -> Result<Self, ReadModelError> {
        match value {
            Value::Object(map) => Ok(Self { file, map }),
            other => Err(ReadModelError::Form { file, expected: "an object".to_owned(), found: kind(other).to_owned() }),
        }
    }

    /// An object inside, when there is one.
    pub(super) fn inner(&self, field: &str) -> Option<Self> {
        self.map.get(field).and_then(Value::as_object).map(|map| Self { file: self.file, map })
    }

    pub(super) fn error(&self, field: &str, expected: &'static str) -> ReadModelError {
        let found = self.map.get(field).map_or_else(|| "nothing".to_owned(), |value| shown(&value.to_string()));
        ReadModelError::Field { file: self.file, field: field.to_owned(), expected, found }
    }

    /// A whole number up to `u32::MAX / 16`, `None` when absent or null.
    pub(super) fn count(&self, field: &str) -> Result<Option<u32>, ReadModelError> {
        match self.map.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) if count <= u64::from(u32::MAX / 16) => Ok(Some(count as u32)),
                _ => Err(self.error(field, "a whole number of at most 268435455")),
            },
        }
    }

    /// The first of several names that is there.
    pub(super) fn first(&self, names: &[&str]) -> Result<Option<u32>, ReadModelError> {
        for name in names {
            if let Some(count) = self.count(name)? {
                return Ok(Some(count));
            }
        }
        Ok(None)
    }

    /// A number that must be there and above 0; the first name stands in the error.
    pub(super) fn needed(&self, names: &[&str]) -> Result<u32, ReadModelError> {
        match self.first(names)? {
            Some(count) if count > 0 => Ok(count),
            _ => Err(self.error(names[0], "a whole number above 0")),
        }
    }

    pub(super) fn flag(&self, field: &str) -> Option<bool> {
        self.map.get(field).and_then(Value::as_bool)
    }

    pub(super) fn text(&self, field: &str) -> Option<&'a str> {
        self.map.get(field).and_then(Value::as_str)
    }

    /// The texts of a list, `None` when absent.
    pub(super) fn texts(&self, field: &str) -> Result<Option<Vec<&'a str>>, ReadModelError> {
        match self.map.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                texts.map(Some).ok_or_else(|| self.error(field, "a list of texts"))
            }
            Some(_) => Err(self.error(field, "a list of texts")),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
