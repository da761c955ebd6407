//! Every request opens a connection of its own.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Quantity};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

check! {
    /// Connections are opened for every request instead of being reused.
    ///
    /// ## Why it costs time
    /// A new connection costs one round trip, with TLS two or three, and CPU for the handshake on both sides, before the
    /// first byte of the request is sent. Across regions that is a good part of a short first token.
    ///
    /// ## How to confirm
    /// As many connections are opened as requests are sent (`ss -s`, the gateway's accept counter, the client's trace), and
    /// the time until a connection is in hand is a visible part of the time to first token.
    ///
    /// ## Fix
    /// Keep connections alive: one session per process in the client, `keepalive` in the nginx upstream with HTTP/1.1 and
    /// an empty `Connection` header, a longer idle timeout than the caller's think time. New connections per request fall
    /// to 0.
    ///
    /// ## When this is wrong
    /// On one machine a connection costs microseconds: judge by its cost, not by its count. Waiting for a pool of few
    /// connections is `connection_cap`.
    id: "connection_churn", layer: Application, rank: 4, phases: [Client, Transfer], bound: "network", validated_on: "typed", run: find,
}

/// From this many new connections per request on they are not reused.
const NOT_REUSED: f64 = 0.9;
/// Connecting below this share of the time to first token is no cost.
const MATERIAL: f64 = 0.1;

fn find(situation: &Situation<'_>) -> Answer {
    let rows: Vec<_> = situation.evidence.client.iter().filter(|row| row.ok && row.new_connection.is_some()).collect();
    if rows.len() >= 2 {
        let opened: Vec<_> = rows.iter().filter(|row| row.new_connection == Some(true)).collect();
        let wait_ns: i64 = opened.iter().filter_map(|row| row.connection_wait_ns()).sum();
        let per_request = opened.len() as f64 / rows.len() as f64;
        return judge(situation, per_request, wait_ns as f64 * 1e-9 / rows.len() as f64, Basis::Measured, "client rows");
    }
    let figures = &situation.evidence.figures;
    // A gateway that opens a connection to its upstream per request pays for it while it sets the upstream up.
    let by_gateway = figures.by_label("client.new_connections", "source").into_iter().find(|(source, _)| source == "gateway");
    let opened = by_gateway.as_ref().map(|(_, opened)| *opened).or_else(|| figures.typical("client.new_connections"));
    let opened = opened.zip(situation.load_or_typed_requests());
    let set_up = by_gateway.and_then(|_| figures.typical("gateway.upstream_setup_time"));
    let connect = set_up.or_else(|| figures.typical("client.connect_time"));
    match (opened, connect) {
        (Some((opened, requests)), Some(connect)) if requests > 0.0 => judge(situation, opened / requests, connect, Basis::Typed, "typed"),
        (Some((opened, requests)), None) if requests > 0.0 && opened < NOT_REUSED * requests => clear(
            vec![("new_connections_per_request", opened / requests)],
            format!("{} of the requests open a connection", percent(opened / requests)),
        ),
        _ => without(situation),
    }
}

/// Nobody counted connections: what passes between client and server bounds them.
fn without(situation: &Situation<'_>) -> Answer {
    let outside_s = situation.phase_s(Phase::Transfer) + situation.phase_s(Phase::Client);
    let share = outside_s / situation.account.first_token_mean_s().max(f64::MIN_POSITIVE);
    if situation.is_timed() && situation.account.vantage == "client" && share < MATERIAL {
        return clear(vec![("outside_share_of_ttft", share)], format!("{} pass between client and server", seconds(outside_s)));
    }
    Answer::CannotTell(record::client(
        &["client.new_connections", "client.connect_time"],
        "nothing says how many connections were opened, or what one costs",
        situation.is_timed().then_some(outside_s),
    ))
}

fn judge(situation: &Situation<'_>, per_request: f64, connect_s: f64, basis: Basis, from: &str) -> Answer {
    let ttft_s = situation.account.first_token_mean_s();
    let share = connect_s / ttft_s.max(connect_s).max(f64::MIN_POSITIVE);
    let margin = vec![("new_connections_per_request", per_request), ("connect_share_of_ttft", share)];
    if per_request < NOT_REUSED || share < MATERIAL {
        let because = format!("{} new connections per request, {} each", crate::words::digits(per_request), seconds(connect_s));
        return clear(margin, because);
    }
    let phase =
        if situation.phase_s(Phase::Client) > 0.0 || situation.phase_s(Phase::Transfer) <= 0.0 { Phase::Client } else { Phase::Transfer };
    let claimed = situation.share_of(phase, connect_s);
    let claims = if claimed > 0.0 { vec![Claim { phase, what: Extent::exactly(claimed), basis }] } else { Vec::new() };
    let rest_s = (ttft_s - connect_s).max(0.0);
    Answer::Found(Box::new(Found {
        summary: format!("{} connections per request are opened, {} each", crate::words::digits(per_request), seconds(connect_s)),
        sentence: format!(
            "Every request opens a connection of its own, which takes {} of {} to the first token.",
            seconds(connect_s),
            seconds(ttft_s.max(connect_s))
        ),
        claims,
        cost: Some(Quantity { value: connect_s, unit: "s".into() }),
        evidence: vec![
            figure("new connections per request", per_request, "count", from),
            figure("client.connect_time", connect_s, "s", from),
        ],
        hypotheses: vec![
            Advice::outside("keep-alive", "off", "on", "reuse connections: one session per client, keep-alive towards the upstream")
                .needs("reload")
                .risk("idle connections hold file descriptors on both sides", format!("open connections pass {}", count(1e4)))
                .expect(
                    Movement::first_token(situation, Direction::Down)
                        .primary()
                        .to(0.8 * rest_s, 1.25 * rest_s, "without connecting; 25 % for run-to-run spread")
                        .build(),
                )
                .throughput("unchanged")
                .build(),
        ],
        falsified_by: "the time to first token stays when connections are reused".into(),
        ..Found::default()
    }))
}
