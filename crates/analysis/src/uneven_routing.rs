//! Replicas that are sent unequal shares: by what each finished, which chance alone spreads by its square root.

use crate::evidence::{Engine, Series};
use crate::situation::Situation;

/// Squared deviations from which unequal counts are no chance: three standard errors of the difference of two counts.
const NO_CHANCE: f64 = 9.0;
/// The hot replica finished this many times what the cold one did.
const APART: f64 = 2.0;
/// The cold replica uses at most this share of its seats.
const FREE_SEATS: f64 = 0.5;

/// True when one replica was sent far more than another that had seats free and nobody waiting meanwhile: who waits at the
/// full one waits for the router, not for seats.
pub fn leaves_seats_free(situation: &Situation<'_>) -> bool {
    let Some(seats) = situation.load.seats else { return false };
    let finished = |engine: &Engine| engine.observed("server.e2e").map_or(0.0, |delta| delta.count);
    let mean = |engine: &Engine, name: &str| engine.series(name).map_or(0.0, Series::mean);
    let engines = || situation.evidence.engines.values().filter(|engine| engine.series("engine.running").is_some());
    let order = |a: &&Engine, b: &&Engine| finished(a).total_cmp(&finished(b));
    let Some((hot, cold)) = engines().max_by(order).zip(engines().min_by(order)) else { return false };
    let (many, few) = (finished(hot), finished(cold));
    let is_uneven = many > APART * few && (many - few).powi(2) > NO_CHANCE * (many + few);
    is_uneven && mean(cold, "engine.running") <= FREE_SEATS * seats && mean(cold, "engine.waiting") < mean(hot, "engine.waiting")
}
