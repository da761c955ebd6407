//! How a source is packed, told by its first bytes: not at all, gzip (of several members), zstd (of several frames).

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::Damage;
use super::raw::Raw;

/// Packed bytes read at a time.
const PACKED_BLOCK_BYTES: usize = 64 << 10;
/// A packed source may always unpack to this much; beyond it the ratio cap holds.
pub(super) const RATIO_FREE_BYTES: u64 = 64 << 20;
/// Highest believable compression by gzip. Repetitive scrapes reach about 100, a bomb of zeros 1,030.
const GZIP_RATIO_CAP: u64 = 500;
/// Highest believable compression by zstd, whose window spans repeated steps of a trace; a bomb of zeros reaches 30,000.
const ZSTD_RATIO_CAP: u64 = 4_000;
/// Largest window (log 2) that a zstd stream may ask for: what `zstd --long` uses, 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

/// See the module.
pub(super) enum Stream<'a> {
    Plain(Box<Raw<'a>>),
    Gzip(Box<MultiGzDecoder<BufReader<Raw<'a>>>>),
    Zstd(Box<ZstdDecoder<'static, BufReader<Raw<'a>>>>),
}

impl<'a> Stream<'a> {
    pub(super) fn new(mut raw: Raw<'a>) -> Self {
        match raw.peek_magic() {
            [0x1f, 0x8b, ..] => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BLOCK_BYTES, raw)))),
            [0x28, 0xb5, 0x2f, 0xfd] => Self::zstd(raw),
            _ => Self::Plain(Box::new(raw)),
        }
    }

    fn zstd(raw: Raw<'a>) -> Self {
        let mut decoder = ZstdDecoder::with_buffer(BufReader::with_capacity(PACKED_BLOCK_BYTES, raw))
            .expect("a zstd decoder without a dictionary needs nothing but memory");
        decoder.window_log_max(ZSTD_WINDOW_LOG).expect("the window limit is within what zstd knows");
        Self::Zstd(Box::new(decoder))
    }

    pub(super) fn raw(&self) -> &Raw<'a> {
        match self {
            Self::Plain(raw) => raw,
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }

    pub(super) fn into_raw(self) -> Raw<'a> {
        match self {
            Self::Plain(raw) => *raw,
            Self::Gzip(decoder) => decoder.into_inner().into_inner(),
            Self::Zstd(decoder) => decoder.finish().into_inner(),
        }
    }

    pub(super) fn is_packed(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(raw) => raw.read(into),
            Self::Gzip(decoder) => decoder.read(into),
            Self::Zstd(decoder) => decoder.read(into),
        }
    }

    /// What unpacks to more than any honest file of its size does.
    pub(super) fn bomb(&self, decoded: u64) -> Option<Damage> {
        let (code, cap) = match self {
            Self::Plain(_) => return None,
            Self::Gzip(_) => ("gzip_bomb", GZIP_RATIO_CAP),
            Self::Zstd(_) => ("zstd_bomb", ZSTD_RATIO_CAP),
        };
        let raw = self.raw().byte_count;
        (decoded > RATIO_FREE_BYTES && decoded / cap > raw).then(|| Damage {
            code,
            place: format!("byte {raw}"),
            sentence: format!("expected a compression ratio below {cap}, found {decoded} bytes unpacked from {raw}; the rest is left out"),
        })
    }

    /// Why unpacking stopped.
    pub(super) fn damage(&self, error: &io::Error, decoded: u64) -> Damage {
        let is_truncated = error.kind() == io::ErrorKind::UnexpectedEof;
        let (code, name, unread) = match self {
            Self::Plain(_) => ("read_failed", "readable", 0),
            Self::Gzip(decoder) => {
                (if is_truncated { "truncated_gzip" } else { "damaged_gzip" }, "gzip", decoder.get_ref().buffer().len() as u64)
            }
            Self::Zstd(decoder) => {
                (if is_truncated { "truncated_zstd" } else { "damaged_zstd" }, "zstd", decoder.get_ref().buffer().len() as u64)
            }
        };
        let found = if is_truncated { "the file ends inside a member".to_string() } else { format!("{error}") };
        Damage {
            code,
            place: format!("byte {}", self.raw().byte_count - unread),
            sentence: format!("expected a complete {name} stream, found that {found}; {decoded} bytes were unpacked before it"),
        }
    }
}
