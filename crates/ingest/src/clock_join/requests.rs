//! A client and a gateway that saw the same requests: each reached the gateway after it was sent, and each answer the
//! client after the gateway had it.
//!
//! Requests are paired by id where ids tell them apart. Where they do not, but both saw equally many, sorted times serve:
//! if each of a set of times precedes its partner, so does the earliest the earliest, and so on, whoever is whose.

use std::collections::BTreeMap;

use capture::{Capture, Name};

use super::fit::{self, Bounds, Line};
use super::span;

/// Ids shorter than this are line numbers, which pair what does not belong together.
const MIN_ID_BYTES: usize = 8;
/// Fewest requests paired by id.
const MIN_PAIRS: usize = 3;

/// The line of a client's clock, and how it was found. `is_only_client`: nobody else sent through the gateway.
pub(super) fn fit(capture: &Capture, client: &[usize], gateway: &[usize], is_only_client: bool) -> Result<(Line, String), String> {
    let span = span(capture, client).ok_or("it has no requests")?;
    let pairs = pairs(capture, client, gateway);
    if pairs.len() >= MIN_PAIRS {
        let line = fit::fit(&by_id(capture, &pairs), span)?;
        return Ok((line, format!("{} requests paired by id with the gateway's", pairs.len())));
    }
    if client.len() != gateway.len() || !is_only_client {
        return Err(format!("no ids pair its {} requests with the {} of the gateway", client.len(), gateway.len()));
    }
    let line = fit::fit(&by_order(capture, client, gateway), span)?;
    Ok((line, format!("{} requests in the order in which the gateway saw as many", client.len())))
}

/// Rows of the same request, for ids that stand once on each side.
fn pairs(capture: &Capture, client: &[usize], gateway: &[usize]) -> Vec<(usize, usize)> {
    let ids = |rows: &[usize]| {
        let mut by_id: BTreeMap<Name, Option<usize>> = BTreeMap::new();
        for &at in rows {
            let id = capture.tables.requests.request_id[at];
            if capture.text(id).len() >= MIN_ID_BYTES {
                by_id.entry(id).and_modify(|row| *row = None).or_insert(Some(at));
            }
        }
        by_id
    };
    let gateways = ids(gateway);
    ids(client).into_iter().filter_map(|(id, row)| Some((row?, (*gateways.get(&id)?)?))).collect()
}

fn by_id(capture: &Capture, pairs: &[(usize, usize)]) -> Bounds {
    let requests = &capture.tables.requests;
    let mut bounds = Bounds::default();
    for &(client, gateway) in pairs {
        let sent = left(capture, client);
        bounds.upper.push((sent, requests.t_sent_ns[gateway].saturating_sub(sent)));
        for times in [&requests.t_first_content_ns, &requests.t_done_ns] {
            if let (Some(seen), Some(answered)) = (times[client], times[gateway]) {
                bounds.lower.push((seen, answered.saturating_sub(seen)));
            }
        }
    }
    bounds
}

fn by_order(capture: &Capture, client: &[usize], gateway: &[usize]) -> Bounds {
    let requests = &capture.tables.requests;
    let sorted = |mut times: Vec<i64>| {
        times.sort_unstable();
        times
    };
    let sent = sorted(client.iter().map(|&at| left(capture, at)).collect());
    let received = sorted(gateway.iter().map(|&at| requests.t_sent_ns[at]).collect());
    let mut bounds = Bounds {
        upper: sent.into_iter().zip(received).map(|(sent, received)| (sent, received.saturating_sub(sent))).collect(),
        ..Bounds::default()
    };
    for times in [&requests.t_first_content_ns, &requests.t_done_ns] {
        let of = |rows: &[usize]| sorted(rows.iter().filter_map(|&at| times[at]).collect());
        let (seen, answered) = (of(client), of(gateway));
        if seen.len() == answered.len() {
            bounds.lower.extend(seen.into_iter().zip(answered).map(|(seen, answered)| (seen, answered.saturating_sub(seen))));
        }
    }
    bounds
}

/// When a request left the client: once it had a connection.
fn left(capture: &Capture, at: usize) -> i64 {
    let requests = &capture.tables.requests;
    requests.t_connected_ns[at].map_or(requests.t_sent_ns[at], |connected| connected.max(requests.t_sent_ns[at]))
}
