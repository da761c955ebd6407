//! A pull parser over bytes in memory: no allocation, no recursion, every value a slice of the text.
//!
//! It is lenient where real traces are (control characters and bad UTF-8 in strings) and says where it had to stop. Numbers
//! stay text, so that times become integers without a detour through `f64`.

/// Why the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The text ended within a value.
    End,
    /// Something else stood where this was expected.
    Damage(&'static str),
}

pub(super) type Step<T> = Result<T, Stop>;

/// A string as it stands between its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub(super) raw: &'a [u8],
    pub(super) has_escapes: bool,
}

/// Levels of nesting whose brackets are matched; deeper ones are only counted.
const MATCHED_LEVELS: u32 = 128;
/// Bytes of a string looked at one by one before the search for its end starts.
const SHORT_BYTES: usize = 24;

/// The lowest bit of each byte.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
pub(super) const HIGHS: u64 = 0x8080_8080_8080_8080;
/// Seven bytes that end no word, above a byte to be looked at.
const WORD_BYTES: u64 = 0x3030_3030_3030_3000;

/// The high bits of bytes that end a number or a word: those below `-` (white space, quotes, commas, and `+`, which is
/// looked at again) and closing brackets. Only the lowest one set is exact.
#[inline]
fn word_ends(eight: u64) -> u64 {
    let below = eight.wrapping_sub(ONES * u64::from(b'-')) & !eight & HIGHS;
    // `]` and `}` differ in one bit.
    below | equal(eight | (ONES * u64::from(b'}' ^ b']')), b'}')
}

/// The high bits of bytes that are `byte`. Only the lowest one set is exact.
#[inline]
fn equal(eight: u64, byte: u8) -> u64 {
    let differs = eight ^ (ONES * u64::from(byte));
    differs.wrapping_sub(ONES) & !differs & HIGHS
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The next byte that is no white space, not consumed.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes `byte`, which must come next.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8, expected: &'static str) -> Step<()> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Stop::Damage(expected)),
            None => Err(Stop::End),
        }
    }

    /// True when `byte` comes next and is consumed.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads a string.
    #[inline]
    pub(super) fn text(&mut self) -> Step<Text<'a>> {
        self.expect(b'"', "a string")?;
        let from = self.at;
        let mut at = from;
        while at < from + SHORT_BYTES
            && let Some(eight) = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>())
        {
            let ends = equal(u64::from_le_bytes(*eight), b'"') | equal(u64::from_le_bytes(*eight), b'\\');
            if ends == 0 {
                at += 8;
                continue;
            }
            at += ends.trailing_zeros() as usize / 8;
            if self.bytes[at] != b'"' {
                break;
            }
            self.at = at + 1;
            return Ok(Text { raw: &self.bytes[from..at], has_escapes: false });
        }
        self.text_from(from)
    }

    /// Like [`Self::text`], for strings that are seldom longer than a byte; their first byte, 0 for none.
    #[inline]
    pub(super) fn letter(&mut self) -> Step<u8> {
        if let Some([b'"', letter, b'"']) = self.bytes.get(self.at..self.at + 3)
            && !matches!(letter, b'"' | b'\\')
        {
            self.at += 3;
            return Ok(*letter);
        }
        self.text().map(|text| text.raw.first().copied().unwrap_or_default())
    }

    /// Like [`Self::text`], for strings that are seldom short.
    #[inline]
    pub(super) fn long_text(&mut self) -> Step<Text<'a>> {
        self.expect(b'"', "a string")?;
        self.text_from(self.at)
    }

    /// Reads a string whose quote has been consumed.
    fn text_from(&mut self, from: usize) -> Step<Text<'a>> {
        self.at = from;
        let mut has_escapes = false;
        loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..).unwrap_or_default()) else {
                self.at = self.bytes.len();
                return Err(Stop::End);
            };
            self.at += found;
            if self.bytes[self.at] == b'"' {
                let raw = &self.bytes[from..self.at];
                self.at += 1;
                return Ok(Text { raw, has_escapes });
            }
            has_escapes = true;
            self.at += 2;
        }
    }

    /// Reads a string or a number as its text; anything else is skipped and empty.
    #[inline]
    pub(super) fn scalar(&mut self) -> Step<&'a [u8]> {
        match self.peek() {
            Some(b'"') => self.text().map(|text| text.raw),
            Some(b'-' | b'0'..=b'9') => Ok(self.word()),
            _ => self.skip().map(|()| Default::default()),
        }
    }

    /// A number, or a word without quotes.
    #[inline]
    fn word(&mut self) -> &'a [u8] {
        let from = self.at;
        while let Some(eight) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let ends = word_ends(u64::from_le_bytes(*eight));
            if ends == 0 {
                self.at += 8;
                continue;
            }
            self.at += ends.trailing_zeros() as usize / 8;
            if self.bytes[self.at] != b'+' {
                return &self.bytes[from..self.at];
            }
            self.at += 1;
        }
        while self.bytes.get(self.at).is_some_and(|&byte| byte == b'+' || word_ends(u64::from(byte) | WORD_BYTES) == 0) {
            self.at += 1;
        }
        &self.bytes[from..self.at]
    }

    /// Skips one value of any kind.
    pub(super) fn skip(&mut self) -> Step<()> {
        match self.peek() {
            Some(b'"') => self.text().map(|_| ()),
            Some(b'{' | b'[') => {
                self.at += 1;
                self.close(self.bytes[self.at - 1] == b'{')
            }
            Some(_) => {
                if self.word().is_empty() {
                    Err(Stop::Damage("a value"))
                } else {
                    Ok(())
                }
            }
            None => Err(Stop::End),
        }
    }

    /// Skips up to the end of an object (or an array) whose start has been consumed.
    pub(super) fn close(&mut self, is_object: bool) -> Step<()> {
        let mut depth = 1u32;
        let mut kinds = u128::from(is_object);
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.text()?;
                    continue;
                }
                b'{' | b'[' => {
                    depth = depth.saturating_add(1);
                    if depth <= MATCHED_LEVELS {
                        kinds = kinds << 1 | u128::from(byte == b'{');
                    }
                }
                b'}' | b']' => {
                    if depth <= MATCHED_LEVELS {
                        if (kinds & 1 == 1) != (byte == b'}') {
                            return Err(Stop::Damage("brackets that match"));
                        }
                        kinds >>= 1;
                    }
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Ok(());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        Err(Stop::End)
    }
}

/// The text of a string: escapes resolved into `scratch` where there are any; what is no UTF-8 is replaced.
pub(super) fn decoded<'t>(text: Text<'t>, scratch: &'t mut Vec<u8>) -> std::borrow::Cow<'t, str> {
    if !text.has_escapes {
        return String::from_utf8_lossy(text.raw);
    }
    scratch.clear();
    let mut rest = text.raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        scratch.extend_from_slice(&rest[..at]);
        let escape = rest.get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match escape {
            b'n' => scratch.push(b'\n'),
            b't' => scratch.push(b'\t'),
            b'r' => scratch.push(b'\r'),
            b'b' => scratch.push(8),
            b'f' => scratch.push(12),
            b'u' => rest = unicode_escape(rest, scratch),
            other => scratch.push(other),
        }
    }
    scratch.extend_from_slice(rest);
    String::from_utf8_lossy(scratch)
}

/// Resolves what follows `\u`; returns what follows the escape.
fn unicode_escape<'t>(rest: &'t [u8], into: &mut Vec<u8>) -> &'t [u8] {
    let unit = |text: &[u8]| -> Option<u32> {
        let digits = text.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut put = |code: u32| {
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    };
    let Some(first) = unit(rest) else {
        put(u32::from(char::REPLACEMENT_CHARACTER));
        return rest;
    };
    let second = rest.get(4..6).filter(|lead| *lead == b"\\u").and_then(|_| unit(&rest[6..]));
    match second {
        Some(second) if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) => {
            put(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            &rest[10..]
        }
        _ => {
            put(first);
            &rest[4..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        let text = Cursor::new(json.as_bytes(), 0).text().unwrap();
        decoded(text, &mut Vec::new()).into_owned()
    }

    #[test]
    fn strings_are_unescaped() {
        assert_eq!(text(r#""plain""#), "plain");
        assert_eq!(text(r#""a \"b\" \\ \/ \n\t\u00e9\ud83d\ude00\ud83d""#), "a \"b\" \\ / \n\t\u{e9}\u{1f600}\u{fffd}");
        assert_eq!(text(&format!("\"{}\\\"end\"", "x".repeat(100))), format!("{}\"end", "x".repeat(100)));
        assert_eq!(Cursor::new(b"\"open", 0).text(), Err(Stop::End));
        assert_eq!(Cursor::new(b"\"open\\", 0).text(), Err(Stop::End));
    }

    #[test]
    fn values_of_any_depth_are_skipped_without_recursion() {
        let deep = format!("{}1{}, 2", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let mut cursor = Cursor::new(deep.as_bytes(), 0);
        assert_eq!((cursor.skip(), cursor.at), (Ok(()), 2_000_001));
        assert_eq!(Cursor::new(b"{\"a\": [1, 2}", 0).skip(), Err(Stop::Damage("brackets that match")));
        assert_eq!(Cursor::new(b"[[1, 2]", 0).skip(), Err(Stop::End));
        assert_eq!(Cursor::new(b"}", 0).skip(), Err(Stop::Damage("a value")));
    }

    #[test]
    fn words_end_where_they_end() {
        for end in [",", "}", "]", " ", "\n", "\"", "\t", "\r", ""] {
            for word in ["1", "-12.5", "1e+5", "1234567", "12345678", "123456789", "1365627863811.705", "null", "1e+12345678"] {
                for behind in ["", "x", "0123456789"] {
                    let text = format!("{word}{end}{behind}");
                    let expected = if end.is_empty() { format!("{word}{behind}") } else { word.to_string() };
                    assert_eq!(Cursor::new(text.as_bytes(), 0).word(), expected.as_bytes(), "{text}");
                }
            }
        }
    }
}
