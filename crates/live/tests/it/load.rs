//! A load against servers whose timing is known.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use live::load::{self, Counting, Dialect, Ending, Figures, HttpVersion, LoadRun, Plan, Schedule, Slo};

use crate::known_http2;
use crate::known_server::{self, Script, Trouble, Truth, Usage, percentile, start};

fn plan(port: u16, requests: usize, schedule: Schedule) -> Plan {
    let server = live::Address::base(&format!("http://127.0.0.1:{port}")).unwrap();
    let (timeout, drain) = (Duration::from_secs(30), Duration::from_secs(30));
    Plan { dialect: Dialect::Vllm, timeout, drain, ..known_server::plan(server, requests, 200.0, [20, 20], schedule) }
}

fn users(users: u32) -> Schedule {
    Schedule::Closed { users, think: Duration::ZERO, ramp: Duration::ZERO }
}

fn run(plan: &Plan) -> (LoadRun, Figures) {
    let run = load::run(plan, &Arc::new(AtomicBool::new(false)), &|_| {}).unwrap();
    let figures = Figures::of(&run.attempts, Slo::default());
    (run, figures)
}

/// Loose limits, for a machine that is busy with other tests; `load_bench` has the tight ones.
#[test]
fn sixty_four_streams_are_timed_as_the_server_says() {
    let (address, truth) = start(Script::default());
    let (run, figures) = run(&plan(address.port(), 128, users(64)));
    let truth = truth.lock().unwrap().clone();
    assert_eq!((figures.completed, figures.failed(), truth.requests, figures.counting), (128, 0, 128, Some(Counting::PerChunk)));
    assert_eq!((figures.concurrency_max, figures.new_connections), (64, 64));
    agrees(&run, &figures, &truth);
    assert_eq!(figures.chunk_gap.count, 128 * 19);
}

/// What the client saw is what the server did, but for the client's own lag and a margin.
fn agrees(run: &LoadRun, figures: &Figures, truth: &Truth) {
    let slack = 0.010 + 3.0 * run.health.lag.p99;
    for (name, seen, values) in [("TTFT", figures.ttft, &truth.ttft_s), ("gap", figures.chunk_gap, &truth.gaps_s)] {
        for (share, seen) in [(0.5, seen.p50), (0.99, seen.p99)] {
            let told = percentile(values, share);
            assert!((seen - told).abs() < slack, "{name} p{share}: {seen} seen, {told} told by the server, slack {slack}");
        }
    }
}

#[test]
fn streams_over_http2_are_timed_as_the_server_says() {
    let (address, truth) = known_http2::start(Script::default());
    // Users that all connect in the same moment measure how the server accepts.
    let schedule = Schedule::Closed { users: 32, think: Duration::ZERO, ramp: Duration::from_millis(500) };
    let plan = Plan { http: HttpVersion::Http2, ..plan(address.port(), 64, schedule) };
    let (run, figures) = run(&plan);
    let truth = truth.lock().unwrap().clone();
    assert_eq!((figures.completed, figures.failed(), truth.requests, figures.counting), (64, 0, 64, Some(Counting::PerChunk)));
    assert_eq!((figures.new_connections, figures.chunk_gap.count), (32, 64 * 19));
    agrees(&run, &figures, &truth);
}

#[test]
fn a_server_without_http2_is_named_as_such() {
    let (address, _truth) = start(Script::default());
    let plan = Plan { http: HttpVersion::Http2, ..plan(address.port(), 3, users(1)) };
    assert_eq!(run(&plan).1.failures.iter().collect::<Vec<_>>(), [(&Ending::NoHttp2, &3)]);
}

#[test]
fn roles_reasoning_and_chunks_of_four_tokens_are_told_apart() {
    let script = |usage| Script { chunks: 16, reasoning: 4, tokens: 4, usage, ..Script::default() };
    for (usage, counting) in [(Usage::PerChunk, Counting::PerChunk), (Usage::Total, Counting::Total), (Usage::None, Counting::Assumed)] {
        let (address, _truth) = start(script(usage));
        let (run, figures) = run(&plan(address.port(), 4, users(4)));
        let tokens = if usage == Usage::None { 16 } else { 64 };
        for attempt in &run.attempts {
            assert_eq!((attempt.ending, attempt.pieces.len(), attempt.output_tokens), (Ending::Done, 16, Some(tokens)));
            let sent = attempt.sent_ns.unwrap();
            let after_ms = |time: Option<i64>| (time.unwrap() - sent) / 1_000_000;
            assert!(after_ms(attempt.first_role_ns) < 150, "the role came at once");
            assert!(after_ms(attempt.first_token_ns()) >= 199);
            assert_eq!(attempt.first_reasoning_ns, attempt.first_token_ns());
            let content_after = attempt.first_content_ns.unwrap() - attempt.first_token_ns().unwrap();
            assert!((50_000_000..200_000_000).contains(&content_after), "four reasoning chunks: {content_after} ns");
        }
        assert_eq!(figures.counting, Some(counting));
        let (chunk_gap, token_gap) = (figures.chunk_gap.p50, figures.token_gap.p50);
        assert!((0.015..0.028).contains(&chunk_gap), "{chunk_gap}");
        let ratio = chunk_gap / token_gap;
        assert!((ratio - if usage == Usage::None { 1.0 } else { 4.0 }).abs() < 0.5, "{usage:?}: {chunk_gap} and {token_gap}");
    }
}

/// Each word is a token, known or not.
const WORDS_ARE_TOKENS: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
    "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
    "model":{"type":"WordLevel","vocab":{"[UNK]":0,"tok":1},"unk_token":"[UNK]"}}"#;

#[test]
fn a_tokenizer_makes_prompts_exact_and_counts_what_the_server_does_not_tell() {
    let path = std::env::temp_dir().join(format!("inferoscope-words-{}.json", std::process::id()));
    std::fs::write(&path, WORDS_ARE_TOKENS).unwrap();
    let tokenizer = load::Tokenizer::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for (usage, counting) in
        [(Usage::None, Counting::Tokenizer), (Usage::Total, Counting::Tokenizer), (Usage::PerChunk, Counting::PerChunk)]
    {
        let (address, truth) = start(Script { chunks: 16, reasoning: 4, tokens: 4, usage, ..Script::default() });
        let plan = Plan { tokenizer: Some(tokenizer.clone()), ..plan(address.port(), 8, users(4)) };
        let (run, figures) = run(&plan);
        assert_eq!(truth.lock().unwrap().prompt_words, [20; 8]);
        for attempt in &run.attempts {
            assert_eq!((attempt.ending, attempt.output_tokens), (Ending::Done, Some(64)));
            assert!(attempt.pieces.iter().all(|piece| piece.tokens == 4), "{usage:?}: {:?}", attempt.pieces);
            assert_eq!(attempt.prompt_tokens, Some(if usage == Usage::None { 20 } else { 7 }));
        }
        assert_eq!((figures.counting, figures.disagreement.answers), (Some(counting), 0));
        let ratio = figures.chunk_gap.p50 / figures.token_gap.p50;
        assert!((ratio - 4.0).abs() < 0.5 && figures.token_gap.count == 8 * 60, "{usage:?}: {ratio}");
        assert!((figures.tpot.p50 * 4.0 - figures.chunk_gap.mean).abs() < 0.004, "{usage:?}: {}", figures.tpot.p50);
    }
}

#[test]
fn trouble_is_named_and_changes_no_figure() {
    for (trouble, ending) in [
        (Trouble::Hang, Ending::Timeout),
        (Trouble::Reset, Ending::Broken),
        (Trouble::Short, Ending::Short),
        (Trouble::Status, Ending::Status),
        (Trouble::Error, Ending::Refused),
    ] {
        let (address, _truth) = start(Script { ttft: Duration::from_millis(20), trouble, ..Script::default() });
        let mut plan = plan(address.port(), 9, users(3));
        plan.timeout = Duration::from_millis(1500);
        let (_, figures) = run(&plan);
        assert_eq!((figures.sent, figures.completed), (9, 3), "{trouble:?}");
        assert_eq!(figures.failures.iter().collect::<Vec<_>>(), [(&ending, &6)], "{trouble:?}");
        assert_eq!(figures.chunk_gap.count, 3 * 19, "{trouble:?}");
    }
}

#[test]
fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (_, figures) = run(&plan(port, 5, users(1)));
    assert_eq!(figures.failures.get(&Ending::Connect), Some(&5));
}

/// An open loop sends on time however slow the server is, and a stop leaves what is cut off out of the figures.
#[test]
fn an_open_loop_keeps_its_schedule_and_a_stop_cuts_it() {
    let (address, _truth) = start(Script { ttft: Duration::from_secs(20), ..Script::default() });
    let mut plan = plan(address.port(), 1000, Schedule::Open);
    plan.duration = Some(Duration::from_millis(500));
    plan.drain = Duration::from_millis(300);
    let started = Instant::now();
    let (run, figures) = run(&plan);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!((80..=101).contains(&run.attempts.len()), "{} of 100 requests were begun", run.attempts.len());
    assert_eq!((figures.cut, figures.completed, figures.failed()), (run.attempts.len() as u64, 0, 0));
    for pair in run.attempts.windows(2) {
        assert!((pair[1].intended_ns - pair[0].intended_ns - 5_000_000).abs() <= 1, "due at equal distances");
    }
}

#[test]
fn whole_answers_are_no_streams() {
    let (address, _truth) = start(Script { trouble: Trouble::Status, ..Script::default() });
    let mut plan = plan(address.port(), 3, users(1));
    plan.is_streamed = false;
    // The known server streams whatever is asked; the body as a whole is then no JSON and must be told as such.
    let (_, figures) = run(&plan);
    assert_eq!((figures.failures.get(&Ending::Status), figures.failures.get(&Ending::Refused)), (Some(&2), Some(&1)));
}

#[test]
fn a_load_becomes_a_capture_with_rows_and_chunks() {
    let (address, _truth) = start(Script { ttft: Duration::from_millis(30), trouble: Trouble::Reset, ..Script::default() });
    let plan = plan(address.port(), 6, users(2));
    let (run, _) = run(&plan);
    let capture = load::into_capture(&plan, &[(2.0, &run)], None, false);
    let rows: Vec<_> = capture.tables.requests.rows().collect();
    assert_eq!((rows.len(), capture.tables.chunks.rows().count()), (6, 2 * 20 + 4 * 10));
    let finishes: Vec<&str> = rows.iter().map(|row| capture.text(row.finish)).collect();
    assert_eq!(finishes.iter().filter(|finish| **finish == "connection").count(), 4, "{finishes:?}");
    for row in &rows {
        assert!(row.t_intended_ns.unwrap() <= row.t_sent_ns && row.t_sent_ns <= row.t_headers_ns.unwrap());
    }
}
