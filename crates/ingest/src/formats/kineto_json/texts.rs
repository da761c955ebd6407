//! Texts of a trace: interned, unescaped, brought into the forms the tables hold.

use std::borrow::Cow;

use capture::Name;
use capture::names::Names;

use super::columns::fold;
use super::losses::Losses;
use super::scan::{Text, decoded, integer};

/// The texts of one parser thread.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) names: Names,
    scratch: Vec<u8>,
    /// The kinds, which every row has.
    words: Vec<(&'static str, Name)>,
}

impl Texts {
    /// A fixed word.
    pub(super) fn word(&mut self, word: &'static str) -> Name {
        if let Some((_, name)) = self.words.iter().find(|(known, _)| std::ptr::eq(*known, word)) {
            return *name;
        }
        let name = self.names.intern(word);
        self.words.push((word, name));
        name
    }

    /// The text of a string of the file; what is no UTF-8 is replaced and counted.
    pub(super) fn text<'t>(&mut self, text: Text<'t>, losses: &mut Losses, offset: u64) -> Cow<'t, str> {
        if !text.has_escapes {
            if let Ok(text) = std::str::from_utf8(text.raw) {
                return Cow::Borrowed(text);
            }
            losses.not_utf8.add(offset);
        }
        Cow::Owned(decoded(text, &mut self.scratch).into_owned())
    }
}

/// A copy's direction and memory: `Memcpy HtoD (Pageable -> Device)` becomes `HtoD Pageable -> Device`.
pub(super) fn copy_name(text: &str) -> Cow<'_, str> {
    const DIRECTIONS: &[(&str, &str)] =
        &[("HOST_TO_DEVICE", "HtoD"), ("DEVICE_TO_HOST", "DtoH"), ("DEVICE_TO_DEVICE", "DtoD"), ("HOST_TO_HOST", "HtoH")];
    if let Some(rest) = text.strip_prefix("Memcpy ") {
        let inside = rest.split_once(" (").and_then(|(direction, kinds)| Some(format!("{direction} {}", kinds.strip_suffix(')')?)));
        return inside.map_or(Cow::Borrowed(rest), Cow::Owned);
    }
    let spelled: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase();
    let found = DIRECTIONS.iter().find(|(words, _)| spelled.contains(&words.replace('_', "")));
    found.map_or(Cow::Borrowed(text), |(_, direction)| Cow::Borrowed(*direction))
}

/// A call without its version: `cudaLaunchKernel_v7000`; `_v2` is part of a name.
pub(super) fn without_version(text: &str) -> &str {
    match text.rsplit_once("_v") {
        Some((name, version)) if version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => text,
    }
}

/// A frame without the address of its object, which would make every name a new one.
pub(super) fn without_address(text: &str) -> &str {
    text.split(" at 0x").next().unwrap_or(text)
}

/// A process, thread, device or stream as a number: numbers and text that ends in one (`stream 7`, `GPU 0 Counters`) keep
/// it, other text gets one of its own.
pub(super) fn number_of(text: &[u8]) -> u32 {
    if let Some(number) = integer(text) {
        return fold(number);
    }
    let digits = text.split(|byte| !byte.is_ascii_digit()).find(|part| !part.is_empty() && part.len() <= 9);
    if let Some(number) = digits.and_then(integer) {
        return fold(number);
    }
    // FNV-1a
    text.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_say_direction_and_memory() {
        assert_eq!(copy_name("Memcpy HtoD (Pageable -> Device)"), "HtoD Pageable -> Device");
        assert_eq!(copy_name("Memcpy DtoD"), "DtoD");
        assert_eq!(copy_name("MEMORY_COPY_DEVICE_TO_HOST"), "DtoH");
        assert_eq!(copy_name("CopyHostToDevice"), "HtoD");
        assert_eq!(copy_name("something"), "something");
    }

    #[test]
    fn names_lose_versions_and_addresses() {
        assert_eq!(without_version("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(without_version("cuMemcpyHtoD_v2"), "cuMemcpyHtoD_v2");
        assert_eq!(without_address("<built-in method item of Tensor object at 0x7f12ab>"), "<built-in method item of Tensor object");
    }

    #[test]
    fn numbers_of_places() {
        assert_eq!((number_of(b"7"), number_of(b"stream 7"), number_of(b"GPU 3 Counters"), number_of(b"-1")), (7, 7, 3, u32::MAX));
        assert_ne!(number_of(b"140012345678912"), number_of(b"140012345678913"));
        assert_ne!(number_of(b"Spans"), number_of(b"Traces"));
    }
}
