//! Something between engine and caller holds the stream back and delivers it in clumps.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::client_health::ClientHealth;
use crate::clumps::{Clumped, behind_server};
use crate::contract::{Change, Direction, Evidence, Hypothesis, Quantity};
use crate::law::{COALESCED_LIMIT, coalesced_share};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

check! {
    /// A proxy on the way collects the stream and passes it on late and in clumps.
    ///
    /// ## Why it costs time
    /// A buffering proxy waits for a full buffer, a timer or the end of the response. The engine makes the first token in
    /// time, the user sees it when the buffer opens; the tokens after it arrive at once. Inter-token latency at the
    /// client looks better than the engine's own: that is the signature, not an improvement.
    ///
    /// ## How to confirm
    /// Between two vantages time to first token rises while inter-token latency falls. The gateway's log shows the first
    /// byte from the upstream long before the first byte to the client.
    ///
    /// ## Fix
    /// nginx: `proxy_buffering off;` for the route, or send `X-Accel-Buffering: no`. Others: disable response buffering,
    /// compression of `text/event-stream`, and body inspection on this route. Client TTFT falls to the server's.
    ///
    /// ## When this is wrong
    /// A slow prefill moves the server's TTFT too. A load client out of CPU reads its socket late and sees the same
    /// clumps (`client_bound`): only a gateway's own stamps or the client's run queue tell the two apart.
    id: "proxy_buffering", layer: Application, rank: 7, phases: [Stream, Transfer], bound: "network", validated_on: "recorded", run: find,
}

/// Client TTFT must exceed the server's by this share of it before a buffer is worth looking for.
const GAP_SHARE: f64 = 0.25;

fn find(situation: &Situation<'_>) -> Answer {
    if situation.account.vantage == "typed" {
        return from_figures(situation);
    }
    let evidence = situation.evidence;
    let Some(server_s) = evidence.mean("server.ttft") else {
        return Answer::CannotTell(record::scrapes(&["server.ttft"], "the server's own time to first token is not known", None));
    };
    if evidence.client.is_empty() {
        return Answer::CannotTell(record::client(
            &["client.ttft", "client.itl"],
            "nothing was measured outside the server; what a proxy holds back is not in its histograms",
            None,
        ));
    }
    let client_s = situation.account.first_token_mean_s();
    let together = coalesced_share(evidence);
    let held_s = situation.phase_s(Phase::Stream);
    if client_s - server_s < GAP_SHARE * server_s {
        return clear(
            vec![("client_ttft_over_server", client_s / server_s), ("coalesced_share", together)],
            format!("TTFT is {} at the client, {} at the server", seconds(client_s), seconds(server_s)),
        );
    }
    let stamped = evidence.gateway.iter().any(|row| row.t_upstream_first_ns.is_some() && row.t_first_ns.is_some());
    if together <= COALESCED_LIMIT || held_s <= 0.0 {
        return clear(
            vec![("coalesced_share", together), ("held_s", held_s)],
            format!("TTFT grows by {} on the way, but pieces arrive one by one", seconds(client_s - server_s)),
        );
    }
    if !stamped && client_was_starved(situation) == Some(true) {
        return clear(
            vec![("coalesced_share", together), ("held_s", held_s)],
            "the client waited longer for a CPU than it ran: it reads in clumps whatever stands before it",
        );
    }
    if !stamped && client_was_starved(situation).is_none() {
        return Answer::CannotTell(record::client(
            &["gateway.ttft", "proc.runqueue_wait{role=\"load_client\"}"],
            "clumps at the client come from a buffer or from a client out of CPU; neither the gateway's stamps nor the client's run queue is here",
            Some(held_s),
        ));
    }
    Answer::Found(Box::new(found(
        situation,
        &Delays { server: server_s, client: client_s, held: held_s },
        together,
        if stamped { Basis::Measured } else { Basis::Derived },
    )))
}

/// Whether the load client waited for CPU longer than it ran, or says itself that it was late.
fn client_was_starved(situation: &Situation<'_>) -> Option<bool> {
    let counted = situation.evidence.client_cpu_s().map(|(wait, run)| wait > run);
    counted.or_else(|| ClientHealth::read(situation).map(|health| health.limit(situation).is_some()))
}

/// Times to first token at both ends and what was held, s.
#[derive(Clone, Copy)]
struct Delays {
    server: f64,
    client: f64,
    held: f64,
}

fn found(situation: &Situation<'_>, delays: &Delays, together: f64, basis: Basis) -> Found {
    let Delays { server: server_s, client: client_s, held: held_s } = *delays;
    let mut rows = vec![
        figure("server.ttft.mean", server_s, "s", "scrapes"),
        figure("client.ttft.mean", client_s, "s", "client rows"),
        figure(
            "held before the first piece",
            held_s,
            "s",
            if basis == Basis::Measured {
                "gateway stamps: first byte in to first byte out"
            } else {
                "server decode time minus the stream's own length"
            },
        ),
        figure("coalesced gaps", together, "ratio", "client rows: gaps under 5 % of the engine's"),
    ];
    let itl = situation.evidence.mean("server.itl");
    if let Some(itl) = itl {
        rows.push(figure("server.itl.mean", itl, "s", "scrapes"));
    }
    assemble(
        Wording {
            summary: format!(
                "the first token leaves the server after {}, reaches the client after {}; {} of the gaps are clumped",
                seconds(server_s),
                seconds(client_s),
                percent(together)
            ),
            sentence: format!(
                "The stream is held back {} on its way: TTFT is {} at the server and {} at the client, where {} of the pieces arrive in clumps.",
                seconds(held_s),
                seconds(server_s),
                seconds(client_s),
                percent(together)
            ),
        },
        vec![Claim { phase: Phase::Stream, what: Extent::exactly(1.0), basis }],
        held_s,
        rows,
        predictions(situation, delays, itl),
    )
}

struct Wording {
    summary: String,
    sentence: String,
}

fn assemble(
    words: Wording,
    claims: Vec<Claim>,
    held_s: f64,
    evidence: Vec<Evidence>,
    predictions: Vec<crate::contract::Prediction>,
) -> Found {
    Found {
        summary: words.summary,
        sentence: words.sentence,
        claims,
        cost: Some(Quantity { value: held_s, unit: "s".into() }),
        evidence,
        hypotheses: vec![Hypothesis {
            id: String::new(),
            change: Change {
                flag: "response buffering".into(),
                from: "on".into(),
                to: "off".into(),
                from_source: "what the stream shows".into(),
                needs: "reload".into(),
                reload_s: None,
                valid_for: String::new(),
                instruction: "turn response buffering off for this route (nginx: proxy_buffering off;)".into(),
                lever: "proxy_buffering=off".into(),
            },
            risk: "the proxy passes small pieces on: more packets, a slow reader holds an upstream connection".into(),
            rollback: "turn it on again".into(),
            undo_if: "the proxy runs out of upstream connections".into(),
            predictions,
            throughput: "unchanged".into(),
        }],
        falsified_by: "the gateway's own stamps: first byte out as early as first byte in".into(),
        context_only: false,
        limit: false,
    }
}

fn predictions(situation: &Situation<'_>, delays: &Delays, itl: Option<f64>) -> Vec<crate::contract::Prediction> {
    let Delays { server: server_s, client: client_s, held: held_s } = *delays;
    let rest = (client_s - held_s).max(server_s);
    let e2e_s = situation.account.total_mean_s();
    let mut list = vec![
        Movement::new("client.ttft.mean", "TTFT mean", "s", Direction::Down, Some(client_s))
            .primary()
            .to(0.8 * server_s, 1.25 * rest, "what the buffer held removed; 25 % for run-to-run spread")
            .build(),
        Movement::new("client.e2e.mean", "e2e mean", "s", Direction::Unchanged, Some(e2e_s))
            .guard()
            .to(0.7 * e2e_s, 1.25 * e2e_s, "the engine's work is the same")
            .build(),
    ];
    if let Some(itl) = itl {
        let now = client_gap_mean_s(situation);
        list.push(
            Movement::new("client.itl.mean", "ITL mean", "s", Direction::Up, now)
                .to(0.7 * itl, 1.4 * itl, "gaps become the engine's own")
                .build(),
        );
    }
    list
}

fn client_gap_mean_s(situation: &Situation<'_>) -> Option<f64> {
    let gaps = &situation.evidence.gaps;
    (!gaps.is_empty()).then(|| gaps.iter().map(|gap| gap.gap_ns as f64 * 1e-9).sum::<f64>() / gaps.len() as f64)
}

/// Typed numbers: the server sends evenly, and the client gets clumps or everything at once.
fn by_clumps(situation: &Situation<'_>, clumped: &Clumped) -> Found {
    let Clumped { inner_s, client_s, server_itl_s, chunk_tokens } = *clumped;
    let held_s = client_s - inner_s;
    let mut rows =
        vec![figure("client.ttft", client_s, "s", "typed"), figure("inner ttft", inner_s, "s", "the server's, or the direct arm's")];
    rows.extend(chunk_tokens.map(|tokens| figure("client.chunk_tokens", tokens, "token", "typed")));
    rows.extend(server_itl_s.map(|itl| figure("inner itl", itl, "s", "the server's, or the direct arm's")));
    let phase =
        if situation.phase_s(Phase::Stream) <= 0.0 && situation.phase_s(Phase::Transfer) > 0.0 { Phase::Transfer } else { Phase::Stream };
    let share = situation.share_of(phase, held_s);
    let claims = if share > 0.0 { vec![Claim { phase, what: Extent::exactly(share), basis: Basis::Typed }] } else { Vec::new() };
    let pieces = chunk_tokens.map_or("the rest at once".to_string(), |tokens| format!("{} tokens at a time", digits(tokens)));
    assemble(
        Wording {
            summary: format!("the first token comes after {} instead of {}, {pieces}", seconds(client_s), seconds(inner_s)),
            sentence: format!(
                "The stream is held back {} on its way: the first token leaves the server after {} and arrives after {}, {pieces}.",
                seconds(held_s),
                seconds(inner_s),
                seconds(client_s)
            ),
        },
        claims,
        held_s,
        rows,
        predictions(situation, &Delays { server: inner_s, client: client_s, held: held_s }, server_itl_s),
    )
}

/// Typed numbers: two vantages of one arm, or the same load with and without the proxy.
fn from_figures(situation: &Situation<'_>) -> Answer {
    if let Some(clumped) = behind_server(situation) {
        return Answer::Found(Box::new(by_clumps(situation, &clumped)));
    }
    let figures = &situation.evidence.figures;
    let own = |vantage: &str| Some((figures.typical(&format!("{vantage}.ttft"))?, figures.typical(&format!("{vantage}.itl"))?));
    let inner = own("server").map(|pair| (pair, "server")).or_else(|| {
        let base = &situation.baseline.as_ref()?.evidence.figures;
        Some(((base.typical("client.ttft")?, base.typical("client.itl")?), "direct arm"))
    });
    let (Some((client_s, client_itl)), Some(((server_s, server_itl), whose))) = (own("client"), inner) else {
        return Answer::CannotTell(record::client(
            &["client.ttft", "client.itl", "server.ttft", "server.itl"],
            "a buffer shows only between two vantages, and one is missing",
            None,
        ));
    };
    let (rise, fall) = (client_s / server_s, client_itl / server_itl);
    // ITL must fall to half: pieces of a stream that is only delayed keep their rhythm.
    if client_s - server_s <= 0.0 || fall > 0.5 {
        return clear(
            vec![("ttft_ratio", rise), ("itl_ratio", fall)],
            format!("TTFT {} and ITL {} of the inner vantage's", percent(rise), percent(fall)),
        );
    }
    let held_s = client_s - server_s;
    let rows = vec![
        figure("client.ttft", client_s, "s", "typed"),
        figure("client.itl", client_itl, "s", "typed"),
        figure("inner ttft", server_s, "s", whose),
        figure("inner itl", server_itl, "s", whose),
    ];
    Answer::Found(Box::new(assemble(
        Wording {
            summary: format!(
                "TTFT rises from {} ({whose}) to {} while ITL falls from {} to {}",
                seconds(server_s),
                seconds(client_s),
                seconds(server_itl),
                seconds(client_itl)
            ),
            sentence: format!(
                "The stream is held back {} on its way: TTFT rises from {} to {} while ITL falls from {} to {}.",
                seconds(held_s),
                seconds(server_s),
                seconds(client_s),
                seconds(server_itl),
                seconds(client_itl)
            ),
        },
        vec![Claim { phase: Phase::Stream, what: Extent::exactly(1.0), basis: Basis::Typed }],
        held_s,
        rows,
        predictions(situation, &Delays { server: server_s, client: client_s, held: held_s }, Some(server_itl)),
    )))
}
