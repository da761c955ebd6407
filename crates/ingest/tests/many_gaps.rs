//! A result with more gaps than a capture keeps.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

#[test]
fn a_result_with_millions_of_gaps_keeps_whole_requests_evenly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.json");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let head =
        "{\"date\": \"20261130-110432\", \"model_id\": \"m\", \"completed\": 60, \"request_throughput\": 1.0, \"total_input_tokens\": 6";
    let each = |value: &str| vec![value; 60].join(", ");
    write!(file, "{head}, \"duration\": 5.0, \"ttfts\": [{}], \"itls\": [", each("0.1")).unwrap();
    let gaps = format!("[{}]", vec!["0"; 100_000].join(","));
    for at in 0..60 {
        write!(file, "{}{gaps}", if at == 0 { "" } else { "," }).unwrap();
    }
    write!(file, "]}}").unwrap();
    file.into_inner().unwrap().sync_all().unwrap();
    let capture = ingest::read(&[path], &ingest::Options::default()).unwrap();
    // Six million gaps: every second request keeps its chunks.
    assert_eq!((capture.tables.requests.t_sent_ns.len(), capture.tables.chunks.t_ns.len()), (60, 30 * 100_001));
    let told: Vec<i64> =
        capture.tables.issues.rows().filter(|row| capture.text(row.code) == "chunks_thinned").map(|row| row.count).collect();
    assert_eq!(told, [30 * 100_001]);
}
