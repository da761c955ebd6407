//! Asking servers that answer like Prometheus, and servers that do not.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};
use live::{Address, Authorization, PrometheusError, StoredWindow, read_stored};

/// Request line and head to status, body.
type Answers = fn(&str, &str) -> (&'static str, Vec<u8>);

/// A server and the heads of what it was asked.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

fn serve(answers: Answers) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that hangs up early is its own affair.
            let _ = answer(stream.unwrap(), answers, &seen);
        }
    });
    Server { port, heads }
}

fn answer(mut stream: TcpStream, answers: Answers, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    seen.lock().unwrap().push(head.clone());
    let path = head.split(' ').nth(1).unwrap_or_default().to_string();
    let (status, body) = answers(&path, &head);
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

const START_S: i64 = 1_796_036_000;

impl Server {
    fn window(&self, length_s: i64) -> StoredWindow {
        StoredWindow {
            server: Address::base(&format!("http://127.0.0.1:{}", self.port)).unwrap(),
            matchers: String::new(),
            start_ns: START_S * 1_000_000_000,
            end_ns: (START_S + length_s) * 1_000_000_000,
            step: None,
            authorization: None,
        }
    }

    /// The error and its cause, with the port taken out.
    fn told(&self) -> String {
        let error = error(&self.window(3600));
        let cause = std::error::Error::source(&error).map(|cause| format!("\ncause: {cause}")).unwrap_or_default();
        format!("{error}{cause}").replace(&self.port.to_string(), "PORT")
    }
}

fn error(window: &StoredWindow) -> PrometheusError {
    read_stored(window, &|_| {}).expect_err("this server gives nothing")
}

fn names() -> Vec<u8> {
    br#"{"status":"success","data":["up","vllm:num_requests_running","go_threads"]}"#.to_vec()
}

/// A parameter of a query string, as sent.
fn parameter<'a>(path: &'a str, key: &str) -> &'a str {
    path.split(['?', '&']).find_map(|part| part.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
}

/// End and length of the range an instant query asks for, seconds.
fn range_s(path: &str) -> (f64, f64) {
    let length = parameter(path, "query").rsplit_once("%5B").unwrap().1.trim_end_matches("%5D");
    let seconds = length.strip_suffix("ms").map(|ms| ms.parse::<f64>().unwrap() / 1000.0);
    (parameter(path, "time").parse().unwrap(), seconds.unwrap_or_else(|| length.trim_end_matches('s').parse().unwrap()))
}

/// One scrape every 15 s, the value its time; a range holds both its ends, as in older servers.
fn scrapes(path: &str) -> Vec<u8> {
    let (end, length) = range_s(path);
    let is_up = parameter(path, "query").contains("up%22");
    let name = if is_up { "up" } else { "vllm:num_requests_running" };
    let times = (0..10_000).map(|at| START_S + at * 15).filter(|t| (*t as f64) >= end - length && (*t as f64) <= end);
    let values: Vec<String> = times.map(|t| format!("[{t},\"{}\"]", if is_up { 1 } else { t })).collect();
    let labels = format!(r#"{{"__name__":"{name}","job":"vllm","instance":"gpu-7:8000"}}"#);
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{labels},"values":[{}]}}]}}}}"#, values.join(","))
        .into_bytes()
}

/// Whatever the slices are, each scrape of the window is there once, at its own time.
fn check_whole(server: &Server, length_s: i64) {
    let capture = read_stored(&server.window(length_s), &|_| {}).unwrap();
    let running = capture.names.find("engine.running");
    let rows = capture.tables.samples.rows().filter(|row| Some(row.signal) == running);
    let times: Vec<i64> = rows.map(|row| row.t_ns).collect();
    let expected: Vec<i64> = (0..=length_s / 15).map(|at| (START_S + at * 15) * 1_000_000_000).collect();
    assert_eq!(times, expected);
}

#[test]
fn a_window_is_asked_in_slices_and_comes_out_whole() {
    let server = serve(|path, _| ("200 OK", if path.contains("/query?") { scrapes(path) } else { names() }));
    check_whole(&server, 7200);
    let heads = server.heads.lock().unwrap();
    let queries = heads.iter().filter(|head| head.starts_with("GET /api/v1/query?")).count();
    assert!((4..=12).contains(&queries), "{queries}");
    assert!(heads.iter().any(|head| head.contains("instance%3D~%22gpu-7:8000%22") && head.contains("up%22")), "{heads:#?}");
}

#[test]
fn slices_a_server_refuses_are_halved() {
    let server = serve(|path, _| match path {
        path if !path.contains("/query?") => ("200 OK", names()),
        path if range_s(path).1 > 100.0 => (
            "422 Unprocessable Entity",
            br#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}"#.to_vec(),
        ),
        path => ("200 OK", scrapes(path)),
    });
    check_whole(&server, 600);
}

#[test]
fn answers_that_are_too_large_are_asked_in_parts() {
    let server = serve(|path, _| match path {
        path if !path.contains("/query?") => ("200 OK", names()),
        path if range_s(path).1 > 400.0 => ("200 OK", vec![b' '; (32 << 20) + 1]),
        path => ("200 OK", scrapes(path)),
    });
    check_whole(&server, 600);
}

#[test]
fn a_server_that_never_has_enough_is_given_up() {
    let server = serve(|path, _| match path {
        path if path.contains("/query?") => {
            ("422 Unprocessable Entity", br#"{"status":"error","errorType":"execution","error":"too many samples"}"#.to_vec())
        }
        _ => ("200 OK", names()),
    });
    assert!(server.told().starts_with("`http://127.0.0.1:PORT` has more of this window than can be read (the server answers"));
    assert!(server.heads.lock().unwrap().len() < 20);
}

#[test]
fn steps_are_asked_below_the_servers_limit_of_points() {
    let server = serve(|path, _| match path {
        path if path.contains("/query_range?") => {
            let (start, end): (f64, f64) = (parameter(path, "start").parse().unwrap(), parameter(path, "end").parse().unwrap());
            if end - start >= 11_000.0 {
                return ("400 Bad Request", br#"{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}"#.to_vec());
            }
            let values: Vec<String> = (start as i64..=end as i64).map(|t| format!("[{t},\"1\"]")).collect();
            let labels = r#"{"__name__":"vllm:num_requests_running","instance":"a"}"#;
            let text = format!(
                r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{labels},"values":[{}]}}]}}}}"#,
                values.join(",")
            );
            ("200 OK", text.into_bytes())
        }
        path if path.contains("/query?") => ("400 Bad Request", Vec::new()),
        _ => ("200 OK", names()),
    });
    let window = StoredWindow { step: Some(Duration::from_secs(1)), ..server.window(24_999) };
    let capture = read_stored(&window, &|_| {}).unwrap();
    assert_eq!(capture.tables.samples.t_ns.len(), 25_000);
}

#[test]
fn credentials_are_sent_with_every_question_and_never_kept() {
    let server = serve(|path, head| {
        if !head.to_ascii_lowercase().contains("authorization: bearer hunter2") {
            return ("401 Unauthorized", b"Unauthorized".to_vec());
        }
        ("200 OK", if path.contains("/query?") { scrapes(path) } else { names() })
    });
    let place = std::env::temp_dir().join(format!("inferoscope-token-{}", std::process::id()));
    std::fs::write(&place, "hunter2\n").unwrap();
    let authorization = Authorization::bearer(&format!("file:{}", place.display())).unwrap();
    std::fs::remove_file(&place).unwrap();
    let window = StoredWindow { authorization: Some(authorization), ..server.window(600) };
    let capture = read_stored(&window, &|_| {}).unwrap();
    assert!(!format!("{capture:?} {window:?}").contains("hunter2"));
    let wrong = Address::base(&format!("http://ada:lace@127.0.0.1:{}", server.port)).unwrap();
    let told = error(&StoredWindow { server: wrong, ..server.window(600) }).to_string();
    assert!(told.contains("does not accept the credentials given") && !told.contains("lace"), "{told}");
}

fn check(answers: Answers, expected: &Expect) {
    expected.assert_eq(&serve(answers).told());
}

#[test]
fn what_is_no_prometheus_is_named() {
    check(
        |_, _| ("200 OK", b"<html>hello</html>".to_vec()),
        &expect![[r#"
        `http://127.0.0.1:PORT` answers (200 OK), but not as a Prometheus server; expected its base address, with its path prefix if it has one, as in `http://host:9090`
        cause: expected an answer with `status` and a `data` of the Prometheus API, found an HTML page"#]],
    );
    check(
        |_, _| ("404 Not Found", br#"{"detail":"Not Found"}"#.to_vec()),
        &expect![[r#"
        `http://127.0.0.1:PORT` answers (404 Not Found), but not as a Prometheus server; expected its base address, with its path prefix if it has one, as in `http://host:9090`
        cause: expected an answer with `status` and a `data` of the Prometheus API, found a JSON document without them"#]],
    );
    check(
        |_, _| ("502 Bad Gateway", b"<html>".to_vec()),
        &expect!["`http://127.0.0.1:PORT` answered 502 Bad Gateway, expected 200 OK; try again, or ask another server"],
    );
    check(
        |_, _| ("302 Found", Vec::new()),
        &expect![[r#"
        could not ask the Prometheus server `http://127.0.0.1:PORT`; check that it runs and that this address reaches it, as in `curl http://127.0.0.1:PORT/-/ready`
        cause: `http://127.0.0.1:PORT` answered 302 Found and points nowhere; redirects are not followed, name the final address"#]],
    );
}

#[test]
fn a_server_that_asks_who_is_there_is_told_how_to_answer() {
    check(
        |_, _| ("401 Unauthorized", b"Unauthorized".to_vec()),
        &expect![
            "`http://127.0.0.1:PORT` answered 401 Unauthorized; name where its token or password stands, as in `--prometheus-bearer env:TOKEN` or `--prometheus-basic file:PATH`"
        ],
    );
}

#[test]
fn damaged_answers_are_named() {
    check(
        |_, _| ("200 OK", br#"{"status":"success","data":["vllm:num"#.to_vec()),
        &expect![[r#"
        `http://127.0.0.1:PORT` sent an answer that cannot be read; try again, and check what stands between here and there
        cause: expected the end of a string at byte 38 of the answer, found its end"#]],
    );
    check(
        |path, _| {
            if !path.contains("/query?") {
                return ("200 OK", names());
            }
            let mut cut = scrapes(path);
            cut.truncate(120);
            ("200 OK", cut)
        },
        &expect![[r#"
            `http://127.0.0.1:PORT` sent an answer that cannot be read; try again, and check what stands between here and there
            cause: expected the end of a string at byte 121 of the answer, found its end"#]],
    );
    check(
        |path, _| ("200 OK", if path.contains("/query?") { br#"{"status":"success","data":[1,2]}"#.to_vec() } else { names() }),
        &expect![[r#"
            `http://127.0.0.1:PORT` answers (200 OK), but not as a Prometheus server; expected its base address, with its path prefix if it has one, as in `http://host:9090`
            cause: expected an answer with `status` and a `data` of the Prometheus API, found one without `resultType`"#]],
    );
    check(
        |_, _| ("200 OK", "[".repeat(100_000).into_bytes()),
        &expect![[r#"
        `http://127.0.0.1:PORT` answers (200 OK), but not as a Prometheus server; expected its base address, with its path prefix if it has one, as in `http://host:9090`
        cause: expected an answer with `status` and a `data` of the Prometheus API, found something that is not a JSON object"#]],
    );
}

#[test]
fn windows_without_an_engine_say_what_is_there() {
    check(
        |_, _| ("200 OK", br#"{"status":"success","data":["up","go_threads"]}"#.to_vec()),
        &expect![
            "`http://127.0.0.1:PORT` has 2 metric names, none of an engine known here; add the engine's `/metrics` to its scrape configuration, or read it directly, as in `inferoscope diagnose http://host:8000`"
        ],
    );
    check(
        |path, _| match path {
            path if path.contains("start=") => ("200 OK", br#"{"status":"success","data":[]}"#.to_vec()),
            _ => ("200 OK", names()),
        },
        &expect![
            "`http://127.0.0.1:PORT` has metrics of an engine, but none from 2026-11-30T10:53:20Z to 2026-11-30T11:53:20Z; name another `--end` or `--window`"
        ],
    );
    check(
        |path, _| match path {
            path if path.contains("/query?") => ("200 OK", br#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_vec()),
            _ => ("200 OK", names()),
        },
        &expect![
            "`http://127.0.0.1:PORT` has metrics of an engine, but none from 2026-11-30T10:53:20Z to 2026-11-30T11:53:20Z; name another `--end` or `--window`"
        ],
    );
}

#[test]
fn nobody_there_says_how_to_check() {
    let server = Server { port: crate::servers::refused_port(), heads: Arc::default() };
    let told = server.told();
    let expected = "could not ask the Prometheus server `http://127.0.0.1:PORT`; check that it runs and that this address reaches it, \
                    as in `curl http://127.0.0.1:PORT/-/ready`\ncause: could not connect to `http://127.0.0.1:PORT`";
    assert_eq!(told, expected);
    assert!(matches!(error(&server.window(0)), PrometheusError::NoWindow));
}
