//! Prompts of common English words, each one token in the vocabularies of the usual models. With a `tokenizer.json` they are
//! those that it makes one token each (`tokenizer`), and the length of a prompt is exact.
//!
//! What a server counts in the end stands in its usage figures; they are reported, not these. The same block of a workload
//! gives the same words in every prompt that names it, so that prefix caches find what the recording's found. Words are
//! drawn by seed: no prompt of one run equals one of another run with another seed.

use simulate::Workload;
use simulate::rng::split_mix;

/// Short common words.
const WORDS: [&str; 128] = [
    "the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his", "they", "at", "be", "this", "from",
    "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we", "there", "can", "an", "your", "which", "their",
    "said", "if", "do", "will", "each", "about", "how", "up", "out", "them", "then", "she", "many", "some", "so", "these", "would",
    "other", "into", "has", "more", "her", "two", "like", "him", "see", "time", "could", "no", "make", "than", "first", "been", "its",
    "who", "now", "people", "my", "made", "over", "did", "down", "only", "way", "find", "use", "may", "water", "long", "little", "very",
    "after", "words", "called", "just", "where", "most", "know", "get", "through", "back", "much", "before", "go", "good", "new", "write",
    "our", "used", "me", "man", "too", "any", "day", "same", "right", "look", "think", "also", "around", "another", "came", "come", "work",
    "three", "word", "must", "because", "does", "part",
];

/// Words that are one token each, and what stands between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    pub(super) words: Vec<&'static str>,
    pub(super) separator: &'static str,
}

impl Vocabulary {
    /// The common words.
    pub(crate) fn words() -> Self {
        Self { words: WORDS.to_vec(), separator: " " }
    }

    /// Letters in a row, where a tokenizer knows no words.
    pub(super) fn letters() -> Self {
        const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
        Self { words: (0..LETTERS.len()).map(|at| &LETTERS[at..=at]).collect(), separator: "" }
    }

    /// So many words, drawn by `state`.
    pub(super) fn text(&self, count: u32, state: u64) -> String {
        let mut text = String::new();
        self.push(&mut text, count, state);
        text
    }

    fn push(&self, text: &mut String, count: u32, mut state: u64) {
        for at in 0..count {
            // One draw serves nine words of seven bits.
            if at.is_multiple_of(9) {
                state = split_mix(state);
            }
            if !text.is_empty() {
                text.push_str(self.separator);
            }
            let drawn = (state >> (7 * (at % 9))) as usize & 127;
            text.push_str(self.words[(drawn * self.words.len()) >> 7]);
        }
    }
}

/// The prompt of request number `at`: its shared blocks, then words nobody else has.
pub(crate) fn text(workload: &Workload, at: usize, seed: u64, vocabulary: &Vocabulary) -> String {
    let request = &workload.requests()[at];
    let mut text = String::with_capacity(request.prompt_tokens as usize * 6);
    let mut left = request.prompt_tokens;
    let block_tokens = workload.hash_block_tokens();
    for &block in workload.blocks(request) {
        let tokens = block_tokens.min(left);
        vocabulary.push(&mut text, tokens, split_mix(seed ^ split_mix(u64::from(block))));
        left -= tokens;
    }
    vocabulary.push(&mut text, left, split_mix(seed.rotate_left(32) ^ split_mix(at as u64 | 1 << 63)));
    text
}

#[cfg(test)]
mod tests {
    use simulate::Request;
    use simulate::workload::{Arrivals, Generator, Lengths, SharedPrefix};

    use super::*;

    #[test]
    fn a_prompt_has_the_words_it_should() {
        let workload = Workload::new(vec![Request::new(0, 1000, 1), Request::new(1, 1, 1)]);
        assert_eq!(text(&workload, 0, 7, &Vocabulary::words()).split(' ').count(), 1000);
        assert_eq!(text(&workload, 1, 7, &Vocabulary::words()).split(' ').count(), 1);
        assert_eq!(text(&workload, 0, 7, &Vocabulary::words()), text(&workload, 0, 7, &Vocabulary::words()));
        assert_ne!(text(&workload, 0, 7, &Vocabulary::words()), text(&workload, 0, 8, &Vocabulary::words()));
    }

    #[test]
    fn shared_blocks_are_the_same_words_and_the_rest_differs() {
        let generator = Generator {
            count: 2,
            arrivals: Arrivals::Constant { per_s: 1.0 },
            prompts: Lengths::Fixed(40),
            outputs: Lengths::Fixed(1),
            prefix: Some(SharedPrefix { texts: 1, blocks: 4, block_tokens: 16 }),
            seed: 1,
        };
        let workload = generator.generate();
        let [first, second] = [text(&workload, 0, 3, &Vocabulary::words()), text(&workload, 1, 3, &Vocabulary::words())];
        let common = first.split(' ').zip(second.split(' ')).take_while(|(a, b)| a == b).count();
        assert_eq!(first.split(' ').count(), 104);
        assert!((64..70).contains(&common), "{common} words in common");
    }
}
