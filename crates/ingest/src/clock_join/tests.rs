//! Fixtures of ten minutes in which the client's clock is 700 ms behind and loses 50 ppm against the server's.

#![allow(clippy::needless_for_each, clippy::cast_possible_wrap)]

use std::fmt::Write as _;
use std::fs;

use super::*;

const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;
const START: i64 = 1_796_036_000 * S;
const LENGTH: i64 = 600 * S;

/// A client time at a host time: `skew_ns` behind in the middle, losing `ppm`.
#[derive(Clone, Copy)]
struct Clock {
    skew_ns: i64,
    ppm: i64,
}

const TRUE_CLOCK: Clock = Clock { skew_ns: 0, ppm: 0 };
const SKEWED: Clock = Clock { skew_ns: 700 * MS, ppm: 50 };

impl Clock {
    fn of(self, host_ns: i64) -> i64 {
        host_ns - self.skew_ns - (host_ns - START - LENGTH / 2) / 1_000_000 * self.ppm
    }
}

/// Host times of one request.
struct Made {
    sent: i64,
    received: i64,
    first: i64,
    first_seen: i64,
    done: i64,
    done_seen: i64,
}

/// Requests at five a second; ways of 0.2 ms and more, now and then much more.
fn made() -> Vec<Made> {
    let mut state = 11u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f64 + 1.0) / f64::from(1u32 << 31)
    };
    let mut requests = Vec::new();
    let mut t = START + 5 * S;
    while t < START + LENGTH - 5 * S {
        let mut exponential = |mean_ns: i64| -(mean_ns as f64 * uniform().min(1.0).ln()) as i64;
        let way = |spread: i64| 200_000 + spread;
        let received = t + way(exponential(2 * MS));
        let first = received + 50 * MS + exponential(100 * MS);
        let done = first + 200 * MS + exponential(200 * MS);
        let (first_seen, done_seen) = (first + way(exponential(2 * MS)), done + way(exponential(2 * MS)));
        requests.push(Made { sent: t, received, first, first_seen, done, done_seen });
        t += exponential(S / 5);
    }
    requests
}

fn seconds(t_ns: i64) -> String {
    format!("{}.{:09}", t_ns / S, t_ns % S)
}

fn client(requests: &[Made], clock: Clock, has_ids: bool) -> String {
    let mut text = String::new();
    for (at, it) in requests.iter().enumerate() {
        let id = if has_ids { format!("\"request-{at:06}\"") } else { at.to_string() };
        let [start, first, end] = [it.sent, it.first_seen, it.done_seen].map(|t| seconds(clock.of(t)));
        writeln!(text, "{{\"i\": {id}, \"attempt\": 0, \"start\": {start}, \"first\": {first}, \"end\": {end}, \"ok\": true}}").unwrap();
    }
    text
}

fn gateway(requests: &[Made], has_ids: bool) -> String {
    let mut text = String::new();
    for (at, it) in requests.iter().enumerate() {
        let id = if has_ids { format!("\"id\": \"request-{at:06}\", ") } else { String::new() };
        let [recv, first, done] = [it.received, it.first, it.done].map(seconds);
        writeln!(
            text,
            "{{{id}\"path\": \"/v1/completions\", \"recv\": {recv}, \"upstream_sent\": {recv}, \"client_first_byte\": {first}, \"done\": {done}}}"
        )
        .unwrap();
    }
    text
}

/// A scrape a second; what an engine says of the requests, `others` beside them.
fn scrapes(requests: &[Made], others: usize) -> String {
    let mut text = String::new();
    for second in 0..=600 {
        let t = START + second * S + 137 * MS;
        let come = requests.iter().filter(|it| it.received <= t).count();
        let done = requests.iter().filter(|it| it.done <= t).count();
        let finished = done + others * second as usize;
        writeln!(
            text,
            "# SCRAPE ts={} dur=0.004\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\"}} {}\n\
             vllm:num_requests_waiting{{engine=\"0\"}} 0\nvllm:request_success_total{{engine=\"0\",finished_reason=\"stop\"}} {finished}",
            seconds(t),
            come - done
        )
        .unwrap();
    }
    text
}

fn read(files: &[(&str, &str)]) -> Capture {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    crate::read(&[folder.path().to_path_buf()], &crate::Options::default()).unwrap()
}

/// How far the client's rows stand from where they were sent, at most, and the clock row.
fn off(capture: &Capture, requests: &[Made]) -> (i64, ClockAlignment) {
    let rows = &capture.tables.requests;
    let client = capture.names.find("client");
    let sent = (0..rows.t_sent_ns.len()).filter(|&at| Some(rows.vantage[at]) == client).map(|at| rows.t_sent_ns[at]);
    let off = sent.zip(requests).map(|(found, truth)| (found - truth.sent).abs()).max().unwrap();
    let clock = capture.manifest.clocks.iter().find(|clock| clock.source == "client.jsonl");
    (off, clock.cloned().unwrap_or_default())
}

#[test]
fn skew_and_drift_against_a_gateway_are_recovered_within_two_milliseconds() {
    let requests = made();
    for has_ids in [true, false] {
        let capture = read(&[("client.jsonl", &client(&requests, SKEWED, has_ids)), ("proxy.jsonl", &gateway(&requests, has_ids))]);
        let (off, clock) = off(&capture, &requests);
        assert!(off < 2 * MS && off <= clock.error_ns && clock.error_ns < 3 * MS, "{off} {clock:?}");
        assert!((clock.offset_ns - 700 * MS).abs() < 2 * MS && (clock.drift_ppb - 50_000).abs() < 5_000, "{clock:?}");
        assert_eq!(clock.method.contains("by id"), has_ids, "{clock:?}");
        assert!(capture.tables.requests.t_first_content_ns.iter().all(Option::is_some));
    }
}

/// Ids pair what counts cannot: half of the requests went another way.
#[test]
fn ids_join_where_the_gateway_saw_only_some() {
    let requests = made();
    let some = gateway(&requests[..requests.len() / 2], true);
    let capture = read(&[("client.jsonl", &client(&requests, SKEWED, true)), ("proxy.jsonl", &some)]);
    let (off, clock) = off(&capture, &requests);
    assert!(off <= clock.error_ns && off < 10 * MS, "{off} {clock:?}");
}

#[test]
fn skew_and_drift_against_counters_are_recovered_within_their_error() {
    let requests = made();
    for clock in [SKEWED, Clock { skew_ns: START - 5_000 * S, ppm: -30 }] {
        let capture = read(&[("client.jsonl", &client(&requests, clock, false)), ("metrics.prom", &scrapes(&requests, 0))]);
        let (off, found) = off(&capture, &requests);
        assert!(off <= found.error_ns && off < 15 * MS && found.error_ns < 40 * MS, "{off} {found:?}");
        assert!((found.drift_ppb - clock.ppm * 1000).abs() < 30_000, "{found:?}");
    }
}

#[test]
fn one_clock_stays_as_it_is() {
    let requests = made();
    let files = [("client.jsonl", client(&requests, TRUE_CLOCK, false)), ("metrics.prom", scrapes(&requests, 0))];
    let capture = read(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let (off, clock) = off(&capture, &requests);
    assert_eq!((off, clock.offset_ns, clock.drift_ppb), (0, 0, 0));
    assert!(clock.error_ns > 0 && clock.error_ns < 40 * MS, "{clock:?}");
}

/// An engine that also served others joins nothing; that is said, and a clock of its own is left apart.
#[test]
fn what_cannot_be_joined_is_told() {
    let requests = made();
    let told = |clock: Clock| {
        let capture = read(&[("client.jsonl", &client(&requests, clock, false)), ("metrics.prom", &scrapes(&requests, 1))]);
        let issues = &capture.tables.issues;
        let told: Vec<String> = issues
            .rows()
            .filter(|issue| capture.text(issue.code) == "clock_not_joined")
            .map(|issue| format!("{}: {}", capture.text(issue.severity), capture.text(issue.sentence)))
            .collect();
        (told.join("\n"), off(&capture, &requests))
    };
    let (text, (off, _)) = told(SKEWED);
    assert!(text.starts_with("note: its clock is not joined") && text.contains("never grew by its"), "{text}");
    assert!((off - 700 * MS).abs() < 20 * MS, "left as it was");
    let (text, (_, clock)) = told(Clock { skew_ns: START - 5_000 * S, ppm: 0 });
    assert!(text.starts_with("warning: expected times in common"), "{text}");
    assert!(clock.method.starts_with("not joined") && clock.error_ns == UNKNOWN_ERROR_NS, "{clock:?}");
}
