//! Diagnosing from a real Prometheus server that holds the scrapes of recorded cases.
//!
//! The server and `promtool` must be in the path (Debian's package `prometheus`). Without them the test is skipped and
//! says so; where nothing may be skipped (`INFEROSCOPE_REQUIRE=all`) that is a failure.

#![allow(clippy::print_stderr, clippy::needless_for_each, clippy::cast_possible_wrap)] // a test says what it skipped

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use analysis::contract::Report;

use crate::case::{Case, answers};
use crate::program;

/// `user:password` of the server, and the password's bcrypt hash.
const USER: &str = "ada:Xq7lace";
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuuUeooaVi3GFUfnFqWqcAQZVbtRUT6fBy";

/// A recorded case whose scrapes go into the server.
struct Loaded {
    case: &'static str,
    /// Its files of scrapes; the place of each becomes its `instance`.
    scrapes: &'static [&'static str],
    /// Whether the other artifacts are handed over beside the server.
    beside: bool,
}

const LOADED: &[Loaded] = &[
    Loaded { case: "kv_thrash/recorded", scrapes: &["metrics.prom.gz"], beside: true },
    Loaded { case: "low_acceptance/recorded", scrapes: &["metrics.prom.gz"], beside: false },
    Loaded { case: "healthy/steady_chat", scrapes: &["metrics.prom.gz"], beside: true },
    Loaded { case: "overload/one_hot_replica", scrapes: &["metrics-0.prom.gz", "metrics-1.prom.gz"], beside: false },
];

/// Whether the programs are there; a missing one is told, or is a failure where nothing may be skipped.
#[expect(clippy::print_stderr)] // who runs the tests must see it
fn is_installed() -> bool {
    let answers = |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let missing: Vec<&str> = ["prometheus", "promtool"].into_iter().filter(|name| !answers(name)).collect();
    if missing.is_empty() {
        return true;
    }
    let all_required = std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all");
    assert!(!all_required, "nothing may be skipped, and {missing:?} is not installed");
    eprintln!("skipped: diagnosing from a real Prometheus server, {missing:?} is not installed");
    false
}

/// Scrapes of one file as OpenMetrics with times, each series labeled with its target.
fn open_metrics(path: &Path, job: &str, instance: usize, shift_s: i64) -> (String, i64) {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut families: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    let (mut time, mut last_s) = (String::new(), 0);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# SCRAPE ts=") {
            let (seconds, fraction) = rest.split(' ').next().unwrap().split_once('.').unwrap();
            last_s = seconds.parse::<i64>().unwrap() + shift_s;
            time = format!("{last_s}.{fraction}");
        } else if !line.starts_with('#') && !line.is_empty() {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let comma = if labels == "}" { "" } else { "," };
            let rows = families.entry(name).or_default();
            writeln!(rows, "{name}{{job=\"{job}\",instance=\"gpu-{instance}:8000\"{comma}{labels} {value} {time}").unwrap();
        }
    }
    let mut out = String::new();
    for (name, rows) in &families {
        write!(out, "# TYPE {name} unknown\n{rows}").unwrap();
    }
    (out + "# EOF\n", last_s)
}

/// Ends the server with the test.
struct Server {
    child: Child,
    port: u16,
    #[expect(dead_code, reason = "holds the data until the server has ended")]
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(folder: &Path, text: &str, name: &str) {
    let file = folder.join(format!("{name}.txt"));
    std::fs::write(&file, text).unwrap();
    let arguments = ["tsdb", "create-blocks-from", "openmetrics"];
    let output = Command::new("promtool").args(arguments).arg(&file).arg(folder.join("data")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn start(folder: tempfile::TempDir, web_config: &str) -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::write(folder.path().join("prometheus.yml"), "").unwrap();
    std::fs::write(folder.path().join("web.yml"), web_config).unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let child = Command::new("prometheus")
        .current_dir(folder.path())
        .args([
            "--config.file=prometheus.yml",
            "--web.config.file=web.yml",
            "--storage.tsdb.path=data",
            "--storage.tsdb.retention.time=100y",
        ])
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let server = Server { child, port, folder };
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", server.port)).is_err() {
        assert!(started.elapsed() < Duration::from_secs(60), "Prometheus did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}

/// The report of a run that must give one. A server that has just opened its port may still be loading.
fn report(arguments: &[String]) -> Report {
    let started = Instant::now();
    loop {
        let run = program::run([&["diagnose".to_string(), "--json".to_string()][..], arguments].concat());
        if run.code == 2 && run.stderr.contains("503") && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(200));
            continue;
        }
        assert!(matches!(run.code, 0 | 1 | 3), "{run:?}");
        return serde_json::from_str(&run.stdout).unwrap();
    }
}

fn others(artifacts: &Path, scrapes: &[&str]) -> Vec<String> {
    let files = std::fs::read_dir(artifacts).unwrap().map(|entry| entry.unwrap().path());
    let others = files.filter(|path| !scrapes.contains(&path.file_name().unwrap().to_str().unwrap()));
    let mut others: Vec<String> = others.map(|path| path.display().to_string()).collect();
    others.sort();
    others
}

/// The same evidence through a server and from files: every check answers the same.
#[test]
fn stored_scrapes_give_the_verdict_of_recorded_ones() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut ends = Vec::new();
    for loaded in LOADED {
        let artifacts = artifacts(loaded.case);
        let mut end_s = 0;
        for (instance, scrapes) in loaded.scrapes.iter().enumerate() {
            let (text, last_s) = open_metrics(&artifacts.join(scrapes), loaded.case, instance, 0);
            load(folder.path(), &text, "scrapes");
            end_s = end_s.max(last_s + 1);
        }
        ends.push(end_s);
    }
    let server = start(folder, "");
    for (loaded, end_s) in LOADED.iter().zip(ends) {
        let artifacts = artifacts(loaded.case);
        let beside = if loaded.beside { others(&artifacts, loaded.scrapes) } else { Vec::new() };
        let mut from_files = beside.clone();
        from_files.extend(loaded.scrapes.iter().map(|name| artifacts.join(name).display().to_string()));
        let mut from_server = beside;
        let address = format!("http://127.0.0.1:{}", server.port);
        let (matchers, end) = (format!("job=\"{}\"", loaded.case), end_s.to_string());
        from_server.extend(["--prometheus", &address, "--window", "1h", "--end", &end, "--match", &matchers].map(ToString::to_string));
        assert_eq!(answers(&report(&from_server)), answers(&report(&from_files)), "{}", loaded.case);
    }
}

/// Scrapes that ended a moment ago, behind a password, with no moment named: what a user asks first.
#[test]
fn the_last_minutes_are_read_with_a_password() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = program::root().join("examples/slow-first-token/metrics.prom.gz");
    let (_, last_s) = open_metrics(&path, "vllm", 0, 0);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let (text, _) = open_metrics(&path, "vllm", 0, now_s - 60 - last_s);
    load(folder.path(), &text, "scrapes");
    let server = start(folder, &format!("basic_auth_users:\n  ada: {HASH}\n"));
    let address = format!("http://127.0.0.1:{}", server.port);
    let refused = program::run(["diagnose", "--prometheus", &address]);
    assert!(refused.code == 2 && refused.stderr.contains("401 Unauthorized; name where its token or password stands"), "{refused:?}");

    let secrets = tempfile::tempdir().unwrap();
    let secret = secrets.path().join("secret");
    std::fs::write(&secret, USER).unwrap();
    let place = format!("file:{}", secret.display());
    let from_server = ["--prometheus", &address, "--prometheus-basic", &place, "--window", "10m"].map(ToString::to_string);
    let from_files = [path.display().to_string()];
    let stored = report(&from_server);
    assert_eq!(answers(&stored), answers(&report(&from_files)));
    assert!(!serde_json::to_string(&stored).unwrap().contains("Xq7lace"));
}

fn artifacts(case: &str) -> PathBuf {
    Case::load(&program::root().join("cases").join(case)).artifacts()
}
