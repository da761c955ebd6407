//! The user's own `tokenizer.json`: prompts of an exact length, and tokens counted where the server does not tell them.
//!
//! Nothing is fetched and no name of a model is looked up: a file that is at hand or nothing. What a server adds to a text,
//! by a chat template or as its first token, is not in these counts. A file is read with care, as anybody may have made it:
//! its size has a limit, and one that the library behind it does not survive is told as such.
//!
//! A file may ask for normalizing that makes texts grow without end; that is not limited, the file is the user's own.
//!
//! Left out: templates, and tokenizers that have no `tokenizer.json` (tiktoken, SentencePiece models).

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::prompt::Vocabulary;

/// Largest file; those of models with 260 thousand tokens have 33 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Fewer words than that make prompts too much alike.
const LEAST_WORDS: usize = 16;
/// Words of the text that proves that words do not join.
const PROOF_WORDS: usize = 4096;

/// A tokenizer, and the words that are one token each in it.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    path: PathBuf,
    tokenizer: tokenizers::Tokenizer,
    vocabulary: Vocabulary,
}

/// Why a file is no tokenizer for a load.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// It cannot be read.
    #[error("could not read the tokenizer `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// It is larger than any tokenizer.
    #[error("expected a `tokenizer.json` of at most {} MiB, found more in `{path}`", MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is something else, or damaged.
    #[error("expected a `tokenizer.json`, found none in `{path}`: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        reason: String,
    },
    /// Prompts of an exact length cannot be made with it.
    #[error("expected at least {LEAST_WORDS} of our words or letters to be one token each with `{path}`, found {found}")]
    Words {
        /// The file.
        path: PathBuf,
        /// How many are.
        found: usize,
    },
}

impl Tokenizer {
    /// Reads a `tokenizer.json` and finds the words for prompts.
    ///
    /// # Errors
    /// See [`TokenizerError`].
    pub fn read(path: &Path) -> Result<Self, TokenizerError> {
        let failed = |source| TokenizerError::File { path: path.into(), source };
        let content = |reason: String| TokenizerError::Content { path: path.into(), reason };
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(content("it is no file".into()));
        }
        let mut bytes = Vec::new();
        File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(TokenizerError::TooLarge { path: path.into() });
        }
        let read = quietly(|| parsed(&bytes).map(|tokenizer| (find_words(&tokenizer), tokenizer)));
        let (found, tokenizer) = read.map_err(|_| content("it makes the reader fail".into()))?.map_err(content)?;
        let vocabulary = found.map_err(|found| TokenizerError::Words { path: path.into(), found })?;
        Ok(Self(Arc::new(Inner { path: path.into(), tokenizer, vocabulary })))
    }

    /// The words for prompts.
    pub(super) fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocabulary
    }

    /// Tokens of each piece of a text; `ends` are the pieces' ends in bytes. A token that lies in two pieces is one in either:
    /// they were sent apart, so that the server had two. `None` where the text cannot be counted.
    pub(super) fn count(&self, text: &str, ends: &[usize]) -> Option<Vec<u32>> {
        let encoding = catch_unwind(AssertUnwindSafe(|| self.0.tokenizer.encode(text, false))).ok()?.ok()?;
        let mut counts = vec![0; ends.len()];
        let mut first = 0;
        for &(from, to) in encoding.get_offsets() {
            while ends.get(first).is_some_and(|end| *end <= from) {
                first += 1;
            }
            let mut start = if first == 0 { 0 } else { ends[first - 1] };
            for (count, end) in counts[first..].iter_mut().zip(&ends[first..]) {
                if start >= to {
                    break;
                }
                *count += u32::from(start < *end && from < to);
                start = *end;
            }
        }
        Some(counts)
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({})", self.0.path.display())
    }
}

/// Runs what may panic, and says nothing of it: the error does.
fn quietly<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    result
}

fn parsed(bytes: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
    // Some files cut or fill every text to a length that training had.
    tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn length(tokenizer: &tokenizers::Tokenizer, text: &str) -> Option<usize> {
    tokenizer.encode_fast(text, false).ok().map(|encoding| encoding.len())
}

/// The words that are one token each, alone and beside each other, or else the letters; how many were found where they are
/// too few.
fn find_words(tokenizer: &tokenizers::Tokenizer) -> Result<Vocabulary, usize> {
    let mut most = 0;
    for vocabulary in [Vocabulary::words(), Vocabulary::letters()] {
        let single: Vec<&'static str> = vocabulary.words.iter().copied().filter(|word| length(tokenizer, word) == Some(1)).collect();
        let among = Vocabulary { words: single, ..vocabulary };
        // Every word before and after every other: what a word becomes depends on no more than its neighbor.
        let joins_with_none = |word: &&'static str| {
            let pairs: Vec<&str> = among.words.iter().flat_map(|other| [*word, *other]).collect();
            length(tokenizer, &pairs.join(among.separator)) == Some(pairs.len())
        };
        let words: Vec<&'static str> = among.words.iter().copied().filter(joins_with_none).collect();
        let found = Vocabulary { words, ..among };
        most = most.max(found.words.len());
        if found.words.len() >= LEAST_WORDS && length(tokenizer, &found.text(PROOF_WORDS as u32, 1)) == Some(PROOF_WORDS) {
            return Ok(found);
        }
    }
    Err(most.min(LEAST_WORDS - 1))
}

#[cfg(test)]
mod tests {
    use simulate::workload::{Arrivals, Generator, Lengths, SharedPrefix};

    use super::super::prompt;
    use super::*;

    /// A tokenizer as a file of its own, removed at the end.
    struct Made(PathBuf);

    impl Made {
        fn new(name: &str, json: &str) -> Self {
            let path = std::env::temp_dir().join(format!("inferoscope-{}-{name}.json", std::process::id()));
            std::fs::write(&path, json).unwrap();
            Self(path)
        }

        fn read(&self) -> Tokenizer {
            Tokenizer::read(&self.0).unwrap()
        }

        fn error(&self) -> String {
            Tokenizer::read(&self.0).unwrap_err().to_string().replace(&self.0.display().to_string(), "PATH")
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn json(model: &str, pre_tokenizer: &str) -> String {
        format!(
            r#"{{"version":"1.0","truncation":{{"direction":"Right","max_length":8,"strategy":"LongestFirst","stride":0}},"padding":null,
            "added_tokens":[],"normalizer":null,"pre_tokenizer":{pre_tokenizer},"post_processor":null,"decoder":null,"model":{model}}}"#
        )
    }

    /// As in byte-level models: a word of these is one token with the space before it, any other falls into letters.
    fn byte_level(words: &[&str]) -> String {
        let letters = ('a'..='z').map(String::from).chain(["Ġ".to_string()]);
        let whole = words.iter().filter(|word| word.len() > 1).flat_map(|word| [(*word).to_string(), format!("Ġ{word}")]);
        let entries: Vec<String> = letters.chain(whole).enumerate().map(|(id, token)| format!("\"{token}\":{id}")).collect();
        let model = format!(r#"{{"type":"BPE","ignore_merges":true,"vocab":{{{}}},"merges":[]}}"#, entries.join(","));
        json(&model, r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":true}"#)
    }

    fn exact_and_shared(tokenizer: &Tokenizer) {
        let generator = Generator {
            count: 5,
            arrivals: Arrivals::Constant { per_s: 1.0 },
            prompts: Lengths::LogNormal { median: 40.0, sigma: 0.5, most: 300 },
            outputs: Lengths::Fixed(1),
            prefix: Some(SharedPrefix { texts: 1, blocks: 4, block_tokens: 16 }),
            seed: 1,
        };
        let workload = generator.generate();
        let encoded: Vec<Vec<u32>> = (0..5)
            .map(|at| {
                let text = prompt::text(&workload, at, 3, tokenizer.vocabulary());
                tokenizer.0.tokenizer.encode(text, false).unwrap().get_ids().to_vec()
            })
            .collect();
        for (ids, request) in encoded.iter().zip(workload.requests()) {
            assert_eq!(ids.len(), request.prompt_tokens as usize);
            assert_eq!(ids[..64], encoded[0][..64], "shared blocks are the same tokens");
        }
        assert_ne!(encoded[0][64..], encoded[1][64..]);
    }

    #[test]
    fn prompts_have_exactly_their_tokens() {
        let words = Vocabulary::words();
        // Every third word falls apart; the rest is enough.
        let merged: Vec<&str> = words.words.iter().copied().enumerate().filter(|(at, _)| at % 3 > 0).map(|(_, word)| word).collect();
        let some = Made::new("some", &byte_level(&merged)).read();
        assert!(some.vocabulary().separator == " " && (40..=90).contains(&some.vocabulary().words.len()));
        exact_and_shared(&some);
        let letters = Made::new("letters", &byte_level(&[])).read();
        assert_eq!((letters.vocabulary().separator, letters.vocabulary().words.len()), ("", 26));
        exact_and_shared(&letters);
    }

    #[test]
    fn tokens_are_counted_piece_by_piece() {
        let tokenizer = Made::new("pieces", &byte_level(&Vocabulary::words().words)).read();
        let count = |pieces: &[&str]| {
            let mut end = 0;
            let ends: Vec<usize> = pieces
                .iter()
                .map(|piece| {
                    end += piece.len();
                    end
                })
                .collect();
            tokenizer.count(&pieces.concat(), &ends).unwrap()
        };
        assert_eq!(count(&["the", " people made", " water on the", " x"]), [1, 2, 3, 2]);
        // A token cut by the pieces' boundary is one in either; a piece without text has none.
        assert_eq!(count(&["the peo", "", "ple"]), [2, 0, 1]);
        assert_eq!(count(&[]), Vec::<u32>::new());
    }

    #[test]
    fn files_that_are_no_tokenizers_are_named() {
        assert!(Made::new("empty", "").error().starts_with("expected a `tokenizer.json`, found none in `PATH`: "));
        assert!(Made::new("other", r#"{"model_type":"llama"}"#).error().starts_with("expected a `tokenizer.json`, found none in `PATH`: "));
        let few = json(r#"{"type":"WordLevel","vocab":{"the":0,"[UNK]":1},"unk_token":"none"}"#, r#"{"type":"Whitespace"}"#);
        assert_eq!(
            Made::new("few", &few).error(),
            "expected at least 16 of our words or letters to be one token each with `PATH`, found 1"
        );
        let large = Made::new("large", "");
        File::options().write(true).open(&large.0).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert_eq!(large.error(), "expected a `tokenizer.json` of at most 64 MiB, found more in `PATH`");
        assert!(matches!(Tokenizer::read(Path::new("/nowhere/tokenizer.json")), Err(TokenizerError::File { .. })));
    }
}
