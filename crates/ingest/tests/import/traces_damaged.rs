//! Damaged traces: read over the damage, and told.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use capture::Capture;
use expect_test::{Expect, expect};
use flate2::Compression;
use flate2::write::GzEncoder;
use ingest::Options;

use crate::shown::{check as check_capture, data};

const EVENTS: usize = 20;

/// A kernel and its launch, as Kineto lays them out.
fn pair(at: usize) -> [String; 2] {
    let ts = 1_000 + 100 * at;
    [
        format!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 9, \"tid\": 9,\n    \"ts\": {ts}.125, \"dur\": 7.000,\n    \"args\": {{\n      \"cbid\": 211, \"correlation\": {}\n    }}\n  }}",
            at + 1
        ),
        format!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm<{}>\", \"pid\": 0, \"tid\": 7,\n    \"ts\": {}.500, \"dur\": 50.250,\n    \"args\": {{\n      \"device\": 0, \"stream\": 7, \"correlation\": {}, \"grid\": [1, 2, 3]\n    }}\n  }}",
            at % 3,
            ts + 20,
            at + 1
        ),
    ]
}

fn events() -> Vec<String> {
    (0..EVENTS / 2).flat_map(pair).collect()
}

fn document(events: &[String]) -> String {
    let head = "{\n  \"schemaVersion\": 1,\n  \"baseTimeNanoseconds\": 1727743122000000000,\n  \"traceEvents\": [\n";
    format!("{head}{}\n  ],\n  \"traceName\": \"t\"\n}}\n", events.join(",\n"))
}

fn read(bytes: &[u8]) -> Capture {
    ingest::read_bytes("trace.json", bytes, &Options::default())
}

fn rows(capture: &Capture) -> usize {
    capture.tables.device_events.t_start_ns.len() + capture.tables.host_events.t_start_ns.len()
}

fn check(bytes: &[u8], expected: Expect) {
    check_capture(&read(bytes), &["sources", "counts"], expected);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_trace_cut_anywhere_keeps_every_event_before() {
    let text = document(&events());
    for cut in (0..text.len()).step_by(3) {
        let capture = read(&text.as_bytes()[..cut]);
        if capture.manifest.sources[0].format != "kineto_json" {
            assert!(cut < 200, "byte {cut} is told as a trace");
            continue;
        }
        let whole = text[..cut].matches("\n  }").count();
        assert!(rows(&capture) == whole.min(EVENTS) || whole > EVENTS, "{cut}: {} of {whole}", rows(&capture));
        // The list of events is what may not be cut.
        let is_told = capture.manifest.sources[0].damaged;
        assert_eq!(is_told, cut < text.len() - 2, "{cut}");
    }
}

#[test]
fn one_broken_event_costs_one_event() {
    let sound = events();
    let breaks: &[(&str, &str)] = &[
        ("\"gemm<1>\"", "\"gemm \"of\" <1>\""),
        ("\"pid\": 0", "\"pid\": "),
        ("\"args\": {", "\"args\": ["),
        ("\"ts\"", "\"ts"),
        ("\"grid\": [1, 2, 3]", "\"grid\": [1, 2, 3"),
        ("\n  }", "\n  "),
    ];
    for (from, to) in breaks {
        let mut broken = sound.clone();
        broken[3] = broken[3].replacen(from, to, 1);
        assert_ne!(broken[3], sound[3], "{from}");
        let capture = read(document(&broken).as_bytes());
        assert_eq!(rows(&capture), EVENTS - 1, "{to}");
        let codes: Vec<&str> = capture.tables.issues.code.iter().map(|code| capture.text(*code)).collect();
        assert_eq!(codes, ["damaged_events"], "{to}");
        assert_eq!(capture.tables.issues.count, [1], "{to}");
    }
}

#[test]
fn impossible_times_are_left_out_and_counted() {
    let mut events = events();
    events[1] = events[1].replace("\"dur\": 50.250", "\"dur\": -50.250");
    events[3] = events[3].replace("\"ts\": ", "\"ts\": 9223372036854775808");
    events[5] = events[5].replace("\"dur\": 50.250", "\"dur\": 99999999999.000");
    events[7] = events[7].replace("\"ts\": ", "\"ts\": 99999999999");
    events[9] = events[9].replace(", \"dur\": 50.250", "");
    check(
        document(&events).as_bytes(),
        expect![[r#"
            source trace.json kineto_json rows=16 unmapped=0 damaged
            runs=1 device_events=5 host_events=10 devices=1 issues=3
            ! warning events_without_duration trace.json [byte 1869] x1 expected a duration of device work, found none; these events are left out
            ! warning impossible_times trace.json [byte 277] x3 expected times of device work and calls as microseconds that fit, with durations from 0 to an hour, found others; these events are left out
            ! warning times_far_off trace.json [] x1 expected all work within ten days of its middle, found some outside; it is left out
        "#]],
    );
}

#[test]
fn ids_that_come_twice_are_no_damage_and_events_that_come_twice_are_told() {
    let mut events = events();
    events[3] = events[3].replace("\"correlation\": 2", "\"correlation\": 1");
    events[5] = events[7].clone();
    check(
        document(&events).as_bytes(),
        expect![[r#"
        source trace.json kineto_json rows=21 unmapped=0
        runs=1 device_events=10 host_events=10 devices=1 issues=1
        ! note duplicate_events trace.json [] x1 expected each piece of device work once, found the same again (same name, stream, launch and times); all are kept
    "#]],
    );
}

#[test]
fn names_that_are_no_text_are_replaced() {
    let mut bytes = document(&events()).into_bytes();
    let at = memchr::memmem::find(&bytes, b"gemm<1>").unwrap();
    bytes[at..at + 4].copy_from_slice(b"\xff\xfe\x01\n");
    check(
        &bytes,
        expect![[r#"
        source trace.json kineto_json rows=21 unmapped=0
        runs=1 device_events=10 host_events=10 devices=1 issues=1
        ! note names_not_utf8 trace.json [byte 665] x1 expected names in UTF-8, found other bytes; they are replaced
    "#]],
    );
}

#[test]
fn a_nesting_of_a_million_levels_costs_its_event() {
    let mut events = events();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(1_000_000), close.repeat(1_000_000));
        events[4] = events[4].replacen("\"cbid\": 211", &format!("\"cbid\": {deep}"), 1);
        let started = Instant::now();
        let capture = read(document(&events).as_bytes());
        assert_eq!(rows(&capture), EVENTS, "it is sound, and passed over");
        let unclosed = document(&events).replace(&close.repeat(1_000_000), "");
        assert!(rows(&read(unclosed.as_bytes())) >= EVENTS - 1);
        assert!(started.elapsed() < Duration::from_secs(20));
        events[4] = pair(2)[0].clone();
    }
}

#[test]
fn damage_before_the_events_does_not_hide_them() {
    let text = document(&events()).replace("\"schemaVersion\": 1", "\"schemaVersion\": \"a\" b, {{{");
    let capture = read(text.as_bytes());
    assert_eq!(rows(&capture), EVENTS);
    assert!(capture.manifest.sources[0].damaged);
    let deep = document(&events()).replace("\"schemaVersion\": 1", &format!("\"own\": {}", "[".repeat(50_000)));
    assert_eq!(rows(&read(deep.as_bytes())), EVENTS);
}

#[test]
fn joined_files_and_members_read_to_the_end() {
    let text = document(&events());
    let halves = [gzip(&text.as_bytes()[..text.len() / 2]), gzip(&text.as_bytes()[text.len() / 2..])].concat();
    let capture = read(&halves);
    assert_eq!((rows(&capture), capture.tables.issues.count.len()), (EVENTS, 0));
    let later = text.replace("1727743122000000000", "1727743123000000000");
    let joined = read(&[gzip(text.as_bytes()), gzip(later.as_bytes())].concat());
    assert_eq!(rows(&joined), 2 * EVENTS);
    let starts = &joined.tables.device_events.t_start_ns;
    assert_eq!(starts[EVENTS / 2] - starts[0], 1_000_000_000, "each document has its own base time");
}

#[test]
fn zstd_reads_with_several_frames_and_up_to_a_cut() {
    let text = document(&events());
    let frames = [&text.as_bytes()[..1_000], &text.as_bytes()[1_000..]].map(|part| zstd::encode_all(part, 3).unwrap()).concat();
    let capture = read(&frames);
    assert_eq!((rows(&capture), capture.tables.issues.count.len()), (EVENTS, 0));
    let plain = read(text.as_bytes());
    assert_eq!(capture.manifest.sources[0].content_hash, plain.manifest.sources[0].hash, "known again however packed");
    let cut = read(&frames[..frames.len() - 40]);
    let codes: Vec<&str> = cut.tables.issues.code.iter().map(|code| cut.text(*code)).collect();
    assert!(codes.contains(&"truncated_zstd"), "{codes:?}");
    assert!(cut.manifest.sources[0].damaged);
}

#[test]
fn a_cut_gzip_keeps_what_was_unpacked() {
    let mut text = Vec::new();
    File::open(data("traces/mi250_training.json.gz")).unwrap().read_to_end(&mut text).unwrap();
    let read = |bytes: &[u8]| ingest::read_bytes("trace.json.gz", bytes, &Options { host_frames: true, ..Options::default() });
    let whole = rows(&read(&text));
    let cut = read(&text[..text.len() / 2]);
    let codes: Vec<&str> = cut.tables.issues.code.iter().map(|code| cut.text(*code)).collect();
    assert!(rows(&cut) > whole / 10 && rows(&cut) < whole, "{} of {whole}", rows(&cut));
    assert!(codes.contains(&"truncated_gzip"), "{codes:?}");
}

#[test]
fn bombs_end_early() {
    let mut bomb = document(&events()).into_bytes();
    bomb.truncate(memchr::memmem::rfind(&bomb, b"\n  ]").unwrap());
    bomb.extend(std::iter::repeat_n(b' ', 200 << 20));
    for (packed, code) in [(gzip(&bomb), "gzip_bomb"), (zstd::encode_all(&bomb[..], 1).unwrap(), "zstd_bomb")] {
        let capture = read(&packed);
        let codes: Vec<&str> = capture.tables.issues.code.iter().map(|code| capture.text(*code)).collect();
        assert!(codes.contains(&code), "{codes:?}");
        assert_eq!(rows(&capture), EVENTS);
    }
}
