//! A pull reader for JSON that never holds a document.
//!
//! Result files hold arrays of a million gaps and, beside them, every generated text. This reader hands numbers out as
//! the decimal text they are (times become integer nanoseconds without a detour through `f64`), skips strings without
//! storing them, and works on any `BufRead`: a line of a JSON-lines file or a whole compressed file.

use std::io::BufRead;

use crate::number::parse_f64;

/// Deepest nesting that is followed.
const MAX_DEPTH: u32 = 64;
/// Longest key or number, and longest string kept.
const MAX_TOKEN_BYTES: usize = 64 << 10;
/// Bytes kept of a string of which only the start matters.
const LEAD_BYTES: usize = 4 << 10;

/// Where the text stopped being JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    /// Offset in the text, from 0.
    pub(crate) offset: u64,
    /// What was expected there.
    pub(crate) expected: &'static str,
    /// True when the text ended.
    pub(crate) at_end: bool,
}

/// See the module.
pub(crate) struct Json<R> {
    reader: R,
    offset: u64,
    depth: u32,
    token: Vec<u8>,
}

pub(crate) type JsonResult<T> = Result<T, JsonError>;

impl<R: BufRead> Json<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, offset: 0, depth: 0, token: Vec::new() }
    }

    /// Says where in a longer text this one starts.
    pub(crate) fn starting_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Offset in the text.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads an array with another parser: `read` gets the reader behind `[` and the offset there, and returns how many
    /// bytes it took, up to `]`.
    pub(crate) fn foreign_array(&mut self, read: impl FnOnce(&mut R, u64) -> u64) -> JsonResult<()> {
        self.expect(b'[', "an array")?;
        self.offset += read(&mut self.reader, self.offset);
        self.expect(b']', "`]`")
    }

    fn error<T>(&mut self, expected: &'static str) -> JsonResult<T> {
        let at_end = self.next_byte().is_none();
        Err(JsonError { offset: self.offset, expected, at_end })
    }

    fn next_byte(&mut self) -> Option<u8> {
        self.reader.fill_buf().ok()?.first().copied()
    }

    fn take(&mut self, count: usize) {
        self.reader.consume(count);
        self.offset += count as u64;
    }

    /// The next byte that is no white space, not consumed.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let available = self.reader.fill_buf().ok()?;
            if available.is_empty() {
                return None;
            }
            let blank = available.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
            let found = available.get(blank).copied();
            self.take(blank);
            if found.is_some() {
                return found;
            }
        }
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> JsonResult<()> {
        if self.peek() == Some(byte) {
            self.take(1);
            return Ok(());
        }
        self.error(expected)
    }

    fn deeper(&mut self) -> JsonResult<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.error("fewer levels of nesting") } else { Ok(()) }
    }

    /// Reads an object; `each` must consume the value of every key it is called for.
    pub(crate) fn object(&mut self, mut each: impl FnMut(&str, &mut Self) -> JsonResult<()>) -> JsonResult<()> {
        self.expect(b'{', "an object")?;
        self.deeper()?;
        if self.peek() == Some(b'}') {
            self.take(1);
            self.depth -= 1;
            return Ok(());
        }
        loop {
            let key = self.text()?;
            self.expect(b':', "`:`")?;
            each(&key, self)?;
            match self.peek() {
                Some(b',') => self.take(1),
                Some(b'}') => break,
                _ => return self.error("`,` or `}`"),
            }
        }
        self.take(1);
        self.depth -= 1;
        Ok(())
    }

    /// Reads an array; `each` must consume one element. `null` is an empty array.
    pub(crate) fn array(&mut self, mut each: impl FnMut(&mut Self) -> JsonResult<()>) -> JsonResult<()> {
        if self.peek() == Some(b'n') {
            return self.skip();
        }
        self.expect(b'[', "an array")?;
        self.deeper()?;
        if self.peek() != Some(b']') {
            loop {
                each(self)?;
                match self.peek() {
                    Some(b',') => self.take(1),
                    Some(b']') => break,
                    _ => return self.error("`,` or `]`"),
                }
            }
        }
        self.take(1);
        self.depth -= 1;
        Ok(())
    }

    /// Reads a string of bounded length.
    pub(crate) fn text(&mut self) -> JsonResult<String> {
        self.expect(b'"', "a string")?;
        self.string_body(true)?;
        Ok(String::from_utf8_lossy(&self.token).into_owned())
    }

    /// The first bytes of a string of any length, up to a few thousand; `None` for anything but a string, skipped.
    pub(crate) fn lead(&mut self) -> JsonResult<Option<String>> {
        if self.peek() != Some(b'"') {
            return self.skip().map(|()| None);
        }
        self.take(1);
        let mut lead = Vec::new();
        self.string_pieces(|piece| lead.extend_from_slice(&piece[..piece.len().min(LEAD_BYTES.saturating_sub(lead.len()))]))?;
        Ok(Some(String::from_utf8_lossy(&lead).into_owned()))
    }

    /// Hands out the pieces of a string up to the closing quote; escaped characters other than line ends stand for themselves.
    fn string_pieces(&mut self, mut each: impl FnMut(&[u8])) -> JsonResult<()> {
        loop {
            let Ok(available) = self.reader.fill_buf() else { return self.error("the end of a string") };
            if available.is_empty() {
                return self.error("the end of a string");
            }
            let end = memchr::memchr2(b'"', b'\\', available);
            let plain = end.unwrap_or(available.len());
            each(&available[..plain]);
            let found = end.map(|at| available[at]);
            self.take(plain + usize::from(found.is_some()));
            match found {
                None => {}
                Some(b'"') => return Ok(()),
                Some(_) => {
                    let Some(byte) = self.next_byte() else { return self.error("an escaped character") };
                    self.take(1);
                    each(&[if byte == b'n' { b'\n' } else { byte }]);
                }
            }
        }
    }

    /// Reads what stands up to the closing quote; keeps it (unescaped as far as names need) when `keep` is set.
    fn string_body(&mut self, keep: bool) -> JsonResult<()> {
        self.token.clear();
        loop {
            let Ok(available) = self.reader.fill_buf() else { return self.error("the end of a string") };
            if available.is_empty() {
                return self.error("the end of a string");
            }
            let end = memchr::memchr2(b'"', b'\\', available);
            let plain = end.unwrap_or(available.len());
            if keep {
                self.token.extend_from_slice(&available[..plain]);
            }
            let found = end.map(|at| available[at]);
            self.take(plain + usize::from(found.is_some()));
            match found {
                None => {}
                Some(b'"') => return Ok(()),
                Some(_) => self.escape(keep)?,
            }
            if self.token.len() > MAX_TOKEN_BYTES {
                return self.error("a shorter string");
            }
        }
    }

    fn escape(&mut self, keep: bool) -> JsonResult<()> {
        let Some(byte) = self.next_byte() else { return self.error("an escaped character") };
        self.take(1);
        if !keep {
            return Ok(());
        }
        let plain = match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' | b'f' => b' ',
            b'u' => return self.unicode_escape(),
            other => other,
        };
        self.token.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self) -> JsonResult<()> {
        let mut code = 0u32;
        for _ in 0..4 {
            let Some(digit) = self.next_byte().and_then(|byte| (byte as char).to_digit(16)) else { return self.error("four hex digits") };
            code = code * 16 + digit;
            self.take(1);
        }
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.token.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Reads a number's text into the scratch; false for `null` and for anything else that is no number, skipped.
    fn number(&mut self) -> JsonResult<bool> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => {}
            Some(_) => {
                self.skip()?;
                return Ok(false);
            }
            None => return self.error("a number"),
        }
        self.token.clear();
        loop {
            let Ok(available) = self.reader.fill_buf() else { return self.error("a number") };
            let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
            let count = available.iter().position(|byte| !is_part(byte)).unwrap_or(available.len());
            let ended = count < available.len() || available.is_empty();
            self.token.extend_from_slice(&available[..count]);
            self.take(count);
            if ended && self.token == b"-" {
                return self.skip().map(|()| false);
            }
            if ended {
                return Ok(true);
            }
            if self.token.len() > MAX_TOKEN_BYTES {
                return self.error("a shorter number");
            }
        }
    }

    /// Seconds as nanoseconds; `None` for anything but a number in range.
    pub(crate) fn seconds_ns(&mut self) -> JsonResult<Option<i64>> {
        Ok(if self.number()? { capture::text_time::seconds_to_ns(&self.token) } else { None })
    }

    /// A time in units of 10^`power - 9` s (9: seconds, 6: milliseconds, 0: nanoseconds) as nanoseconds; `None` for
    /// anything but a number in range.
    pub(crate) fn scaled_ns(&mut self, power: i32) -> JsonResult<Option<i64>> {
        Ok(if self.number()? { capture::text_time::scaled_to_ns(&self.token, power) } else { None })
    }

    /// A number as a tool wrote it: `None` for `null`, not a number for text, `NaN`, infinities and what no `f64` holds.
    pub(crate) fn figure(&mut self) -> JsonResult<Option<f64>> {
        let is_null = self.peek() == Some(b'n');
        let value = self.f64()?;
        Ok(if is_null { None } else { Some(value.unwrap_or(f64::NAN)) })
    }

    /// A finite number; `None` for anything else.
    pub(crate) fn f64(&mut self) -> JsonResult<Option<f64>> {
        Ok(if self.number()? { parse_f64(&self.token).filter(|value| value.is_finite()) } else { None })
    }

    /// A number that stands in quotes, `NaN` and infinities among them; `None` for anything else.
    pub(crate) fn quoted_f64(&mut self) -> JsonResult<Option<f64>> {
        if self.peek() != Some(b'"') {
            return self.skip().map(|()| None);
        }
        self.take(1);
        self.string_body(true)?;
        Ok(parse_f64(&self.token))
    }

    /// A whole number; fractions are cut; `None` for anything else.
    pub(crate) fn i64(&mut self) -> JsonResult<Option<i64>> {
        if !self.number()? {
            return Ok(None);
        }
        let exact = std::str::from_utf8(&self.token).ok().and_then(|text| text.parse().ok());
        Ok(exact.or_else(|| parse_f64(&self.token).filter(|value| value.abs() < 9e18).map(|value| value as i64)))
    }

    /// `true` or `false`; `None` for anything else.
    pub(crate) fn bool(&mut self) -> JsonResult<Option<bool>> {
        let found = self.peek();
        self.skip()?;
        Ok(match found {
            Some(b't') => Some(true),
            Some(b'f') => Some(false),
            _ => None,
        })
    }

    /// A string, or the text of a number, `true` or `false`; `None` for `null`, arrays and objects, which are skipped.
    pub(crate) fn scalar(&mut self) -> JsonResult<Option<String>> {
        match self.peek() {
            Some(b'"') => self.text().map(Some),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Ok(Some(String::from_utf8_lossy(&self.token).into_owned()))
            }
            Some(b't' | b'f') => Ok(self.bool()?.map(|value| value.to_string())),
            _ => self.skip().map(|()| None),
        }
    }

    /// Skips one value of any kind.
    pub(crate) fn skip(&mut self) -> JsonResult<()> {
        match self.peek() {
            Some(b'"') => {
                self.take(1);
                self.string_body(false)
            }
            Some(b'{') => self.object(|_, json| json.skip()),
            Some(b'[') => self.array(Self::skip),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            Some(b'a'..=b'z' | b'A'..=b'Z') => {
                while self.next_byte().is_some_and(|byte| byte.is_ascii_alphabetic()) {
                    self.take(1);
                }
                Ok(())
            }
            _ => self.error("a value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_every_digit_and_texts_are_dropped() {
        let text = r#"{"a": [1796036013.123456789, null, -0.5], "texts": ["\"secret\"", ""], "n": 1.5e3, "k\u00e9y": "v\n", "t": true}"#;
        let mut json = Json::new(text.as_bytes());
        let mut seen = Vec::new();
        json.object(|key, json| {
            match key {
                "a" => json.array(|json| {
                    seen.push(format!("{:?}", json.seconds_ns()?));
                    Ok(())
                })?,
                "texts" => json.skip()?,
                "n" => seen.push(format!("{:?}", json.f64()?)),
                other => seen.push(format!("{other}={:?}", json.scalar()?)),
            }
            Ok(())
        })
        .unwrap();
        let expected = ["Some(1796036013123456789)", "None", "Some(-500000000)", "Some(1500.0)", "kéy=Some(\"v\\n\")", "t=Some(\"true\")"];
        assert_eq!(seen, expected);
    }

    #[test]
    fn damage_is_told_with_its_place() {
        for (text, offset, at_end) in [("{\"a\": [1, 2", 11, true), ("{\"a\" 1}", 5, false), ("{\"a\": \"x", 8, true), ("", 0, true)] {
            let error = Json::new(text.as_bytes()).skip().unwrap_err();
            assert_eq!((error.offset, error.at_end), (offset, at_end), "{text}: {error:?}");
        }
        assert!(Json::new("[".repeat(1000).as_bytes()).skip().is_err());
    }
}
