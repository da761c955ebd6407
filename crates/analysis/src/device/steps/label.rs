//! What the annotation of a step says: phase, tokens, sequences.

/// What a step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepPhase {
    /// Prompts.
    Prefill,
    /// One token per sequence, or as many as are drafted.
    Decode,
    /// Both.
    Mixed,
    /// The annotation does not tell.
    #[default]
    Unknown,
}

impl StepPhase {
    /// All, in order.
    pub const ALL: [Self; 4] = [Self::Prefill, Self::Decode, Self::Mixed, Self::Unknown];

    /// The word used in reports; empty where unknown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Unknown => "",
        }
    }
}

/// One step as annotated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepLabel {
    /// Phase.
    pub phase: StepPhase,
    /// Tokens computed in the step.
    pub tokens: Option<i64>,
    /// Sequences that are in prefill.
    pub prefill_seqs: Option<i64>,
    /// Their tokens.
    pub prefill_tokens: Option<i64>,
    /// Sequences that decode.
    pub decode_seqs: Option<i64>,
    /// Tokens of context that decoding sequences attend to, all together.
    pub decode_context: Option<i64>,
    /// Pairs of a token computed and a token that it attends to, all sequences together, without windows.
    pub pairs: Option<i64>,
    /// Tokens attended to, once per sequence.
    pub keys: Option<i64>,
    /// Number of the step where it has one.
    pub number: Option<i64>,
}

impl StepLabel {
    /// Reads a name; nothing for what is no step of an engine or trainer.
    pub fn read(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("ProfilerStep#") {
            return Some(Self { number: number.trim().parse().ok(), ..Self::default() });
        }
        if let Some(rest) = name.strip_prefix("execute_") {
            return Self::counted(rest).or_else(|| Self::new_and_cached(rest));
        }
        let inside = name.strip_prefix("step[").and_then(|rest| rest.split_once(']')).map(|(inside, _)| inside);
        inside.map(Self::bracketed)
    }

    /// `context_1(888_788544)_generation_0(0)` and, with the step's tokens before it,
    /// `32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)`.
    fn counted(rest: &str) -> Option<Self> {
        let (_, rest) = rest.split_once("context_")?;
        let (context, generation) = rest.split_once("_generation_")?;
        let (prefill_seqs, prefill) = group(context)?;
        let (decode_seqs, decode) = group(generation)?;
        let phase = phase(prefill_seqs > 0, decode_seqs > 0);
        let tokens = prefill.tokens.zip(decode.tokens).and_then(|(a, b)| a.checked_add(b));
        Some(Self {
            phase,
            tokens,
            prefill_seqs: Some(prefill_seqs),
            prefill_tokens: prefill.tokens,
            decode_seqs: Some(decode_seqs),
            decode_context: decode.context,
            pairs: prefill.pairs.zip(decode.pairs).and_then(|(a, b)| a.checked_add(b)),
            keys: prefill.keys.zip(decode.keys).and_then(|(a, b)| a.checked_add(b)),
            number: None,
        })
    }

    /// Sequences of both phases, where told.
    pub fn seqs(&self) -> Option<i64> {
        self.prefill_seqs.unwrap_or(0).checked_add(self.decode_seqs.unwrap_or(0)).filter(|seqs| *seqs > 0)
    }

    /// `new_2_cached_31`: sequences of an older engine.
    fn new_and_cached(rest: &str) -> Option<Self> {
        let (new, cached) = rest.strip_prefix("new_")?.split_once("_cached_")?;
        let (new, cached) = (leading(new)?, leading(cached)?);
        Some(Self { phase: phase(new > 0, cached > 0), prefill_seqs: Some(new), decode_seqs: Some(cached), ..Self::default() })
    }

    /// `DECODE bs=32 toks=32`: the mode as a word and figures as pairs.
    fn bracketed(inside: &str) -> Self {
        let lower = inside.to_ascii_lowercase();
        let figure = |keys: &[&str]| {
            let pairs = lower.split([' ', ',', ';']).filter_map(|pair| pair.split_once(['=', ':']));
            pairs.filter(|(key, _)| keys.contains(key)).find_map(|(_, value)| leading(value))
        };
        let (decodes, prefills) =
            (lower.contains("decode") || lower.contains("verify"), lower.contains("extend") || lower.contains("prefill"));
        let phase = if lower.contains("mixed") { StepPhase::Mixed } else { phase(prefills, decodes) };
        let seqs = figure(&["bs", "batch", "batch_size", "seqs"]);
        Self {
            phase,
            tokens: figure(&["toks", "tokens", "num_tokens", "ext", "extend"]),
            prefill_seqs: seqs.filter(|_| phase == StepPhase::Prefill),
            decode_seqs: seqs.filter(|_| phase == StepPhase::Decode),
            ..Self::default()
        }
    }
}

fn phase(prefills: bool, decodes: bool) -> StepPhase {
    match (prefills, decodes) {
        (true, false) => StepPhase::Prefill,
        (false, true) => StepPhase::Decode,
        (true, true) => StepPhase::Mixed,
        (false, false) => StepPhase::Unknown,
    }
}

/// Sequences of one phase in a step.
#[derive(Default)]
struct Group {
    tokens: Option<i64>,
    context: Option<i64>,
    pairs: Option<i64>,
    keys: Option<i64>,
}

/// `32(32)`, `1(888_788544)`, `32(sq32sk55086sqsq32sqsk55086)`: sequences, then tokens, tokens with the sum of their squares,
/// or sums of lengths: queries, keys, queries squared, queries times keys.
fn group(text: &str) -> Option<(i64, Group)> {
    let (count, inside) = text.split_once('(')?;
    let (count, inside) = (leading(count)?, inside.split_once(')')?.0);
    // Query i of s, behind k keys of which the last s are its own sequence's, sees k - s + i of them.
    let pairs = |tokens: i64, squares: i64, products: i64| products.checked_sub((squares - tokens).max(0) / 2);
    let group = if let Some(rest) = inside.strip_prefix("sq") {
        let (tokens, context) = (leading(rest), rest.split_once("sk").and_then(|(_, rest)| leading(rest)));
        let sum = |key: &str| rest.split_once(key).and_then(|(_, rest)| leading(rest));
        let pairs = tokens.zip(sum("sqsq")).zip(sum("sqsk")).and_then(|((tokens, squares), products)| pairs(tokens, squares, products));
        Group { tokens, context, pairs, keys: context }
    } else if let Some((tokens, squares)) = inside.split_once('_') {
        // Without a context told, each sequence attends to itself alone: no less than that.
        let (tokens, squares) = (leading(tokens), leading(squares));
        let pairs = tokens.zip(squares).and_then(|(tokens, squares)| pairs(tokens, squares, squares));
        Group { tokens, context: None, pairs, keys: tokens }
    } else {
        let tokens = leading(inside);
        let none = (count == 0).then_some(0);
        Group { tokens, context: None, pairs: none, keys: none }
    };
    Some((count, group))
}

fn leading(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, phase: &str, tokens: Option<i64>, seqs: [Option<i64>; 2]) {
        let label = StepLabel::read(name).unwrap();
        assert_eq!((label.phase.as_str(), label.tokens, [label.prefill_seqs, label.decode_seqs]), (phase, tokens, seqs), "{name}");
    }

    #[test]
    fn steps_of_engines_tell_phase_and_size() {
        check("execute_context_1(888_788544)_generation_0(0)", "prefill", Some(888), [Some(1), Some(0)]);
        check("execute_context_0(0)_generation_64(64)", "decode", Some(64), [Some(0), Some(64)]);
        check("execute_context_2(1000)_generation_30(30)", "mixed", Some(1030), [Some(2), Some(30)]);
        check("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)", "decode", Some(32), [Some(0), Some(32)]);
        check("execute_new_2_cached_31", "mixed", None, [Some(2), Some(31)]);
        check("step[DECODE bs=32 toks=32]", "decode", Some(32), [None, Some(32)]);
        check("step[EXTEND bs=3 toks=4096]", "prefill", Some(4096), [Some(3), None]);
        check("ProfilerStep#6", "", None, [None, None]);
    }

    #[test]
    fn the_context_of_decoding_sequences_is_read() {
        let name = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)";
        let label = StepLabel::read(name).unwrap();
        assert_eq!((label.prefill_tokens, label.decode_context, label.tokens), (Some(8155), Some(34489), Some(8192)));
        assert_eq!((label.pairs, label.keys), (Some(7_671_310 - (7_475_785 - 8_155) / 2 + 34_489), Some(8_430 + 34_489)));
        // One prompt of 888 tokens: each attends to itself and those before.
        let label = StepLabel::read("execute_context_1(888_788544)_generation_0(0)").unwrap();
        assert_eq!((label.pairs, label.keys, label.seqs()), (Some(888 * 889 / 2), Some(888), Some(1)));
        assert_eq!(StepLabel::read("execute_context_0(0)_generation_64(64)").unwrap().pairs, None);
    }

    #[test]
    fn other_names_are_no_steps() {
        for name in ["nccl:all_reduce", "execute_", "execute_context_(", "step", "## backward ##", "capture_32_FULL", ""] {
            assert_eq!(StepLabel::read(name), None, "{name}");
        }
    }
}
