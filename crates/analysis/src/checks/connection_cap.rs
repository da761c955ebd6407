//! A pool of connections outside the engine lets fewer requests through than want to.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::connections::{Pool, client_pool, unseen_pool, upstream_pool};
use crate::contract::{Direction, Evidence, Hypothesis, Quantity};
use crate::evidence::{Evidence as Arm, Figures};
use crate::gates::at_cap;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

check! {
    /// A connection pool in the caller or in a router lets only so many requests reach the engine.
    ///
    /// ## Why it costs time
    /// The pool of an HTTP client or router is a queue that the engine cannot see: it runs as many requests as there are
    /// connections, its own queue is empty, its times are fine, and everybody else waits outside. More seats, more cache
    /// or more GPUs change nothing.
    ///
    /// ## How to confirm
    /// Running stands at one number that is no setting of the engine while more requests are offered, with nothing
    /// waiting inside. Offer twice the load: running stays. In the client's log the wait for a connection is the time.
    ///
    /// ## Fix
    /// Raise the limit where it is: aiohttp `TCPConnector(limit=...)` (100 by default), httpx `Limits(max_connections=...)`
    /// (100), requests/urllib3 `pool_maxsize` (10), nginx `worker_connections` and upstream `max_conns`, Envoy circuit
    /// breakers (`max_connections`, `max_pending_requests`). Running then rises to what is offered.
    ///
    /// ## When this is wrong
    /// A load generator's own concurrency is its load, no loss. Waiting above 0 inside the engine means that a limit of
    /// the engine holds the queue (`batch_cap_reached`).
    id: "connection_cap", layer: Application, rank: 3, phases: [Client, Transfer, Gateway], bound: "logic", validated_on: "recorded", run: find,
}

/// Offered load must exceed what runs by this factor: running is written at step ends and lags the load a little.
const BEYOND_RUNNING: f64 = 1.2;
/// Running stands still when it moves by less than this between two loads.
const STANDS: f64 = 0.05;

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let (client, upstream) = (client_pool(&evidence.client), upstream_pool(&evidence.gateway));
    if let Some(pool) = client.filter(Pool::is_full) {
        return from_rows(situation, &pool, Phase::Client, "client");
    }
    if let Some(pool) = upstream.filter(Pool::is_full) {
        return from_rows(situation, &pool, Phase::Gateway, "gateway");
    }
    if let Some(pool) = unseen_pool(evidence, situation.phase_s(Phase::Transfer)) {
        return from_rows(situation, &pool, Phase::Transfer, "caller or gateway");
    }
    if let Some(pool) = client {
        return from_rows(situation, &pool, Phase::Client, "client");
    }
    if let Some(pool) = upstream {
        return from_rows(situation, &pool, Phase::Gateway, "gateway");
    }
    if let Some(standing) = standing(evidence) {
        return Answer::Found(Box::new(from_gauges(situation, &standing)));
    }
    from_load(situation)
}

/// A queue inside the engine of less than this of the wait outside is no limit of its own.
const INSIDE: f64 = 0.1;

/// Rows that say when a connection was in hand.
fn from_rows(situation: &Situation<'_>, pool: &Pool, phase: Phase, whose: &str) -> Answer {
    let margin = vec![("pool_full_share", pool.full_share), ("connection_wait_s", pool.wait_s)];
    // Who came during a step waits for its end; only a queue as long as the one outside is another limit.
    let queues = situation.phase_s(Phase::Queue) >= INSIDE * pool.wait_s;
    let inside = Held::read(situation.evidence).filter(|held| held.waiting >= 1.0 && (queues || !situation.is_timed()));
    if !pool.is_full() || inside.is_some() {
        let why = if inside.is_some() { "and requests wait inside the engine too" } else { "so no limit shows" };
        let because = format!(
            "{} of the requests at the {whose} got their connection when all {} were in use, after {} on average, {why}",
            percent(pool.full_share),
            count(pool.limit),
            seconds(pool.wait_s)
        );
        return clear(margin, because);
    }
    let basis = if phase == Phase::Transfer { Basis::Derived } else { Basis::Measured };
    let rows = vec![
        figure("connections in use, most", pool.limit, "count", "request rows"),
        figure(
            if basis == Basis::Measured { "requests that found the pool full" } else { "scrapes at the limit" },
            pool.full_share,
            "ratio",
            "request rows",
        ),
        figure("wait for a connection, mean", pool.wait_s, "s", "request rows"),
    ];
    let claims = vec![Claim { phase, what: Extent::exactly(1.0), basis }];
    Answer::Found(Box::new(Found {
        summary: format!("{} connections are in use whenever a request asks for one; it waits {}", count(pool.limit), seconds(pool.wait_s)),
        sentence: format!(
            "Requests wait {} for one of {} connections at the {whose}; the engine never sees more than {} at once and has no queue.",
            seconds(pool.wait_s),
            count(pool.limit),
            count(pool.limit)
        ),
        claims,
        cost: Some(Quantity { value: pool.wait_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![raise(situation, pool.limit, pool.wait_s)],
        falsified_by: "with a larger pool the wait for a connection stays".into(),
        ..Found::default()
    }))
}

/// What the engine holds, typed or scraped.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    running: f64,
    waiting: f64,
}

impl Held {
    fn read(evidence: &Arm) -> Option<Self> {
        let total = |name: &str| -> Option<f64> {
            let scraped: Vec<f64> =
                evidence.engines.values().filter_map(|engine| engine.series(name)).map(crate::evidence::Series::max).collect();
            if scraped.is_empty() { evidence.figures.highest(name) } else { Some(scraped.iter().sum()) }
        };
        Some(Self { running: total("engine.running")?, waiting: total("engine.waiting")? })
    }
}

/// Running at a number that is not the engine's, below what is offered, with nothing waiting inside.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Standing {
    running: f64,
    offered: f64,
    /// Offered load moved and running did not.
    twice: bool,
}

fn standing(evidence: &Arm) -> Option<Standing> {
    let of_engine = |running: f64| evidence.settings.number("config.max_num_seqs").is_some_and(|seats| at_cap(running, seats));
    swept(&evidence.figures).or_else(|| single(evidence)).filter(|standing| !of_engine(standing.running))
}

/// A sweep in which offered load grows, running does not, and nothing waits.
fn swept(figures: &Figures) -> Option<Standing> {
    let mut rows: Vec<(f64, f64)> = figures
        .points()
        .filter(|point| point.typical("engine.waiting").is_some_and(|waiting| waiting < 1.0))
        .filter_map(|point| Some((point.typical("client.concurrency")?, point.typical("engine.running")?)))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (&(below, running_below), &(offered, running)) = (rows.get(rows.len().checked_sub(2)?)?, rows.last()?);
    let stands = (running - running_below).abs() <= STANDS * running && offered >= BEYOND_RUNNING * below;
    (stands && offered >= BEYOND_RUNNING * running).then_some(Standing { running, offered, twice: true })
}

/// One load: more offered than runs, running flat at its highest, nothing waits.
fn single(evidence: &Arm) -> Option<Standing> {
    let held = Held::read(evidence)?;
    let offered = evidence.figures.typical("client.concurrency")?;
    let typical = evidence.figures.typical("engine.running").unwrap_or(held.running);
    let flat = typical >= (1.0 - STANDS) * held.running;
    // Time before the engine also keeps requests out of it; only a pool holds running at one number meanwhile.
    let alone = held.running >= 2.0 && held.waiting < 1.0 && evidence.figures.get("engine.running.max").is_some();
    (flat && alone && offered >= BEYOND_RUNNING * held.running).then_some(Standing { running: held.running, offered, twice: false })
}

fn from_gauges(situation: &Situation<'_>, standing: &Standing) -> Found {
    let Standing { running, offered, twice } = *standing;
    let outside_s = situation.phase_s(Phase::Transfer) + situation.phase_s(Phase::Client);
    let claims: Vec<Claim> = [Phase::Client, Phase::Transfer]
        .into_iter()
        .filter(|phase| situation.phase_s(*phase) > 0.0)
        .map(|phase| Claim { phase, what: Extent::exactly(1.0), basis: Basis::Typed })
        .collect();
    let mut rows: Vec<Evidence> = vec![
        figure("engine.running", running, "request", "typed or log"),
        figure("client.concurrency", offered, "request", "typed"),
        figure("engine.waiting", 0.0, "request", "typed or log"),
    ];
    if outside_s > 0.0 {
        rows.push(figure("client TTFT less the server's", outside_s, "s", "typed"));
    }
    let how = if twice { "however many are offered" } else { "with nothing waiting inside" };
    Found {
        summary: format!("running stands at {} of {} offered, {how}", count(running), count(offered)),
        sentence: format!(
            "{} requests are offered and {} run, {how}: a pool of {} connections in front of the engine holds the rest{}.",
            count(offered),
            count(running),
            count(running),
            if outside_s > 0.0 { format!(" for {}", seconds(outside_s)) } else { String::new() }
        ),
        claims,
        cost: (outside_s > 0.0).then(|| Quantity { value: outside_s, unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![raise(situation, running, outside_s)],
        falsified_by: "running rises when more is offered".into(),
        ..Found::default()
    }
}

/// A larger pool: running may rise to what is offered; how fast the engine is then the step law says only where there is one.
fn raise(situation: &Situation<'_>, limit: f64, wait_s: f64) -> Hypothesis {
    let offered = situation.evidence.figures.typical("client.concurrency").unwrap_or(4.0 * limit);
    let ttft_s = situation.account.first_token_mean_s();
    let left_s = (ttft_s - wait_s).max(0.0);
    let mut first = Movement::first_token(situation, Direction::Down).primary();
    if wait_s > 0.0 && ttft_s > 0.0 {
        // The engine gets all the load: what is left of the first token's time grows with the batch at most in proportion.
        first = first.to(
            0.8 * left_s,
            (left_s * offered / limit).min(0.9 * ttft_s).max(left_s),
            "the wait removed; the rest grows with the batch at most in proportion",
        );
    } else {
        first = first.refused("no wait was measured");
    }
    let to = count(offered.max(2.0 * limit));
    Advice::outside("connection pool", &count(limit), &to, "raise the connection limit of the client or router")
        .lever(crate::whatif::setting_of("connection_cap", &to))
        .needs("reload")
        .risk("the engine takes the whole load: its own queue and time per token grow", "waiting inside the engine grows without end")
        .expect(first.build())
        .expect(
            Movement::new("engine.running.max", "running", "request", Direction::Up, Some(limit))
                .guard()
                .to(1.05 * limit, offered.max(2.0 * limit), "from the limit up to what is offered")
                .build(),
        )
        .throughput("rises until the engine is at its own limit")
        .build()
}

/// Nothing stands still; whether load is held outside only the client's side knows.
fn from_load(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let Some(held) = Held::read(evidence) else {
        return Answer::CannotTell(record::client(
            &["client.connect_time", "engine.running", "engine.waiting", "client.concurrency"],
            "nothing says how many requests run and how many are offered",
            situation.is_timed().then_some(0.0),
        ));
    };
    if held.waiting >= 1.0 {
        return clear(
            vec![("waiting", held.waiting)],
            format!("{} requests wait inside the engine: its own limits hold them", count(held.waiting)),
        );
    }
    let offered = evidence.figures.typical("client.concurrency");
    if let Some(offered) = offered.filter(|offered| *offered < BEYOND_RUNNING * held.running) {
        return clear(
            vec![("offered_over_running", offered / held.running.max(1.0))],
            format!("{} of {} offered requests run", count(held.running), count(offered)),
        );
    }
    if !evidence.client.is_empty() {
        let account = &situation.account;
        let outside_s = account.mean_s(Phase::Transfer) + account.mean_s(Phase::Client);
        let share = outside_s / account.first_token_mean_s().max(f64::MIN_POSITIVE);
        return if share < 0.1 {
            clear(vec![("outside_share", share)], format!("{} of the time to first token pass outside the server", percent(share)))
        } else {
            Answer::CannotTell(record::client(
                &["client.connect_time"],
                "the client's file does not say when a connection was in hand",
                Some(outside_s),
            ))
        };
    }
    Answer::CannotTell(record::client(
        &["client.concurrency", "client.connect_time"],
        "what is offered outside the engine is not known",
        situation.is_timed().then_some(0.0),
    ))
}
