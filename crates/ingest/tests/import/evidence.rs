//! The same evidence twice, evidence that can be read once, evidence of two servers.

use std::fs;
use std::path::PathBuf;

use capture::{Capture, Table as _};
use expect_test::expect;
use ingest::{Options, Scrape};

use crate::shown::{check, data, import};

fn codes(capture: &Capture) -> Vec<String> {
    let row = |row: capture::Issue| format!("{} {} x{}", capture.text(row.code), capture.text(row.source), row.count);
    capture.tables.issues.rows().map(row).filter(|text| !text.starts_with("unmapped") && !text.starts_with("attachment")).collect()
}

#[test]
fn a_result_given_twice_counts_once_whatever_its_packing_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let bench = fs::read(data("vllm-cpu/bench.json")).unwrap();
    for sub in ["a", "b"] {
        fs::create_dir(folder.path().join(sub)).unwrap();
        fs::write(folder.path().join(sub).join("bench.json"), &bench).unwrap();
        fs::copy(data("vllm-cpu/metrics.prom.gz"), folder.path().join(sub).join("metrics.prom.gz")).unwrap();
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &bench).unwrap();
    fs::write(folder.path().join("a/bench.json.gz"), packed.finish().unwrap()).unwrap();
    let twice = import(&[folder.path().to_path_buf()]);
    let once = import(&[folder.path().join("a/bench.json"), folder.path().join("a/metrics.prom.gz")]);
    assert_eq!(
        codes(&twice),
        ["duplicate_source a/bench.json.gz x1", "duplicate_source b/bench.json x1", "duplicate_source b/metrics.prom.gz x1"]
    );
    assert_eq!(twice.tables.requests.row_count(), once.tables.requests.row_count());
    assert_eq!(twice.tables.samples.row_count(), once.tables.samples.row_count());
    assert!(twice.tables.requests.class.iter().all(|class| class.is_empty()), "a copy makes no class");
}

#[test]
fn a_file_beside_the_capture_that_holds_it_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let held = folder.path().join("held.capture");
    let once = import(&[data("vllm-cpu/bench.json"), data("vllm-cpu/metrics.prom.gz")]);
    capture::store::write(&once, &held).unwrap();
    fs::create_dir(folder.path().join("copies")).unwrap();
    capture::store::write(&once, &folder.path().join("copies/again.capture")).unwrap();
    fs::copy(data("vllm-cpu/bench.json"), folder.path().join("bench.json")).unwrap();
    let both = import(&[folder.path().to_path_buf()]);
    let rows =
        |capture: &Capture| (capture.tables.requests.row_count(), capture.tables.samples.row_count(), capture.manifest.sources.len());
    assert_eq!(rows(&both), rows(&once));
    assert_eq!(codes(&both).len(), 2, "{:?}", codes(&both));
}

#[cfg(unix)]
#[test]
fn a_pipe_gives_all_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("metrics.pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut text = String::new();
    for at in 0..20_000 {
        text += &format!("# SCRAPE ts={} dur=0.01\nvllm:num_requests_running {at}\n", 1_796_036_000 + at);
    }
    let (to, written) = (pipe.clone(), text.clone());
    let writer = std::thread::spawn(move || fs::write(to, written));
    let capture = import(&[pipe]);
    writer.join().unwrap().unwrap();
    assert_eq!(capture.tables.samples.row_count(), 40_000);
    assert_eq!(capture.manifest.sources[0].byte_count, text.len() as u64);
}

#[test]
fn two_servers_are_two_replicas_and_one_server_stays_one() {
    let scrape = |ts: u32, model: &str, start: u32, total: u32| {
        format!("# SCRAPE ts={ts}\nprocess_start_time_seconds {start}\nvllm:generation_tokens_total{{model_name=\"{model}\"}} {total}\n")
    };
    let read = |a: &str, b: &str| {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a", a), ("b", b)] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("metrics.prom"), text).unwrap();
        }
        import(&[folder.path().to_path_buf()])
    };
    let base = 1_796_036_000;
    check(
        &read(&scrape(base, "m", base - 50, 7), &scrape(base, "n", base - 60, 9)),
        &["samples"],
        expect![[r#"
            1796036000000000000 0 server.output_tokens_total{engine="0",replica="a/metrics.prom"} 7
            1796036000000000000 0 server.output_tokens_total{engine="0",replica="b/metrics.prom"} 9
            1796036000000000000 0 server.start_time{engine="0",replica="a/metrics.prom"} 1796035950
            1796036000000000000 0 server.start_time{engine="0",replica="b/metrics.prom"} 1796035940
            ! warning replicas_told_apart a/metrics.prom [] x1 expected the metrics of one server as replica `0`, found 2 that differ in model, start of the process or totals; each is a replica of its own: `a/metrics.prom`, `b/metrics.prom`
        "#]],
    );
    let replicas = |capture: &Capture| {
        let labels: std::collections::BTreeSet<&str> = capture.tables.samples.labels.iter().map(|name| capture.text(*name)).collect();
        labels.len()
    };
    // One after the other, of one process: one server.
    assert_eq!(replicas(&read(&scrape(base, "m", base - 50, 7), &scrape(base + 60, "m", base - 50, 9))), 1);
    assert_eq!(replicas(&read(&scrape(base, "m", base - 50, 7), &scrape(base + 60, "m", base - 40, 9))), 2);
    let totals = |values: [u32; 3]| -> String {
        (0..)
            .zip(values)
            .fold(String::new(), |text, (at, value)| text + &format!("# SCRAPE ts={}\nvllm:generation_tokens_total {value}\n", base + at))
    };
    assert_eq!(replicas(&read(&totals([1, 2, 3]), &totals([100, 200, 300]))), 2);
}

#[test]
fn a_log_takes_its_year_from_a_result() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bench.json", "server.log"] {
        fs::copy(data("vllm-cpu").join(name), folder.path().join(name)).unwrap();
    }
    let capture = import(&[folder.path().to_path_buf()]);
    let year_ns = 31_557_600_000_000_000;
    let years: std::collections::BTreeSet<i64> = capture.tables.logs.t_ns.iter().map(|t_ns| 1970 + t_ns / year_ns).collect();
    assert_eq!(years.into_iter().collect::<Vec<_>>(), [2026]);
    let alone = import(&[folder.path().join("server.log")]);
    assert!(codes(&alone).contains(&"log_without_year server.log x1".to_string()), "{:?}", codes(&alone));
}

#[test]
fn what_many_sources_share_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data("vllm-cpu/command.txt"), folder.path().join("command.txt")).unwrap();
    for at in 0..40 {
        fs::write(folder.path().join(format!("log-{at:03}.txt")), "").unwrap();
    }
    let capture = import(&[folder.path().to_path_buf()]);
    let rows: Vec<String> =
        capture.tables.issues.rows().map(|row| format!("{} {} x{}", capture.text(row.code), capture.text(row.source), row.count)).collect();
    assert_eq!(rows, ["empty_source log-000.txt x40"]);
}

#[test]
fn an_input_without_files_says_what_was_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut deep = folder.path().to_path_buf();
    (0..70).for_each(|_| deep.push("d"));
    fs::create_dir_all(&deep).unwrap();
    let error = ingest::read(&[PathBuf::from(folder.path())], &Options::default()).unwrap_err().to_string();
    assert!(error.starts_with("found no file in the input") && error.contains("lies too deep"), "{error}");
}

#[test]
fn answers_that_are_no_metrics_are_refused_whatever_they_are() {
    for (body, found) in [
        ("<html><body>x 1</body></html>", "an HTML page"),
        ("{\"detail\": \"Not Found\"}", "a JSON document"),
        ("", "an empty answer"),
        ("Not Found\nerror 502\n", "plain text"),
    ] {
        let scrapes = [Scrape { t_ns: 1_000, body: body.as_bytes() }, Scrape { t_ns: 2_000, body: body.as_bytes() }];
        let capture = ingest::read_scrapes("http://h:8000/metrics", &scrapes, &Options::default());
        let issues: Vec<String> =
            capture.tables.issues.rows().map(|row| format!("{} {}", capture.text(row.severity), capture.text(row.sentence))).collect();
        assert!(issues.iter().all(|issue| issue.starts_with("error ")), "{issues:?}");
        assert!(issues.iter().any(|issue| issue.contains(found)), "{issues:?}");
        assert_eq!(capture.tables.samples.row_count() + capture.tables.histograms.row_count(), 0);
    }
}

#[test]
fn impossible_numbers_of_a_result_are_left_out_and_told() {
    let result = "{\"date\": \"20261130-110432\", \"model_id\": \"m\", \"completed\": 6, \"request_throughput\": 1.0, \"total_input_tokens\": 6, \
                  \"duration\": 5.0, \"input_lens\": [1, 1, 1, 1, 1, 1, 1], \"output_lens\": [2, 2, 2, 2, 2, 20000000000], \
                  \"ttfts\": [0.1, -0.1, 0.1, 3.0, 5e6, 0.1], \"latencies\": [0.2, 0.2, 0.2, 0.2, 6e6, 0.2], \
                  \"itls\": [[0.1], [0.1], [-0.1], [0.1], [0.1], [0.1]]}";
    let capture = crate::shown::import_text("bench.json", &format!("{result}\n{result}\n"));
    assert_eq!(capture.tables.requests.row_count(), 1);
    let issues: Vec<String> =
        capture.tables.issues.rows().map(|row| format!("{} {} x{}", capture.text(row.code), capture.text(row.place), row.count)).collect();
    expect![[r#"
        duplicate_result result 2 x1
        requests_without_time  x6
        absurd_time request 4 x1
        absurd_token_count request 5 x1
        negative_time request 1 x2
        ttft_after_end request 3 x1
        uneven_arrays request 6 x1"#]]
    .assert_eq(&issues.join("\n"));
}

#[test]
fn impossible_lines_of_a_client_log_are_left_out_and_told() {
    let line = |id: u32, first: &str, end: &str, gap: &str, tokens: &str| {
        format!(
            "{{\"i\": {id}, \"attempt\": 0, \"start\": 1796036000.0, \"first\": {first}, \"end\": {end}, \"gaps\": [{gap}], \"output_tokens\": {tokens}}}\n"
        )
    };
    let text = [
        line(0, "1796036000.5", "1796036001.0", "0.1", "2"),
        line(1, "1796035999.0", "1796036001.0", "0.1", "2"),
        line(2, "1796036000.5", "1796036000.4", "0.1", "2"),
        line(3, "1796036000.5", "1796036001.0", "-0.1", "2"),
        line(4, "1796036000.5", "1796036001.0", "0.1", "20000000000"),
        line(5, "1796036000.5", "1806036001.0", "0.1", "2"),
    ];
    let capture = crate::shown::import_text("client.jsonl", &text.concat());
    assert_eq!(capture.tables.requests.row_count(), 1);
    let told: Vec<(&str, i64)> = capture.tables.issues.rows().map(|row| (capture.text(row.place), row.count)).collect();
    assert_eq!(told, [("line 2", 5)]);
}
