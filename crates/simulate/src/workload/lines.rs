//! Lines of a stream, one at a time, none longer than allowed.

use std::io::{self, BufRead};

/// What came instead of a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFault {
    /// Longer than the limit; the rest of it was skipped.
    TooLong,
    /// Not UTF-8.
    NotText,
}

/// Reads lines into one buffer that never grows beyond the limit.
pub(super) struct Lines<'a, R> {
    input: &'a mut R,
    buffer: Vec<u8>,
    limit: usize,
    /// Number of the line read last, from 1.
    pub(super) number: u64,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(input: &'a mut R, limit: usize) -> Self {
        Self { input, buffer: Vec::new(), limit, number: 0 }
    }

    /// The next line without its end, `None` at the end of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<&str, LineFault>>> {
        self.buffer.clear();
        let (mut is_long, mut has_any) = (false, false);
        loop {
            let available = self.input.fill_buf()?;
            if available.is_empty() {
                break;
            }
            has_any = true;
            let end = available.iter().position(|&byte| byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.buffer.len() + part.len() > self.limit {
                is_long = true;
            } else {
                self.buffer.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !has_any {
            return Ok(None);
        }
        self.number += 1;
        if is_long {
            return Ok(Some(Err(LineFault::TooLong)));
        }
        let text = std::str::from_utf8(&self.buffer).map(|text| text.trim_end_matches('\r'));
        Ok(Some(text.map_err(|_| LineFault::NotText)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_of_any_kind() {
        let bytes: &[u8] = b"one\r\n\ntoo long for us\n\xff\xfe\nlast";
        for capacity in [1, 3, 64] {
            let mut input = BufReader::with_capacity(capacity, bytes);
            let mut lines = Lines::new(&mut input, 8);
            let mut seen = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                seen.push(line.map(str::to_string));
            }
            let text = |line: &str| Ok(line.to_string());
            assert_eq!(seen, [text("one"), text(""), Err(LineFault::TooLong), Err(LineFault::NotText), text("last")]);
            assert_eq!(lines.number, 5);
        }
    }
}
