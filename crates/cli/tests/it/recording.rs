//! Recording as a user does it: killed, on a full disk, stopped, watched, and scraped by a real Prometheus.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program;

/// A server that answers with a page of a recorded case, the next one with every reading.
fn engine() -> u16 {
    let mut text = String::new();
    let file = program::root().join("cases/kv_thrash/recorded/artifacts/metrics.prom.gz");
    flate2::read::MultiGzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    let pages: Vec<String> =
        text.split("# SCRAPE ").skip(1).filter_map(|scrape| scrape.split_once('\n')).map(|(_, page)| page.to_string()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 2048]);
            let page = &pages[count % pages.len()];
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    port
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Ends a program with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn segments(capture: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(capture.join("segments"));
    let mut found: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_none());
    found.sort();
    found
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_there() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_recording_loses_no_more_than_its_last_interval() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.capture");
    let port = engine();
    let mut recorder = Running::start(program::command().args(["record", &url(port), "--interval", "200ms", "--out"]).arg(&path));
    wait_for("the fifth segment", || segments(&path).len() >= 5);
    let killed_ns = jiff_now_ns();
    recorder.signal("-KILL");
    recorder.0.wait().unwrap();
    let capture = capture::store::open(&path).unwrap();
    let last_ns = *capture.tables.samples.t_ns.iter().max().unwrap();
    // The last closed segment ends at most a segment, its writing and one reading before the kill.
    assert!(killed_ns - last_ns < 2_500_000_000, "{} ms are missing", (killed_ns - last_ns) / 1_000_000);
    assert!(capture.tables.issues.code.iter().any(|code| capture.text(*code) == "unfinished_recording"));
    let run = program::run(["diagnose".as_ref(), path.as_os_str()]);
    assert!(matches!(run.code, 0 | 1 | 3), "{run:?}");
    // Nothing holds the place: it can be made one finished capture.
    let finished = folder.path().join("y.capture");
    assert_eq!(program::run(["capture".as_ref(), path.as_os_str(), "-o".as_ref(), finished.as_os_str()]).code, 0);
}

fn jiff_now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

#[test]
fn ctrl_c_finishes_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.capture");
    let mut recorder = Running::start(program::command().args(["record", &url(engine()), "--interval", "100ms", "--out"]).arg(&path));
    wait_for("a segment", || !segments(&path).is_empty());
    recorder.signal("-INT");
    assert_eq!(program::wait(&mut recorder.0), 0);
    assert!(!path.join("segments").exists() && path.join("samples.parquet").exists());
    let again = program::run(["record".as_ref(), "http://127.0.0.1:1".as_ref(), "--out".as_ref(), path.as_os_str()]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("exists already"), "{again:?}");
}

/// A small file system of its own where the machine allows that, else a limit on the size of files.
#[test]
fn a_full_disk_ends_the_recording_with_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_inferoscope");
    let script = r#"
        mount -t tmpfs -o size=160k none "$1" || exit 77
        "$2" record "$3" --interval 100ms --for 90s --out "$1/x.capture"
        code=$?
        "$2" capture "$1/x.capture" -o "$4" || exit 78
        exit $code
    "#;
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let kept = folder.path().join("kept.capture");
    let run = program::finish(
        program::command_of("unshare").args(["-rm", "sh", "-c", script, "sh"]).arg(&disk).args([program, &url(engine())]).arg(&kept),
    );
    if run.code == 77 || run.stderr.contains("unshare") {
        limited_files(folder.path(), program);
        return;
    }
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("the recording ended after") && run.stderr.contains("No space left"), "{}", run.stderr);
    let capture = capture::store::open(&kept).unwrap();
    assert!(capture.tables.samples.t_ns.len() > 100, "{:?}", capture.manifest.row_counts);
}

fn limited_files(folder: &Path, program: &str) {
    let path = folder.join("x.capture");
    // Ignored, the signal becomes an error of the write.
    let script = r#"trap '' XFSZ; ulimit -f 4; exec "$1" record "$2" --interval 5ms --for 60s --out "$3""#;
    let run = program::finish(program::command_of("bash").args(["-c", script, "bash", program, &url(engine())]).arg(&path));
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("the recording ended after"), "{}", run.stderr);
    assert!(capture::store::open(&path).is_ok());
}

/// The page of an exporter.
fn page(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string())
}

/// An interpreter that allows nobody but root to look into it.
const GUARDED: &str = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True); time.sleep(1000)";

#[test]
fn threads_that_may_not_be_looked_at_are_told_with_what_would_allow_it() {
    if !is_installed("python3", "Python threads that may not be looked at") {
        return;
    }
    let mut guarded = Running::start(Command::new("python3").args(["-c", GUARDED]));
    let mut line = String::new();
    BufReader::new(guarded.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    let mut command = if is_root { as_nobody(folder.path()) } else { program::command() };
    let pid = guarded.0.id().to_string();
    let run = program::finish(command.args(["record", "--pid", &pid, "--for", "2s", "--out"]).arg(folder.path().join("x.capture")));
    assert_eq!(run.code, 0, "{run:?}");
    let told = "`api_server`: Python threads are not recorded: it belongs to the user with id 0: run this as that user (`sudo -u '#0'`) \
                or as root\n";
    assert!(run.stdout.contains(told) && run.stderr.is_empty(), "{run:?}");
    let capture = capture::store::open(&folder.path().join("x.capture")).unwrap();
    let notes = capture.tables.issues.rows().filter(|row| capture.text(row.code) == "python_threads");
    assert_eq!(notes.map(|row| (row.count, format!("{}\n", capture.text(row.sentence)))).collect::<Vec<_>>(), [(1, told.to_string())]);
    let signals: Vec<&str> = capture.tables.samples.signal.iter().map(|name| capture.text(*name)).collect();
    assert!(signals.contains(&"proc.cpu_time"), "the rest is recorded: {signals:?}");
}

/// The program as run by a user without rights, from where that user may read it, writing into `folder`.
fn as_nobody(folder: &Path) -> Command {
    let own = folder.join("inferoscope");
    std::fs::copy(env!("CARGO_BIN_EXE_inferoscope"), &own).unwrap();
    for path in [folder, &own] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let mut command = program::command_of("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(own);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_growing_recording_is_watched_and_its_verdict_scraped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.capture");
    let recorder = Running::start(program::command().args(["record", &url(engine()), "--interval", "100ms", "--out"]).arg(&path));
    wait_for("three segments", || segments(&path).len() >= 3);
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut watcher =
        Running::start(program::command().args(["watch", "--every", "300ms", "--exporter", &address]).arg(&path).env("COLUMNS", "80"));
    let is_diagnosed = |page: &str| page.contains("inferoscope_recording_up 1") && page.contains("inferoscope_explained_seconds");
    wait_for("the page", || page(port).is_some_and(|page| is_diagnosed(&page)));
    let text = page(port).unwrap();
    assert!(text.contains("# TYPE inferoscope_verdict gauge") && text.contains("inferoscope_part_seconds{part=\"queue\""), "{text}");
    check_page(&text);
    scrape_for_real(folder.path(), &address);
    recorder.signal("-TERM");
    drop(recorder);
    assert_eq!(program::wait(&mut watcher.0), 0, "it ends with the recording");
    let mut screen = String::new();
    BufReader::new(watcher.0.stdout.take().unwrap()).read_line(&mut screen).unwrap();
    assert!(screen.contains("EVIDENCE") || screen.contains("HEALTHY") || screen.contains("  "), "{screen}");
    let refused = program::run(["watch", "--exporter", "0.0.0.0:0", &path.to_string_lossy()]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("can be reached from other machines"), "{refused:?}");
}

/// What programs of Debian's package `prometheus` are for.
const PROMETHEUS: &str = "the exporter before a real Prometheus";

/// Whether a program is there; a missing one is told, or a failure where nothing may be skipped.
#[expect(clippy::print_stderr)] // who runs the tests must see it
fn is_installed(name: &str, tested: &str) -> bool {
    if Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok() {
        return true;
    }
    let all_required = std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all");
    assert!(!all_required, "nothing may be skipped, and `{name}` is not installed");
    eprintln!("skipped: {tested}, `{name}` is not installed");
    false
}

/// `promtool check metrics` accepts the page.
fn check_page(text: &str) {
    if !is_installed("promtool", PROMETHEUS) {
        return;
    }
    let mut lint = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    lint.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = lint.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A real server with our own configuration scrapes the page and evaluates our alerts.
fn scrape_for_real(folder: &Path, exporter: &str) {
    if !is_installed("prometheus", PROMETHEUS) {
        return;
    }
    let deploy = program::root().join("deploy");
    let config = std::fs::read_to_string(deploy.join("prometheus.yml")).unwrap();
    assert!(config.contains("127.0.0.1:9477"));
    let config =
        config.replace("127.0.0.1:9477", exporter).replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s");
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    std::fs::copy(deploy.join("alerts.yml"), folder.join("alerts.yml")).unwrap();
    let port = free_port();
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let command = &mut Command::new("prometheus");
    let command = command.current_dir(folder).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
    let server = command.arg(format!("--web.listen-address=127.0.0.1:{port}")).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let _server = Running(server);
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    wait_for("a scraped verdict", || ask("/api/v1/query?query=inferoscope_verdict").is_some_and(|answer| answer.contains("localized")));
    wait_for("evaluated rules", || {
        ask("/api/v1/rules").is_some_and(|answer| answer.contains("InferoscopeCauseFound") && !answer.contains("\"health\":\"unknown\""))
    });
    let rules = ask("/api/v1/rules").unwrap();
    assert!(!rules.contains("\"health\":\"err\""), "{rules}");
}

#[test]
fn the_alerts_do_what_they_say() {
    if !is_installed("promtool", PROMETHEUS) {
        return;
    }
    for arguments in [["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = Command::new("promtool").current_dir(program::root().join("deploy")).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Every metric that the dashboard and the alerts name is one that the exporter has.
#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let report = serde_json::from_str(
        &program::run(["diagnose", "--json", "cases/kv_thrash/recorded/artifacts"].map(|argument| {
            if argument.starts_with("cases") { program::root().join(argument).to_string_lossy().into_owned() } else { argument.to_string() }
        }))
        .stdout,
    );
    let served = report::views::metrics::render(&report.unwrap(), 1.0) + "inferoscope_recording_up 1\n";
    let mut count = 0;
    for file in ["grafana-dashboard.json", "alerts.yml"] {
        let text = std::fs::read_to_string(program::root().join("deploy").join(file)).unwrap();
        for (at, _) in text.match_indices("inferoscope_") {
            let name: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            assert!(served.contains(&name), "{name} in {file}");
            count += 1;
        }
    }
    assert!(count > 15, "{count} names");
    let dashboard = std::fs::read_to_string(program::root().join("deploy/grafana-dashboard.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&dashboard).unwrap()["panels"].as_array().unwrap().len() >= 8);
    assert!(served.contains("inferoscope_explained_seconds{layer=\"memory\",check=\"kv_thrash\",role=\"cause\"}"), "{served}");
}

#[test]
fn a_tap_beyond_loopback_needs_a_flag_and_a_token() {
    let refused = program::run(["tap", "--upstream", "http://127.0.0.1:1", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--allow-remote with --token"), "{refused:?}");
    let refused = program::run(["tap", "--upstream", "http://127.0.0.1:1", "--listen", "0.0.0.0:0", "--allow-remote"]);
    assert_eq!(refused.code, 2);
}
