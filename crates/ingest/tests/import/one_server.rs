//! A log and scrapes of one server are of one replica, whatever each calls it; of several servers nothing is guessed.

use std::collections::BTreeSet;
use std::io::Read as _;

use capture::{Capture, labels};

use crate::shown::data;

/// The recorded scrapes as read from an address.
fn scraped(address: &str) -> Capture {
    let mut text = String::new();
    let file = std::fs::File::open(data("vllm-cpu/metrics.prom.gz")).unwrap();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    let bodies: Vec<(i64, &str)> = text
        .split("# SCRAPE ts=")
        .skip(1)
        .map(|scrape| {
            let (head, body) = scrape.split_once('\n').unwrap();
            let (seconds, rest) = head.split_once('.').unwrap();
            let millis = &rest[..3];
            (format!("{seconds}{millis}").parse::<i64>().unwrap() * 1_000_000, body)
        })
        .collect();
    let scrapes: Vec<ingest::Scrape<'_>> =
        bodies.iter().map(|(t_ns, body)| ingest::Scrape { t_ns: *t_ns, body: body.as_bytes() }).collect();
    ingest::read_scrapes(address, &scrapes, &ingest::Options::default())
}

fn replicas(capture: &Capture) -> Vec<String> {
    let samples = &capture.tables.samples;
    let rows = (0..samples.t_ns.len()).filter(|&at| capture.text(samples.signal[at]) == "engine.running");
    let found: BTreeSet<String> = rows.filter_map(|at| labels::get(capture.text(samples.labels[at]), "replica")).collect();
    found.into_iter().collect()
}

fn beside(known: Vec<Capture>, log: &str) -> Capture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.log");
    std::fs::write(&path, log).unwrap();
    ingest::read_beside(known, &[path], &ingest::Options::default()).unwrap()
}

fn log() -> String {
    std::fs::read_to_string(data("vllm-cpu/server.log")).unwrap()
}

#[test]
fn a_log_is_of_the_one_server_that_was_scraped_meanwhile() {
    let joined = beside(vec![scraped("http://127.0.0.1:8000/metrics")], &log());
    assert_eq!(replicas(&joined), ["127.0.0.1:8000"]);
    let told: BTreeSet<&str> = joined.tables.logs.replica.iter().map(|name| joined.text(*name)).collect();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["127.0.0.1:8000"]);
}

#[test]
fn of_two_servers_or_of_another_engine_nothing_is_joined() {
    let two = vec![scraped("http://127.0.0.1:8000/metrics"), scraped("http://127.0.0.1:8001/metrics")];
    assert_eq!(replicas(&beside(two, &log())), ["0", "127.0.0.1:8000", "127.0.0.1:8001"]);
    let other = log().replace("CPU KV cache size: 349,440 tokens", "CPU KV cache size: 174,720 tokens");
    let apart = beside(vec![scraped("http://127.0.0.1:8000/metrics")], &other);
    assert_eq!(replicas(&apart), ["0", "127.0.0.1:8000"]);
}

#[test]
fn a_log_of_another_day_stays_apart() {
    let earlier = log().replace(" 11-30 ", " 11-12 ");
    let apart = beside(vec![scraped("http://127.0.0.1:8000/metrics")], &earlier);
    assert_eq!(replicas(&apart), ["0", "127.0.0.1:8000"]);
}
