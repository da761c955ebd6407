//! The load generator, not the server, is slow.

use model::client::FULL_CORE;

use crate::advice::Advice;
use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::client_health::{COVERS, ClientHealth, LATE_STAMPS};
use crate::contract::{Direction, Evidence, Quantity};
use crate::evidence::Evidence as Arm;
use crate::law::{COALESCED_LIMIT, coalesced_share};
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{digits, percent, seconds};

check! {
    /// The load client itself is the limit: out of CPU, late with its schedule, or reading its socket in large pieces.
    ///
    /// ## Why it costs time
    /// A client that is out of CPU stamps what it receives late: tokens that arrived one by one are read together, times
    /// to first token grow, and requests leave after they were due. The server is fine and looks slow.
    ///
    /// ## How to confirm
    /// The server's own histograms are shorter than the client's figures for the same requests, and the client's main
    /// thread waits for a CPU longer than it runs (`/proc/PID/schedstat`), runs at a full core, or sends late; or the client says
    /// itself how late its loop listened (`client.loop_lag`). A second
    /// client on another machine sees the server's figures.
    ///
    /// ## Fix
    /// Give the client its own cores, split the load over several processes, read in small pieces (a read buffer below one
    /// event), drop per-token work. Client and server figures then agree.
    ///
    /// ## When this is wrong
    /// A proxy that buffers makes the same clumps: only the gateway's own stamps or the client's run queue tell the two
    /// apart (`proxy_buffering`). Waiting for a connection of a small pool is `connection_cap`.
    id: "client_bound", layer: Application, rank: 2, phases: [Client, Transfer, Stream, Decode], bound: "host", validated_on: "typed", run: find,
}

/// Time beyond the server's of which at least this share of the whole must be the client's (attribution, section 0.14).
const OF_WHOLE: f64 = 0.05;
/// The same of the time to first token: a tenth of it is what users of a stream notice.
const OF_FIRST: f64 = 0.10;
/// An event loop this busy makes each event wait three times as long as it takes (a queue with one server): with users
/// who do nothing but wait for it, it is the limit.
const BUSY_LOOP: f64 = 0.75;
/// Client figures must exceed the server's by this share to be worth explaining.
const BEYOND_SERVER: f64 = 0.25;

fn find(situation: &Situation<'_>) -> Answer {
    if situation.account.vantage == "client" && situation.evidence.observed("server.ttft").is_some() {
        from_rows(situation)
    } else {
        from_figures(situation)
    }
}

/// Seconds per request that the client saw and the server did not make: until the first token, and after it.
fn residual_s(situation: &Situation<'_>) -> (f64, f64) {
    let before = situation.phase_s(Phase::Transfer) + situation.phase_s(Phase::Stream);
    let server_decode = situation.evidence.mean("server.decode_time").unwrap_or(f64::INFINITY);
    (before, (situation.phase_s(Phase::Decode) - server_decode).max(0.0))
}

fn from_rows(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let (before_s, after_s) = residual_s(situation);
    let residual = before_s + after_s;
    let of_whole = residual / situation.account.total_mean_s().max(f64::MIN_POSITIVE);
    let of_first = before_s / situation.account.first_token_mean_s().max(f64::MIN_POSITIVE);
    let together = coalesced_share(evidence);
    let margin = vec![("residual_share", of_whole), ("coalesced_share", together)];
    if of_whole < OF_WHOLE && of_first < OF_FIRST {
        return clear(margin, format!("{} of a request pass outside the server ({})", percent(of_whole), seconds(residual)));
    }
    if evidence.client_cpu_s().is_none()
        && let Some(health) = ClientHealth::read(situation)
    {
        return by_own_health(situation, &health, margin);
    }
    match evidence.client_cpu_s() {
        Some((wait, run)) if wait > run => {}
        Some((wait, run)) => {
            return clear(margin, format!("the client waited {} for a CPU and ran {}", seconds(wait), seconds(run)));
        }
        // A gateway that stamps says whether the stream was held there; the client is then not the rival.
        None if together <= COALESCED_LIMIT || !evidence.gateway.is_empty() => {
            return clear(margin, format!("pieces arrive one by one: {} of the gaps are clumped", percent(together)));
        }
        None => return Answer::CannotTell(run_queue("clumped pieces come from a buffer or from a client out of CPU", residual)),
    }
    let (wait, run) = evidence.client_cpu_s().unwrap_or_default();
    let rows = vec![
        figure("client main thread, waited for a CPU", wait, "s", "host counters"),
        figure("client main thread, ran", run, "s", "host counters"),
        figure("time outside the server, per request", residual, "s", "client rows less server sums"),
        figure("coalesced gaps", together, "ratio", "client rows: gaps under 5 % of the engine's"),
    ];
    let mut claims: Vec<Claim> = [Phase::Transfer, Phase::Stream]
        .into_iter()
        .filter(|phase| situation.phase_s(*phase) > 0.0)
        .map(|phase| Claim { phase, what: Extent::exactly(1.0), basis: Basis::Derived })
        .collect();
    if after_s > 0.0 {
        claims.push(Claim {
            phase: Phase::Decode,
            what: Extent::exactly(situation.share_of(Phase::Decode, after_s)),
            basis: Basis::Derived,
        });
    }
    Answer::Found(Box::new(assemble(
        situation,
        format!(
            "the client waited {} for a CPU and ran {}; {} of a request pass outside the server",
            seconds(wait),
            seconds(run),
            percent(of_whole)
        ),
        residual,
        claims,
        rows,
    )))
}

/// The client told how late it listened.
fn by_own_health(situation: &Situation<'_>, health: &ClientHealth, margin: Vec<(&'static str, f64)>) -> Answer {
    let (before_s, _) = residual_s(situation);
    let late =
        format!("its loop was {} late on average and {} at the 99th percentile", seconds(health.lag_mean_s), seconds(health.lag_p99_s));
    let covered_s = LATE_STAMPS.map(|stamps| (stamps * health.lag_mean_s).min(before_s));
    let Some(why) = health.limit(situation).filter(|_| covered_s[2] >= COVERS * before_s) else {
        return clear(margin, format!("the client listened in time: {late}"));
    };
    let phase = situation.roomiest(&[Phase::Transfer, Phase::Stream]).unwrap_or(Phase::Transfer);
    let [lo, mid, hi] = covered_s.map(|seconds| situation.share_of(phase, seconds));
    let rows = vec![
        figure("client.loop_lag.mean", health.lag_mean_s, "s", "the client's own"),
        figure("client.loop_lag.p99", health.lag_p99_s, "s", "the client's own"),
        figure("time outside the server before the first token", before_s, "s", "client rows less server sums"),
    ];
    let claims = vec![Claim { phase, what: Extent::Fraction { lo, mid, hi }, basis: Basis::Derived }];
    let summary = format!("client-limited, {why}; {late}, and {} pass outside the server", seconds(before_s));
    Answer::Found(Box::new(assemble(situation, summary, covered_s[1], claims, rows)))
}

fn run_queue(because: &str, at_most_s: f64) -> Missing {
    record::client(&["proc.runqueue_wait{role=\"load_client\"}", "client.cpu"], because, Some(at_most_s))
}

/// Typed: the client's own health, else client beside server.
fn from_figures(situation: &Situation<'_>) -> Answer {
    let figures = &situation.evidence.figures;
    if let Some(found) =
        late(situation).or_else(|| busy(situation)).or_else(|| large_reads(situation)).or_else(|| starves_engine(situation))
    {
        return Answer::Found(Box::new(found));
    }
    let pair = |quantity: &str| figures.typical(&format!("client.{quantity}")).zip(figures.typical(&format!("server.{quantity}")));
    if let Some(cpu) = figures.typical("client.cpu") {
        return clear(vec![("client_cpu", cpu)], format!("the client uses {} of a core", digits(cpu)));
    }
    match pair("ttft").or_else(|| pair("e2e")) {
        Some((client, server)) if client <= (1.0 + BEYOND_SERVER) * server => clear(
            vec![("client_over_server", client / server)],
            format!("client and server agree: {} and {}", seconds(client), seconds(server)),
        ),
        _ => Answer::CannotTell(record::client(
            &["client.cpu", "client.schedule_slip"],
            "nothing tells how the load client itself fared",
            situation.is_timed().then_some(0.0),
        )),
    }
}

/// Requests leave after they were due.
fn late(situation: &Situation<'_>) -> Option<Found> {
    let figures = &situation.evidence.figures;
    let slip = figures.typical("client.schedule_slip").or_else(|| figures.highest("client.schedule_slip"));
    let lag = figures.typical("client.loop_lag").or_else(|| figures.highest("client.loop_lag"));
    let (name, seconds_late) = slip.map(|s| ("client.schedule_slip", s)).or(lag.map(|s| ("client.loop_lag", s)))?;
    let unit = situation.account.first_token_mean_s().max(figures.typical("client.itl").unwrap_or(0.0));
    (unit > 0.0 && seconds_late >= 0.1 * unit).then(|| {
        // A client that sends late reads late: what is not the server's time to first token is where it shows.
        let phase = situation.roomiest(&[Phase::Client, Phase::Transfer]).unwrap_or(Phase::Client);
        let share = situation.share_of(phase, seconds_late);
        let claims = if share > 0.0 { vec![Claim { phase, what: Extent::exactly(share), basis: Basis::Typed }] } else { vec![] };
        let summary = format!("the client is {} late, of {}", seconds(seconds_late), seconds(unit));
        assemble(situation, summary, seconds_late, claims, vec![figure(name, seconds_late, "s", "typed")])
    })
}

/// How much longer a quantity is at the client than at the server: absolute, for the first one that both state.
fn beyond_server(situation: &Situation<'_>) -> Option<(f64, f64, &'static str)> {
    let figures = &situation.evidence.figures;
    ["ttft", "itl", "tpot", "e2e"].into_iter().find_map(|quantity| {
        let client = figures.typical(&format!("client.{quantity}"))?;
        let server = figures.typical(&format!("server.{quantity}"))?;
        (client > (1.0 + BEYOND_SERVER) * server).then_some((client, server, quantity))
    })
}

/// At a full core, with figures that the server's do not explain.
fn busy(situation: &Situation<'_>) -> Option<Found> {
    let evidence = situation.evidence;
    let cpu =
        evidence.figures.highest("client.cpu").or_else(|| evidence.main_thread_cores("load_client")).filter(|cpu| *cpu >= FULL_CORE)?;
    let (client, server, quantity) = beyond_server(situation)?;
    let rows = vec![
        figure("client.cpu", cpu, "ratio", "typed"),
        figure(&format!("client.{quantity}"), client, "s", "typed"),
        figure(&format!("server.{quantity}"), server, "s", "typed"),
    ];
    let summary = format!(
        "the client uses {} of a core and sees {quantity} of {} where the server has {}",
        digits(cpu),
        seconds(client),
        seconds(server)
    );
    Some(assemble(situation, summary, client - server, outside(situation, quantity, client, server), rows))
}

/// More users, no more requests, an engine that idles, and a client busy enough for its own queue.
fn starves_engine(situation: &Situation<'_>) -> Option<Found> {
    let figures = &situation.evidence.figures;
    let cpu = figures.highest("client.cpu").filter(|cpu| *cpu >= BUSY_LOOP)?;
    let (offered, running) = figures.typical("client.concurrency").zip(figures.typical("engine.running"))?;
    let is_idle = running < 0.5 * offered && figures.highest("engine.waiting").is_some_and(|waiting| waiting < 1.0);
    let rate = |arm: &Arm| arm.figures.typical("client.throughput.requests").or_else(|| arm.figures.typical("client.request_rate"));
    let is_flat = situation.other_arms().any(|arm| {
        let fewer = arm.figures.typical("client.concurrency").is_some_and(|other| offered >= 1.5 * other);
        fewer && rate(situation.evidence).zip(rate(arm)).is_some_and(|(mine, theirs)| mine <= 1.1 * theirs)
    });
    (is_idle && (is_flat || cpu >= FULL_CORE)).then(|| {
        let rows = vec![
            figure("client.cpu", cpu, "ratio", "typed"),
            figure("client.concurrency", offered, "request", "typed"),
            figure("engine.running", running, "request", "typed"),
        ];
        let summary =
            format!("the client uses {} of a core, and of {} users {} are in the engine", digits(cpu), digits(offered), digits(running));
        assemble(situation, summary, 0.0, Vec::new(), rows)
    })
}

/// The client reads more than one event at a time: it stamps them together, when its buffer is full.
fn large_reads(situation: &Situation<'_>) -> Option<Found> {
    let figures = &situation.evidence.figures;
    let (buffer, chunk) = (figures.anywhere("client.read_buffer")?, figures.anywhere("client.chunk_bytes")?);
    let events = buffer / chunk;
    let moved = beyond_server(situation).or_else(|| smaller_reads(situation, buffer))?;
    let (client, server, quantity) = moved;
    (events >= 2.0).then(|| {
        let rows = vec![
            figure("client.read_buffer", buffer, "byte", "typed"),
            figure("client.chunk_bytes", chunk, "byte", "typed"),
            figure(&format!("client.{quantity}"), client, "s", "typed"),
            figure(&format!("{quantity} without it"), server, "s", "the server's, or the arm with a smaller buffer"),
        ];
        let summary = format!(
            "the client reads {} events at a time, and sees {quantity} of {} instead of {}",
            digits(events),
            seconds(client),
            seconds(server)
        );
        assemble(situation, summary, client - server, outside(situation, quantity, client, server), rows)
    })
}

/// Another arm with a smaller read buffer saw shorter times of the same server.
fn smaller_reads(situation: &Situation<'_>, buffer: f64) -> Option<(f64, f64, &'static str)> {
    let mine = &situation.evidence.figures;
    situation.other_arms().find_map(|arm| {
        let smaller = arm.figures.anywhere("client.read_buffer").is_some_and(|other| other < 0.5 * buffer);
        ["ttft", "itl", "tpot", "e2e"].into_iter().filter(|_| smaller).find_map(|quantity| {
            let name = format!("client.{quantity}");
            let (here, there) = (mine.typical(&name)?, arm.figures.typical(&name)?);
            (here > (1.0 + BEYOND_SERVER) * there).then_some((here, there, quantity))
        })
    })
}

/// The claim on what a quantity has beyond the server's.
fn outside(situation: &Situation<'_>, quantity: &str, client: f64, server: f64) -> Vec<Claim> {
    let (phase, share) = match quantity {
        "ttft" => (
            if situation.phase_s(Phase::Transfer) > 0.0 { Phase::Transfer } else { Phase::Client },
            situation.share_of(Phase::Transfer, client - server),
        ),
        "e2e" => (Phase::Decode, situation.share_of(Phase::Decode, client - server)),
        _ => (Phase::Decode, 1.0 - server / client),
    };
    if share > 0.0 { vec![Claim { phase, what: Extent::exactly(share), basis: Basis::Typed }] } else { Vec::new() }
}

fn assemble(situation: &Situation<'_>, summary: String, cost_s: f64, claims: Vec<Claim>, rows: Vec<Evidence>) -> Found {
    let now = situation.account.total_mean_s();
    Found {
        sentence: format!("The load client, not the server, is slow: {summary}."),
        summary,
        claims,
        cost: Some(Quantity { value: cost_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![
            Advice::outside(
                "load client",
                "",
                "more CPU",
                "give the load client cores of its own, or split the load over several processes",
            )
            .risk("none for the server", "the server's own histograms grow")
            .expect(
                Movement::first_token(situation, Direction::Down)
                    .primary()
                    .to(
                        0.8 * (situation.account.first_token_mean_s() - cost_s).max(0.0),
                        situation.account.first_token_mean_s(),
                        "towards the server's own figure",
                    )
                    .build(),
            )
            .expect(
                Movement::new("server.e2e.mean", "e2e at the server", "s", Direction::Unchanged, situation.evidence.mean("server.e2e"))
                    .guard()
                    .refused("the server does the same work")
                    .build(),
            )
            .throughput(if now > 0.0 { "rises if the client's schedule was the limit" } else { "" })
            .build(),
        ],
        falsified_by: "a second client on another machine sees the same figures".into(),
        ..Found::default()
    }
}
