//! Texts of a trace: interned, unescaped, brought into the forms the tables hold.

use std::borrow::Cow;

use capture::Name;
use capture::names::Names;
use hashbrown::HashMap;

use super::columns::fold;
use super::losses::Losses;
use super::numbers::integer;
use super::scan::{Text, decoded};

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing.
    Plain,
    /// See [`copy_name`].
    Copy,
    /// See [`without_version`].
    Call,
    /// See [`without_address`].
    Frame,
    /// A person wrote it; it may hold a secret.
    Annotation,
}

const FORMS: usize = 5;
/// Longest string that is known again as it stands; longer ones are read anew each time.
const MAX_KNOWN_BYTES: usize = 4 << 10;
/// Most strings known again: names that differ in every event would grow without end.
const MAX_KNOWN: usize = 1 << 16;

/// The texts of one parser thread.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) names: Names,
    scratch: Vec<u8>,
    /// The kinds, which every row has.
    words: Vec<(&'static str, Name)>,
    /// Strings as they stand in the file, by form, and whether they are UTF-8.
    known: [HashMap<Box<[u8]>, (Name, bool)>; FORMS],
}

impl Texts {
    /// The name that a string of the file is, in the form that the tables hold.
    pub(super) fn name(&mut self, text: Text<'_>, form: Form, losses: &mut Losses, offset: u64) -> Name {
        let raw = if form == Form::Frame { without_address(text.raw) } else { text.raw };
        if let Some((name, is_utf8)) = self.known[form as usize].get(raw) {
            if !is_utf8 {
                losses.not_utf8.add(offset);
            }
            return *name;
        }
        let before = losses.not_utf8.count;
        let decoded = self.text(Text { raw, has_escapes: text.has_escapes }, losses, offset);
        let name = match form {
            Form::Plain | Form::Frame => self.names.intern(&decoded),
            Form::Copy => self.names.intern(&copy_name(&decoded)),
            Form::Call => self.names.intern(without_version(&decoded)),
            Form::Annotation => self.names.intern(&crate::secrets::redact(&decoded)),
        };
        let known = &mut self.known[form as usize];
        if raw.len() <= MAX_KNOWN_BYTES && known.len() < MAX_KNOWN {
            known.insert(raw.into(), (name, losses.not_utf8.count == before));
        }
        name
    }

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
fn copy_name(text: &str) -> Cow<'_, str> {
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
fn without_version(text: &str) -> &str {
    match text.rsplit_once("_v") {
        Some((name, version)) if version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => text,
    }
}

/// A frame without the address of its object, which would make every name a new one.
fn without_address(raw: &[u8]) -> &[u8] {
    if raw.last() != Some(&b'>') {
        return raw;
    }
    memchr::memmem::find(raw, b" at 0x").map_or(raw, |at| &raw[..at])
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
        assert_eq!(without_address(b"<built-in method item of Tensor object at 0x7f12ab>"), b"<built-in method item of Tensor object");
    }

    #[test]
    fn numbers_of_places() {
        assert_eq!((number_of(b"7"), number_of(b"stream 7"), number_of(b"GPU 3 Counters"), number_of(b"-1")), (7, 7, 3, u32::MAX));
        assert_ne!(number_of(b"140012345678912"), number_of(b"140012345678913"));
        assert_ne!(number_of(b"Spans"), number_of(b"Traces"));
    }
}
