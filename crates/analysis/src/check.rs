//! What a check is, and the three answers it may give.

use crate::claims::Claim;
use crate::contract::{Evidence, Hypothesis, Layer, Quantity};
use crate::phase::Phase;
use crate::situation::Situation;

/// One failure mode: its page, its place in the order of precedence, and its logic.
#[derive(Clone, Copy)]
pub struct Check {
    /// Id: file name, page name, case folder.
    pub id: &'static str,
    /// Layer it belongs to.
    pub layer: Layer,
    /// Order in which claims are served, lower first: the section-4 rank times ten, so that neighbors fit between.
    pub rank: u16,
    /// Phases it may claim from.
    pub phases: &'static [Phase],
    /// `memory`, `compute`, `logic`, `host`, `network`, `demand`.
    pub bound_class: &'static str,
    /// Best evidence its cases were ever run on: `recorded`, `trace`, `report`, `simulated`, `typed`.
    pub validated_on: &'static str,
    /// Manual page, Markdown.
    pub page: &'static str,
    /// The logic.
    pub run: fn(&Situation<'_>) -> Answer,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("id", &self.id).field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// Found, clear, or cannot tell. There is no fourth answer, and "cannot tell" never counts as clear.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The problem is there.
    Found(Box<Found>),
    /// It was looked for and is not there.
    Clear {
        /// Figures that say how far from found.
        margin: Vec<(&'static str, f64)>,
        /// The same in words.
        because: String,
    },
    /// The evidence does not decide.
    CannotTell(Missing),
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What was seen, one sentence with numbers.
    pub summary: String,
    /// The verdict's sentence if this becomes the cause.
    pub sentence: String,
    /// Claims on time; empty when the evidence has no seconds.
    pub claims: Vec<Claim>,
    /// What it costs per request.
    pub cost: Option<Quantity>,
    /// Figures it stands on.
    pub evidence: Vec<Evidence>,
    /// What to change and what should then move.
    pub hypotheses: Vec<Hypothesis>,
    /// The one observation that would prove it wrong.
    pub falsified_by: String,
    /// True when it explains nothing by itself.
    pub context_only: bool,
    /// True when it is the bound of hardware or model and not a fault: it never is a cause.
    pub limit: bool,
}

/// Unit of a cost that lies in no request's time: tokens that were made and held back, times how long (attribution, section 0.16).
pub const TOKEN_SECONDS: &str = "token_s";

impl Found {
    /// True when what it costs lies in no request's time, as pauses in a stream do: fine times do not clear it.
    pub fn is_beyond_times(&self) -> bool {
        self.claims.is_empty() && !self.context_only && self.cost.as_ref().is_some_and(|cost| cost.unit == TOKEN_SECONDS)
    }
}

/// What a check would need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Missing {
    /// Signals or settings missing.
    pub signals: Vec<String>,
    /// Why it cannot tell.
    pub because: String,
    /// Upper bound of what it could own, s per request, where one can be computed.
    pub at_most_s: Option<f64>,
    /// The command that records what is missing.
    pub record_with: String,
    /// What recording costs.
    pub record_cost: String,
}

/// Declares the check of the file it stands in. The doc comment is the manual page.
///
/// Fields: `id`, `layer`, `rank`, `phases`, `bound`, `validated_on`, `run`.
macro_rules! check {
    (
        $(#[doc = $doc:literal])+
        id: $id:literal, layer: $layer:ident, rank: $rank:expr, phases: [$($phase:ident),* $(,)?],
        bound: $bound:literal, validated_on: $validated:literal, run: $run:ident $(,)?
    ) => {
        /// The check of this file; its page is `inferoscope explain`'s.
        pub(super) const CHECK: crate::check::Check = crate::check::Check {
            id: $id,
            layer: crate::contract::Layer::$layer,
            rank: $rank,
            phases: &[$(crate::phase::Phase::$phase),*],
            bound_class: $bound,
            validated_on: $validated,
            page: concat!($($doc, "\n"),+),
            run: $run,
        };
    };
}
pub(crate) use check;

/// An evidence row.
pub fn figure(signal: &str, value: f64, unit: &str, from: &str) -> Evidence {
    Evidence { signal: signal.to_string(), value, unit: unit.to_string(), from: from.to_string() }
}

/// Clear, with figures.
pub fn clear(margin: Vec<(&'static str, f64)>, because: impl Into<String>) -> Answer {
    Answer::Clear { margin, because: because.into() }
}
