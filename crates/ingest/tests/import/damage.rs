//! Damaged twins of good files: read up to the damage, and told.

use std::fs;
use std::io::Write as _;

use expect_test::{Expect, expect};
use flate2::Compression;
use flate2::write::GzEncoder;
use ingest::Options;

use crate::shown::{check, data};

fn check_bytes(name: &str, bytes: &[u8], expected: Expect) {
    check(&ingest::read_bytes(name, bytes, &Options::default()), &["sources", "counts"], expected);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_truncated_gzip_loses_the_scrape_it_ends_in() {
    let whole = fs::read(data("vllm-cpu/metrics.prom.gz")).unwrap();
    check_bytes(
        "metrics.prom.gz",
        &whole[..whole.len() * 3 / 5],
        expect![[r#"
            source metrics.prom.gz prometheus_text rows=106 unmapped=18 damaged
            runs=1 samples=71 histograms=28 settings=7 issues=3
            ! note unmapped_families metrics.prom.gz [] x18 metric families without a signal here, left out: http_request_size_bytes, http_response_size_bytes, process_cpu_seconds_total, process_max_fds, process_open_fds, process_resident_memory_bytes, process_virtual_memory_bytes, python_gc_collections_total, python_gc_objects_collected_total, python_gc_objects_uncollectable_total, python_info, vllm:engine_sleep_state, vllm:mm_cache_hits_total, vllm:mm_cache_queries_total, vllm:prompt_tokens_cached_total, vllm:request_max_num_generation_tokens, vllm:request_params_max_tokens, vllm:request_params_n
            ! warning scrape_cut metrics.prom.gz [scrape 3 (line 1231)] x1 expected 430 series as in the scrape before, found 76 and the end of the text within a line: the last scrape is left out
            ! warning truncated_gzip metrics.prom.gz [byte 13078] x1 expected a complete gzip stream, found that the file ends inside a member; 120342 bytes were unpacked before it
        "#]],
    );
}

#[test]
fn a_gzip_with_a_wrong_byte_is_read_up_to_it() {
    let mut bytes = fs::read(data("vllm-cpu/metrics.prom.gz")).unwrap();
    let at = bytes.len() * 4 / 5;
    bytes[at] ^= 0x55;
    bytes[at + 1] ^= 0xaa;
    check_bytes(
        "metrics.prom.gz",
        &bytes,
        expect![[r#"
            source metrics.prom.gz prometheus_text rows=155 unmapped=21 damaged
            runs=1 samples=106 histograms=42 settings=7 issues=4
            ! note unmapped_families metrics.prom.gz [] x21 metric families without a signal here, left out: http_request_size_bytes, http_response_size_bytes, process_cpu_seconds_total, process_max_fds, process_open_fds, process_resident_memory_bytes, process_virtual_memory_bytes, python_gc_collections_total, python_gc_objects_collected_total, python_gc_objects_uncollectable_total, python_info, vllm:engine_sleep_state, vllm:mm_cache_hits_total, vllm:mm_cache_queries_total, vllm:prompt_tokens_cached_total, vllm:request_max_num_generation_tokens, vllm:request_num_preemptions_created6696ated, vllm:request_params_max_tokens, vllm:request_params_n, vllm:request_prefill_kv_computed_tokens_buck4ket, vllm:request_prefill_kv_computedk4ket
            ! warning damaged_gzip metrics.prom.gz [byte 21798] x1 expected a complete gzip stream, found that corrupt gzip stream does not have a matching checksum; 212721 bytes were unpacked before it
            ! warning scrape_cut metrics.prom.gz [scrape 4 (line 1846)] x1 expected 430 series as in the scrape before, found 37 and the end of the text within a line: the last scrape is left out
            ! warning unreadable_line metrics.prom.gz [line 1918] x422 expected `name{labels} value`, found something else; the line is left out
        "#]],
    );
}

#[test]
fn a_text_cut_within_a_scrape_loses_that_scrape() {
    let scrape = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n";
    let text = format!("# SCRAPE ts=10 dur=0.1\n{scrape}# SCRAPE ts=11 dur=0.1\n{scrape}");
    check_bytes(
        "within a line",
        &text.as_bytes()[..text.len() - 3],
        expect![[r#"
            source within a line prometheus_text rows=5 unmapped=0 damaged
            runs=1 samples=5 issues=1
            ! warning scrape_cut within a line [scrape 2 (line 5)] x1 expected 3 series as in the scrape before, found 3 and the end of the text within a line: the last scrape is left out
        "#]],
    );
    check_bytes(
        "within a number",
        &text.as_bytes()[..text.len() - 33],
        expect![[r#"
            source within a number prometheus_text rows=5 unmapped=0 damaged
            runs=1 samples=5 issues=1
            ! warning scrape_cut within a number [scrape 2 (line 5)] x1 expected 3 series as in the scrape before, found 1 and the end of the text within a line: the last scrape is left out
        "#]],
    );
    check_bytes(
        "at a line end",
        &text.as_bytes()[..text.len() - 30],
        expect![[r#"
            source at a line end prometheus_text rows=5 unmapped=0 damaged
            runs=1 samples=5 issues=1
            ! warning scrape_cut at a line end [scrape 2 (line 5)] x1 expected 3 series as in the scrape before, found 2 and the end of the text within a line: the last scrape is left out
        "#]],
    );
}

#[test]
fn a_log_cut_and_full_of_garbage_gives_what_is_left() {
    let mut bytes = fs::read(data("vllm-cpu/server.log")).unwrap();
    bytes.truncate(bytes.len() - 40);
    let middle = bytes.len() / 2;
    bytes.splice(middle..middle, b"\nTraceback (most recent call last):\n  File \"x.py\", line 1\n\xff\xfe\x00\x01garbage\r 50%|#####     | 1/2\r100%|##########| 2/2\n".iter().copied());
    check_bytes(
        "server.log",
        &bytes,
        expect![[r#"
            source server.log vllm_log rows=65 unmapped=0
            runs=1 samples=29 settings=29 logs=14 issues=1
            ! note log_without_year server.log [] x1 expected a source that tells the year of the log, found none; its times stand in 1972
        "#]],
    );
}

#[test]
fn a_result_cut_in_an_array_keeps_what_came_before() {
    let bytes = fs::read(data("vllm-cpu/bench.json")).unwrap();
    let cut = memchr::memmem::find(&bytes, b"\"latencies\"").unwrap() + 30;
    check_bytes(
        "bench.json",
        &bytes[..cut],
        expect![[r#"
            source bench.json vllm_bench_json rows=31 unmapped=0 damaged
            runs=1 samples=7 requests=3 chunks=21 issues=2
            ! note requests_without_time bench.json [] x3 expected `start_times` beside the per-request arrays, found none; requests stand at the end of the run
            ! warning damaged_json bench.json [byte 771] x1 expected `,` or `]`, found the end of the text; what was read before it is kept
        "#]],
    );
}

#[test]
fn damaged_lines_of_json_are_counted_and_left_out() {
    let text = fs::read_to_string(data("client.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let text = format!("{}\n{{\"i\": 7, oops}}\n{{\"i\": 8}}\n{}\n{}", lines[0], lines[1], &lines[2][..60]);
    check_bytes(
        "client.jsonl",
        text.as_bytes(),
        expect![[r#"
            source client.jsonl client_jsonl rows=34 unmapped=0 damaged
            runs=1 requests=2 chunks=32 issues=3
            ! warning damaged_json client.jsonl [line 2, byte 10] x1 expected a string, found something else; the line is left out
            ! warning line_cut client.jsonl [line 5] x1 expected a whole JSON object, found the end of the text; the last line is left out
            ! warning line_incomplete client.jsonl [line 3] x1 expected the keys of this format, found a line without the times it needs; the line is left out
        "#]],
    );
    let proxy = fs::read_to_string(data("vllm-cpu/proxy.jsonl")).unwrap();
    check_bytes(
        "proxy.jsonl",
        &proxy.as_bytes()[..proxy.len() - 30],
        expect![[r#"
            source proxy.jsonl proxy_jsonl rows=4 unmapped=0 damaged
            runs=1 requests=4 issues=2
            ! note other_requests proxy.jsonl [line 1] x2 requests for other paths than completions (metrics, health) are left out
            ! warning line_cut proxy.jsonl [line 7] x1 expected a whole JSON object, found the end of the text; the last line is left out
        "#]],
    );
    let host = fs::read_to_string(data("vllm-cpu/host.jsonl")).unwrap();
    check_bytes(
        "host.jsonl",
        &host.as_bytes()[..host.len() - 30],
        expect![[r#"
            source host.jsonl host_jsonl rows=28 unmapped=0 damaged
            runs=1 samples=28 issues=1
            ! warning line_cut host.jsonl [line 2] x1 expected a whole JSON object, found the end of the text; the last line is left out
        "#]],
    );
}

#[test]
fn a_bomb_is_cut_by_its_ratio() {
    let member = gzip(&vec![b'\n'; 1 << 20]);
    let head = gzip(b"vllm:num_requests_running 1\n");
    let bomb = [head, member.repeat(100)].concat();
    check_bytes(
        "metrics.prom.gz",
        &bomb,
        expect![[r#"
            source metrics.prom.gz prometheus_text rows=1 unmapped=0 damaged
            runs=1 samples=1 issues=1
            ! warning gzip_bomb metrics.prom.gz [byte 105248] x1 expected a compression ratio below 500, found 67108892 bytes unpacked from 105248; the rest is left out
        "#]],
    );
}

#[test]
fn pages_of_a_wrong_address_are_refused_clearly() {
    for (name, text) in [
        ("metrics", "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"),
        ("metrics", "{\"detail\": \"Not Found\"}\n"),
        ("empty.prom", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let error = ingest::read(&[path], &Options::default()).unwrap_err();
        assert!(matches!(error, ingest::IngestError::NothingUsable { count: 1, .. }), "{error}");
    }
    check_bytes(
        "metrics",
        b"<html><body>login</body></html>",
        expect![[r#"
            source metrics attachment rows=0 unmapped=0 damaged
            runs=1 issues=1
            ! error html_page metrics [] x1 expected metrics, a log or results, found an HTML page: the address it came from answers with a web page
        "#]],
    );
}
