//! What turning text into tokens and back costs, as arms with and without it show.

use crate::situation::Situation;

/// A process at this share of one core is full: text work in Python runs on one.
pub const FULL_CORE: f64 = 0.9;

/// A time of the client in this arm, and in the arm of the same system and load that skips the tokenizer.
pub fn without_tokenizer(situation: &Situation<'_>, quantity: &str) -> Option<(f64, f64)> {
    let skips = |settings: &crate::evidence::Settings| settings.flag("config.skip_tokenizer_init") == Some(true);
    if skips(&situation.evidence.settings) {
        return None;
    }
    let name = format!("client.{quantity}");
    let mine = situation.evidence.figures.typical(&name)?;
    let comparable = |arm: &&crate::evidence::Evidence| skips(&arm.settings) && !crate::arms::load_differs(situation.evidence, arm);
    situation.other_arms().filter(comparable).find_map(|arm| Some((mine, arm.figures.typical(&name)?)))
}
