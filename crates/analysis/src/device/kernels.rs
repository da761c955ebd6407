//! What a kernel does, told by its name: one table of rules, the first that matches wins.
//!
//! Words are looked for in the lower-case name. Order matters where names nest: an attention kernel has `cutlass` types
//! among its template arguments, a fused all-reduce has `norm` in its name.

mod family;
mod made_for;
mod rules;
#[cfg(test)]
mod tests;

pub use family::family;
pub use made_for::{capability, made_for, made_for_word};
use rules::{RULES, Word};

/// What device time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Category {
    /// Collectives and sends between devices.
    Communication,
    /// Routing to experts and their matrix products.
    Moe,
    /// Attention in any form, and the writes to its cache.
    Attention,
    /// Matrix products and convolutions.
    Gemm,
    /// Norms and softmax.
    Norm,
    /// Pointwise work, activations, rotary embedding, indexing, reductions.
    Elementwise,
    /// Changes of number format.
    Quantize,
    /// Choosing the next token.
    Sampling,
    /// Kernels that only move or fill memory.
    CopyKernel,
    /// Copies and memsets by the copy engine or driver.
    Copy,
    /// A graph replay recorded as one block.
    Graph,
    /// No rule knows the name.
    Other,
}

impl Category {
    /// All, in order of the account.
    pub const ALL: [Self; 12] = [
        Self::Communication,
        Self::Moe,
        Self::Attention,
        Self::Gemm,
        Self::Norm,
        Self::Elementwise,
        Self::Quantize,
        Self::Sampling,
        Self::CopyKernel,
        Self::Copy,
        Self::Graph,
        Self::Other,
    ];

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Communication => "communication",
            Self::Moe => "moe",
            Self::Attention => "attention",
            Self::Gemm => "gemm",
            Self::Norm => "norm",
            Self::Elementwise => "elementwise",
            Self::Quantize => "quantize",
            Self::Sampling => "sampling",
            Self::CopyKernel => "copy_kernel",
            Self::Copy => "copy",
            Self::Graph => "graph",
            Self::Other => "other",
        }
    }
}

/// Whether a kernel computes on matrix units (tensor cores, MFMA), as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatrixUnits {
    /// It does.
    Used,
    /// It is a matrix product on the ordinary units.
    Missed,
    /// The name does not tell.
    Unknown,
    /// Nothing there to multiply.
    NotNeeded,
}

/// What the name of a kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it does.
    pub category: Category,
    /// Whether on matrix units.
    pub matrix: MatrixUnits,
}

/// Reads a kernel's name.
pub fn kind(name: &str) -> Kind {
    let lower = name.to_ascii_lowercase();
    let found = RULES.iter().find(|rule| rule.words.iter().any(|word| matches(&lower, word)));
    found.map_or(Kind { category: Category::Other, matrix: MatrixUnits::Unknown }, |rule| Kind {
        category: rule.category,
        matrix: rule.matrix,
    })
}

/// The words of a name by which its rule was found: they alone lead to the same rule.
pub fn deciding_words(name: &str) -> Vec<&'static str> {
    let lower = name.to_ascii_lowercase();
    let found = RULES.iter().flat_map(|rule| rule.words).find(|word| matches(&lower, word));
    match found {
        Some(Word::Anywhere(text) | Word::Begins(text) | Word::Starts(text)) => vec![text],
        Some(Word::Both(a, b)) => vec![a, b],
        None => Vec::new(),
    }
}

fn matches(lower: &str, word: &Word) -> bool {
    match *word {
        Word::Anywhere(text) => lower.contains(text),
        Word::Begins(text) => begins_a_word(lower, text),
        Word::Starts(text) => lower.starts_with(text),
        Word::Both(a, b) => lower.contains(a) && lower.contains(b),
    }
}

/// True where the text stands at the start or behind something that is no letter.
fn begins_a_word(lower: &str, text: &str) -> bool {
    lower.match_indices(text).any(|(at, _)| at == 0 || !lower.as_bytes()[at - 1].is_ascii_lowercase())
}
