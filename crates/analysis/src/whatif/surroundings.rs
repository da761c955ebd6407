//! What stands before and behind the engine: users, connections, a gateway, a buffer.

use simulate::Workload;
use simulate::config::{Load as LoopKind, SystemConfig};
use simulate::outcome::Spread;

use super::baseline::{MIN_ROWS, Notes};
use crate::account::ServerMeans;
use crate::evidence::{Evidence, RequestRow};

/// Fewest users told from a few requests that happen to overlap.
const MIN_USERS: usize = 4;
/// Longest pause of a user that is believed.
const LONGEST_PAUSE_NS: i64 = 60_000_000_000;

/// What stands before and behind the engine, as far as the rows show it.
pub(super) fn surround(system: &mut SystemConfig, evidence: &Evidence, workload: &Workload, notes: &mut Notes) {
    if let Some((users, think_ns)) = closed_users(&evidence.client) {
        system.load = LoopKind::Closed { users, think_ns };
        notes.told.push(format!("a closed loop of {users} users"));
    }
    if let Some(cap) = connection_cap(&evidence.client) {
        system.front.connection_cap = Some(cap);
        notes.told.push(format!("never more than {cap} connections"));
    }
    if is_buffered(evidence) {
        system.delivery.buffering_proxy = true;
        notes.told.push("streams are held until they are complete".into());
    }
    if let Some(means) = ServerMeans::read(evidence).filter(|_| !workload.requests().is_empty()) {
        system.front.gateway_ns = (means.api_s() * 1e9).min(60e9) as i64;
    }
}

/// Users of a closed loop and their pause: requests come only when another has ended, so that the number in flight stands.
fn closed_users(rows: &[RequestRow]) -> Option<(u32, i64)> {
    let mut ends: Vec<i64> = rows.iter().filter_map(|row| row.t_done_ns).collect();
    let mut starts: Vec<i64> = rows.iter().map(|row| row.t_intended_ns.unwrap_or(row.t_sent_ns)).collect();
    ends.sort_unstable();
    starts.sort_unstable();
    let ended_by = |t: i64| ends.partition_point(|end| *end <= t);
    let in_flight: Vec<usize> = starts.iter().enumerate().map(|(at, start)| at + 1 - ended_by(*start).min(at)).collect();
    let users = in_flight.iter().copied().max()?;
    let later = in_flight.get(users..)?;
    let full = later.iter().filter(|count| **count == users).count();
    let (fewest, sum) = (later.iter().copied().min()?, later.iter().sum::<usize>());
    // An open load passes any number now and then; users stand at theirs again and again, and are never far below it.
    let stands = full * 10 >= later.len() && fewest * 5 >= users * 3 && sum * 20 >= later.len() * users * 17;
    if users < MIN_USERS || later.len() < MIN_ROWS || !stands {
        return None;
    }
    let mut pauses: Vec<i64> = starts[users..].iter().filter_map(|start| Some(start - ends[ended_by(*start).checked_sub(1)?])).collect();
    pauses.sort_unstable();
    Some((users as u32, pauses.get(pauses.len() / 2).copied().unwrap_or(0).clamp(0, LONGEST_PAUSE_NS)))
}

/// Most connections in use, where requests wait for one.
fn connection_cap(rows: &[RequestRow]) -> Option<u32> {
    let held: Vec<(i64, i64)> = rows.iter().filter_map(|row| Some((row.t_connected_ns?, row.t_done_ns?))).collect();
    let waits: f64 = rows.iter().filter_map(RequestRow::connection_wait_ns).map(|ns| ns as f64).sum();
    let whole: f64 = rows.iter().filter_map(RequestRow::e2e_ns).map(|ns| ns as f64).sum();
    if held.len() < MIN_ROWS || waits < 0.1 * whole {
        return None;
    }
    let mut edges: Vec<(i64, i32)> = held.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]).collect();
    edges.sort_unstable();
    let mut open = 0;
    edges
        .iter()
        .map(|(_, step)| {
            open += step;
            open
        })
        .max()
        .filter(|most| *most > 0)
        .map(|most| most as u32)
}

/// True when the client sees the whole answer at once and the engine did not make it at once.
pub(super) fn is_buffered(evidence: &Evidence) -> bool {
    let Some(server) = ServerMeans::read(evidence) else { return false };
    let rows = evidence.client.iter().filter(|row| row.ok);
    let streams = Spread::of(rows.filter_map(|row| Some((row.t_done_ns? - row.t_first_ns?) as f64)).collect());
    streams.count >= MIN_ROWS as u64 && server.decode_s > 0.0 && streams.mean_ns * 1e-9 < 0.1 * server.decode_s
}
