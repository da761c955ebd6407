//! Where a body ends: by its length, by its chunks and trailers, or with the connection (RFC 9112, section 6).

/// Longest line of a chunk's size or of a trailer.
const MAX_LINE_BYTES: usize = 16 << 10;

/// A body under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes are missing.
    Length(u64),
    /// In chunks.
    Chunked(Chunk),
    /// Until the connection ends.
    UntilClose,
    /// Over.
    Done,
}

/// Where within chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// In the line of the size: size so far, whether it still goes on, bytes of the line.
    Size(u64, bool, usize),
    /// In the data.
    Data(u64),
    /// Behind the data, before the line end.
    DataEnd,
    /// In the trailers: bytes of this line, and of all.
    Trailer(usize, usize),
}

/// The bytes are not those of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Framing {
    pub(super) fn length(bytes: u64) -> Self {
        if bytes == 0 { Self::Done } else { Self::Length(bytes) }
    }

    pub(super) fn chunked() -> Self {
        Self::Chunked(Chunk::Size(0, true, 0))
    }

    pub(super) fn is_done(self) -> bool {
        self == Self::Done
    }

    /// Takes bytes of the body off the front; `data` is told those that are its content. Returns how many were taken.
    pub(super) fn take(&mut self, bytes: &[u8], data: &mut dyn FnMut(&[u8])) -> Result<usize, Broken> {
        match *self {
            Self::Done => Ok(0),
            Self::UntilClose => {
                data(bytes);
                Ok(bytes.len())
            }
            Self::Length(missing) => {
                let count = bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                data(&bytes[..count]);
                *self = Self::length(missing - count as u64);
                Ok(count)
            }
            Self::Chunked(_) => self.take_chunks(bytes, data),
        }
    }

    fn take_chunks(&mut self, bytes: &[u8], data: &mut dyn FnMut(&[u8])) -> Result<usize, Broken> {
        let mut at = 0;
        while let (Self::Chunked(chunk), true) = (*self, at < bytes.len()) {
            let next = match chunk {
                Chunk::Data(missing) => {
                    let count = (bytes.len() - at).min(usize::try_from(missing).unwrap_or(usize::MAX));
                    data(&bytes[at..at + count]);
                    at += count;
                    let missing = missing - count as u64;
                    *self = Self::Chunked(if missing == 0 { Chunk::DataEnd } else { Chunk::Data(missing) });
                    continue;
                }
                _ => step(chunk, bytes[at])?,
            };
            at += 1;
            *self = next.map_or(Self::Done, Self::Chunked);
        }
        Ok(at)
    }
}

/// One byte outside the data; `None` at the end of the body.
fn step(chunk: Chunk, byte: u8) -> Result<Option<Chunk>, Broken> {
    Ok(Some(match (chunk, byte) {
        (Chunk::Size(0, _, 1..), b'\n') => Chunk::Trailer(0, 0),
        (Chunk::Size(size, _, 1..), b'\n') => Chunk::Data(size),
        (Chunk::Size(.., seen), _) if seen >= MAX_LINE_BYTES => return Err(Broken),
        (Chunk::Size(size, true, seen), byte) if byte.is_ascii_hexdigit() => {
            let digit = (byte as char).to_digit(16).map_or(0, u64::from);
            Chunk::Size(size.checked_mul(16).and_then(|size| size.checked_add(digit)).ok_or(Broken)?, true, seen + 1)
        }
        (Chunk::Size(size, _, seen @ 1..), _) => Chunk::Size(size, false, seen + 1),
        (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
        (Chunk::DataEnd, b'\n') => Chunk::Size(0, true, 0),
        (Chunk::Trailer(0, _), b'\n') => return Ok(None),
        (Chunk::Trailer(_, all), b'\n') => Chunk::Trailer(0, all + 1),
        (Chunk::Trailer(line, all), b'\r') => Chunk::Trailer(line, all + 1),
        (Chunk::Trailer(_, all), _) if all >= MAX_LINE_BYTES => return Err(Broken),
        (Chunk::Trailer(line, all), _) => Chunk::Trailer(line + 1, all + 1),
        (Chunk::Size(.., 0) | Chunk::DataEnd | Chunk::Data(_), _) => return Err(Broken),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content, bytes taken, and whether it is over, with the text cut everywhere.
    fn read(framing: Framing, text: &str) -> (String, usize, bool) {
        let mut results = Vec::new();
        for cut in 0..=text.len() {
            let (mut framing, mut content, mut taken) = (framing, Vec::new(), 0);
            for part in [&text[..cut], &text[cut..]] {
                taken += framing.take(part.as_bytes(), &mut |data| content.extend_from_slice(data)).unwrap();
            }
            results.push((String::from_utf8(content).unwrap(), taken, framing.is_done()));
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
        results.remove(0)
    }

    #[test]
    fn bodies_end_where_they_say() {
        assert_eq!(read(Framing::length(5), "helloGET"), ("hello".into(), 5, true));
        assert_eq!(read(Framing::chunked(), "5\r\nhello\r\n3;x=y\r\n, w\r\n0\r\n\r\nGET"), ("hello, w".into(), 27, true));
        assert_eq!(read(Framing::chunked(), "a\r\n0123456789\r\n0\r\nDigest: 1\r\nX: 2\r\n\r\n"), ("0123456789".into(), 37, true));
        assert_eq!(read(Framing::UntilClose, "all"), ("all".into(), 3, false));
        assert_eq!(read(Framing::chunked(), "5\r\nhe"), ("he".into(), 5, false));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for text in ["x\r\n", "\r\n", "5\r\nhelloX", "fffffffffffffffff\r\n"] {
            assert_eq!(Framing::chunked().take(text.as_bytes(), &mut |_| ()), Err(Broken), "{text}");
        }
    }
}
