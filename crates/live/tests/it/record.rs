//! Recording servers that behave and servers that do not, logs and this process, into a capture that grows.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use capture::Capture;
use live::{Processes, RecordPlan, record};

use crate::servers::{Behavior, refused_port, serve};

fn place() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("inferoscope-record-{}-{}.capture", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let out = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&out);
    out
}

fn plan(ports: &[u16], length_ms: u64) -> RecordPlan {
    RecordPlan {
        targets: ports.iter().map(|port| format!("http://127.0.0.1:{port}").parse().unwrap()).collect(),
        logs: Vec::new(),
        processes: Processes::None,
        python: false,
        nvml: None,
        out: place(),
        duration: Some(Duration::from_millis(length_ms)),
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(1),
        profile: None,
    }
}

fn open(plan: &RecordPlan) -> Capture {
    let capture = capture::store::open(&plan.out).unwrap();
    std::fs::remove_dir_all(&plan.out).unwrap();
    capture
}

/// How many samples of a signal each target gave.
fn samples(capture: &Capture, signal: &str, port: u16) -> Vec<f64> {
    let rows = capture.tables.samples.rows();
    let own = format!("127.0.0.1:{port}");
    rows.filter(|row| capture.text(row.signal) == signal && capture.text(row.labels).contains(&own)).map(|row| row.value).collect()
}

const PAGE: &str = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\n";

#[test]
fn fifty_targets_are_read_while_one_hangs_one_sends_forever_and_one_is_not_there() {
    let mut ports: Vec<u16> = (0..47).map(|_| serve(Behavior::Page(PAGE))).collect();
    ports.extend([serve(Behavior::HangBeforeHead), serve(Behavior::SendForever), refused_port()]);
    let plan = plan(&ports, 3000);
    let told = record(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    assert!(told.is_finished && told.dropped_count == 0, "{told:?}");
    assert!(told.failed_count >= 10, "{told:?}");
    let capture = open(&plan);
    for port in &ports[..47] {
        let count = samples(&capture, "engine.running", *port).len();
        // 30 ticks; a loaded machine may skip some.
        assert!((10..=32).contains(&count), "{count} readings of one target");
    }
    let issues: Vec<String> = capture
        .tables
        .issues
        .rows()
        .filter(|row| capture.text(row.code) == "scrape_failed")
        .map(|row| format!("{} {}", capture.text(row.source).rsplit(':').next().unwrap(), capture.text(row.sentence)))
        .collect();
    for (port, kind) in [(ports[47], "timeout"), (ports[49], "connect")] {
        assert!(issues.iter().any(|issue| issue.starts_with(&format!("{port}/")) && issue.contains(kind)), "{kind} in {issues:?}");
    }
    assert!(issues.iter().any(|issue| issue.starts_with(&format!("{}/", ports[48]))), "{issues:?}");
}

#[test]
fn a_server_that_restarts_keeps_its_fallen_counter() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let total = if count < 8 { 1000 + 10 * count } else { 10 * (count - 8) };
            let body = format!("# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{{model_name=\"m\"}} {total}\n");
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let plan = plan(&[port], 2500);
    record(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    let totals = samples(&open(&plan), "server.output_tokens_total", port);
    let falls = totals.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!(falls, 1, "{totals:?}");
}

#[test]
fn the_host_and_a_log_are_recorded_beside_the_server() {
    let port = serve(Behavior::Page(PAGE));
    let mut plan = plan(&[port], 2200);
    let log = plan.out.with_extension("log");
    let stamp = jiff::Timestamp::now().strftime("%m-%d %H:%M:%S").to_string();
    let periodic = format!(
        "(APIServer pid=1) INFO {stamp} [loggers.py:335] Engine 000: Avg prompt throughput: 131.6 tokens/s, Avg generation throughput: \
         53.6 tokens/s, Running: 7 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.0%, Prefix cache hit rate: 0.0%\n"
    );
    std::fs::write(&log, &periodic).unwrap();
    plan.logs = vec![log.clone()];
    plan.processes = Processes::Id(std::process::id());
    let late = std::thread::spawn({
        let log = log.clone();
        move || {
            std::thread::sleep(Duration::from_millis(1200));
            std::fs::File::options()
                .append(true)
                .open(log)
                .unwrap()
                .write_all(periodic.replace("Running: 7", "Running: 9").as_bytes())
                .unwrap();
        }
    });
    let told = record(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    late.join().unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(told.host_count >= 5, "{told:?}");
    let capture = open(&plan);
    let values: Vec<f64> =
        capture.tables.samples.rows().filter(|row| capture.text(row.signal) == "engine.running").map(|row| row.value).collect();
    assert!(values.contains(&7.0) && values.contains(&9.0) && values.contains(&3.0), "{values:?}");
    let signals: Vec<&str> = capture.tables.samples.signal.iter().map(|name| capture.text(*name)).collect();
    assert!(signals.contains(&"proc.cpu_time") && signals.contains(&"host.cpu_busy"));
    let now = jiff::Timestamp::now().as_nanosecond() as i64;
    assert!(capture.tables.samples.t_ns.iter().all(|t_ns| (now - t_ns).abs() < 60_000_000_000), "all times are of today");
    assert_eq!(capture.manifest.clocks.len(), 1, "{:?}", capture.manifest.clocks);
}

#[test]
fn a_stop_ends_it_at_once_and_what_was_read_is_finished() {
    let port = serve(Behavior::Page(PAGE));
    let plan = RecordPlan { duration: None, ..plan(&[port, serve(Behavior::HangBeforeHead)], 0) };
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let told = record(&plan, &stop, &|told| stop.store(told.scrape_count > 0, Ordering::Relaxed)).unwrap();
    assert!(told.is_finished && started.elapsed() < Duration::from_secs(10), "{told:?}");
    assert!(!samples(&open(&plan), "engine.running", port).is_empty());
}
