//! Prompts without a tokenizer: common English words, each one token in the vocabularies of the usual models.
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

/// The prompt of request number `at`: its shared blocks, then words nobody else has.
pub(crate) fn text(workload: &Workload, at: usize, seed: u64) -> String {
    let request = &workload.requests()[at];
    let mut text = String::with_capacity(request.prompt_tokens as usize * 6);
    let mut left = request.prompt_tokens;
    let block_tokens = workload.hash_block_tokens();
    for &block in workload.blocks(request) {
        let tokens = block_tokens.min(left);
        push_words(&mut text, tokens, split_mix(seed ^ split_mix(u64::from(block))));
        left -= tokens;
    }
    push_words(&mut text, left, split_mix(seed.rotate_left(32) ^ split_mix(at as u64 | 1 << 63)));
    text
}

fn push_words(text: &mut String, count: u32, mut state: u64) {
    for at in 0..count {
        // One draw serves nine words of seven bits.
        if at.is_multiple_of(9) {
            state = split_mix(state);
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[(state >> (7 * (at % 9))) as usize & 127]);
    }
}

#[cfg(test)]
mod tests {
    use simulate::Request;
    use simulate::workload::{Arrivals, Generator, Lengths, SharedPrefix};

    use super::*;

    #[test]
    fn a_prompt_has_the_words_it_should() {
        let workload = Workload::new(vec![Request::new(0, 1000, 1), Request::new(1, 1, 1)]);
        assert_eq!(text(&workload, 0, 7).split(' ').count(), 1000);
        assert_eq!(text(&workload, 1, 7).split(' ').count(), 1);
        assert_eq!(text(&workload, 0, 7), text(&workload, 0, 7));
        assert_ne!(text(&workload, 0, 7), text(&workload, 0, 8));
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
        let [first, second] = [text(&workload, 0, 3), text(&workload, 1, 3)];
        let common = first.split(' ').zip(second.split(' ')).take_while(|(a, b)| a == b).count();
        assert_eq!(first.split(' ').count(), 104);
        assert!((64..70).contains(&common), "{common} words in common");
    }
}
