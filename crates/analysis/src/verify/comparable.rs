//! Whether two runs differ in nothing but the change.

use capture::Capture;

use super::{signed_percent, within};
use crate::evidence::Evidence;
use crate::gates::Gates;
use crate::load::Load;
use crate::stats::ks_distance;
use crate::words::digits;

/// Lines that start with this say why the runs cannot be compared.
pub(super) const DIFFERS: &str = "differs: ";
/// Largest Kolmogorov-Smirnov distance of lengths.
const LENGTHS: f64 = 0.1;
/// Largest difference of offered rate.
const RATE: f64 = 0.10;
/// Fewest requests per side for a distance: below, chance alone reaches 0.1.
const MIN_ROWS: usize = 10;

/// What was compared, line by line.
pub(super) fn compare(before: &Capture, after: &Capture, b: &Evidence, a: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    let (bs, as_) = (&before.manifest.subject, &after.manifest.subject);
    for (what, x, y) in [
        ("device", &bs.device, &as_.device),
        ("model", &bs.model, &as_.model),
        ("engine", &bs.engine, &as_.engine),
        ("engine version", &bs.engine_version, &as_.engine_version),
    ] {
        if !x.is_empty() && !y.is_empty() {
            lines.push(if x == y { format!("same {what}: {x}") } else { format!("{DIFFERS}{what} {x} before, {y} after") });
        }
    }
    for (what, value) in
        [("prompt", (|row| row.tokens_in) as fn(&crate::evidence::RequestRow) -> Option<i64>), ("output", |row| row.tokens_out)]
    {
        lines.extend(lengths(what, b, a, value));
    }
    let (bl, al) = (Load::read(b, &Gates::read(b)), Load::read(a, &Gates::read(a)));
    if lines.iter().all(|line| !line.contains("lengths")) {
        lines.extend(mean_lengths(&bl, &al));
    }
    lines.extend(offered_rate(b, a, &bl, &al));
    lines
}

fn lengths(what: &str, b: &Evidence, a: &Evidence, value: fn(&crate::evidence::RequestRow) -> Option<i64>) -> Option<String> {
    let of = |evidence: &Evidence| -> Vec<f64> {
        evidence.client.iter().filter(|row| row.ok).filter_map(value).map(|tokens| tokens as f64).collect()
    };
    let (before, after) = (of(b), of(a));
    if before.len() < MIN_ROWS || after.len() < MIN_ROWS {
        return None;
    }
    let distance = ks_distance(&before, &after);
    // Two samples of one population differ by chance: 1.36 sqrt(1/n + 1/m) at 95 % (Smirnov).
    let chance = 1.36 * (1.0 / before.len() as f64 + 1.0 / after.len() as f64).sqrt();
    Some(if distance > LENGTHS.max(chance) {
        format!("{DIFFERS}{what} lengths: distance {} of their distributions, {} allowed", digits(distance), digits(LENGTHS.max(chance)))
    } else {
        format!("same {what} lengths: distance {} of their distributions", digits(distance))
    })
}

fn mean_lengths(b: &Load, a: &Load) -> Vec<String> {
    [("prompt", b.prompt_tokens, a.prompt_tokens), ("output", b.output_tokens, a.output_tokens)]
        .into_iter()
        .filter_map(|(what, before, after)| {
            let ratio = after? / before.filter(|&tokens| tokens > 0.0)?;
            Some(if within(ratio, RATE) {
                format!("same {what} lengths: mean {}", signed_percent(ratio))
            } else {
                format!("{DIFFERS}{what} lengths: mean {}", signed_percent(ratio))
            })
        })
        .collect()
}

/// In a closed loop the rate follows the server, so only an open loop's rate must agree.
/// Requests in flight at the client on average, waiting for a connection included.
fn in_flight(evidence: &Evidence) -> Option<f64> {
    let rows: Vec<(i64, i64)> = evidence.client.iter().filter_map(|row| Some((row.t_sent_ns, row.t_done_ns?))).collect();
    let (first, last) = (rows.iter().map(|row| row.0).min()?, rows.iter().map(|row| row.1).max()?);
    let spent: i64 = rows.iter().map(|(sent, done)| (done - sent).max(0)).sum();
    (rows.len() >= MIN_ROWS && last > first).then(|| spent as f64 / (last - first) as f64)
}

fn offered_rate(b: &Evidence, a: &Evidence, bl: &Load, al: &Load) -> Option<String> {
    let closed = |evidence: &Evidence| {
        evidence.figures.get("client.concurrency").is_some()
            && evidence.figures.get("client.request_rate").is_none_or(|rate| !rate.is_finite())
    };
    if closed(b) && closed(a) {
        let users = |evidence: &Evidence| evidence.figures.get("client.concurrency");
        return Some(if users(b) == users(a) { "same number of users (closed loop)".into() } else { format!("{DIFFERS}number of users") });
    }
    let ratio = al.arrivals_per_s? / bl.arrivals_per_s.filter(|&rate| rate > 0.0)?;
    let users = in_flight(b).zip(in_flight(a)).filter(|(before, after)| within(after / before, RATE));
    Some(if let Some((users, _)) = users.filter(|_| !within(ratio, RATE)) {
        // Users who wait for their answer ask more often when it comes sooner: then as many are in flight as before.
        format!("same number of requests in flight: {}; the rate follows the answers (closed loop)", digits(users))
    } else if within(ratio, RATE) {
        format!("same offered rate: {} req/s, {}", digits(bl.arrivals_per_s?), signed_percent(ratio))
    } else {
        format!(
            "{DIFFERS}offered rate {} req/s before, {} after: the load changed, not the server",
            digits(bl.arrivals_per_s?),
            digits(al.arrivals_per_s?)
        )
    })
}
