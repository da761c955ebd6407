//! Diagnosing a live address: a small server on this machine that serves vLLM's metrics.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program;

/// Serves a metrics page whose counters move, at `/metrics` only. Returns the port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            // A client that hangs up early is its own affair.
            let _ = answer(stream.unwrap(), count);
        }
    });
    port
}

fn answer(mut stream: TcpStream, count: usize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") && reader.read_line(&mut request)? > 0 {}
    let (status, body) = if request.starts_with("GET /metrics ") { ("200 OK", page(count)) } else { ("404 Not Found", String::new()) };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn page(count: usize) -> String {
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\",model_name=\"m\"}} 1.0\n\
         # TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{engine=\"0\",model_name=\"m\"}} 0.0\n\
         # TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{{engine=\"0\",model_name=\"m\"}} {count}.0\n"
    )
}

#[test]
fn a_live_server_is_read_for_the_window_and_its_credentials_stay_out() {
    let port = serve();
    let address = format!("http://ada:lace@127.0.0.1:{port}");
    let run = program::run(["diagnose", "--json", "--window", "400ms", "--interval", "100ms", &address]);
    assert!(matches!(run.code, 0 | 1 | 3), "{run:?}");
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["subject"]["sources"][0]["name"], format!("http://127.0.0.1:{port}/metrics"));
    assert_eq!(report["subject"]["engine"], "vllm");
    assert!(!run.stdout.contains("lace") && !run.stderr.contains("lace"));
}

#[test]
fn ctrl_c_and_a_polite_kill_end_the_window_early_and_keep_what_was_read() {
    ends_early("INT");
    ends_early("TERM");
}

fn ends_early(signal: &str) {
    let address = format!("http://127.0.0.1:{}", serve());
    let mut command = program::command();
    let arguments = ["diagnose", "--json", "--window", "10m", "--interval", "100ms", &address];
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(800));
    assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap().success());
    let stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
    assert!(matches!(program::wait(&mut child), 0 | 1 | 3));
    let report: serde_json::Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
    assert_eq!(report["subject"]["engine"], "vllm");
}

/// Not after the window of the one that answers.
#[test]
fn one_address_of_two_that_nobody_listens_at_is_told_at_once() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started = std::time::Instant::now();
    let (good, bad) = (format!("http://127.0.0.1:{}", serve()), format!("http://127.0.0.1:{refused}"));
    let run = program::run(["diagnose", "--window", "60s", &good, &bad]);
    assert!(run.code == 2 && run.stderr.starts_with(&format!("error: could not connect to `{bad}/metrics`")), "{run:?}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn a_wrong_path_is_answered_with_the_status() {
    let port = serve();
    let address = format!("http://127.0.0.1:{port}/stats");
    let run = program::run(["diagnose", "--window", "100ms", "--interval", "50ms", &address]);
    assert_eq!(run.code, 2);
    assert_eq!(run.stderr, format!("error: `{address}` answered 404 Not Found, expected 200 OK\n"));
}

#[test]
fn nobody_listening_is_an_error() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run = program::run(["capture", "--window", "100ms", &format!("http://127.0.0.1:{port}"), "-o", "nowhere.capture"]);
    assert!(run.code == 2 && run.stderr.starts_with(&format!("error: could not connect to `http://127.0.0.1:{port}/metrics`")), "{run:?}");
}
