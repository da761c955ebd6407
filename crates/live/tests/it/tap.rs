//! The proxy between callers and upstreams of every manner: bytes pass as they are, and what passed is recorded.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::Capture;
use live::{TapError, TapPlan, Tapped, tap};

use crate::servers::refused_port;

/// A proxy that runs until it is told to end.
struct Proxy {
    address: SocketAddr,
    out: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Tapped, TapError>>,
}

impl Proxy {
    fn start(upstream: u16, change: impl FnOnce(&mut TapPlan)) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let name = format!("inferoscope-tap-{}-{}.capture", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let out = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&out);
        let upstream = live::Address::base(&format!("http://127.0.0.1:{upstream}")).unwrap();
        let mut plan = TapPlan { listen: "127.0.0.1:0".parse().unwrap(), upstream, out: out.clone(), adds_ids: false, token: None };
        change(&mut plan);
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = std::sync::mpsc::channel();
        let away = Arc::clone(&stop);
        let thread = std::thread::spawn(move || tap(&plan, &away, &|told| sender.send(told.listen.unwrap()).unwrap()));
        Self { address: receiver.recv_timeout(Duration::from_secs(10)).unwrap(), out, stop, thread }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends `request`, closes that way, and reads to the end.
    fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    fn end(self) -> (Tapped, Capture) {
        self.stop.store(true, Ordering::Relaxed);
        let told = self.thread.join().unwrap().unwrap();
        let capture = capture::store::open(&self.out).unwrap();
        std::fs::remove_dir_all(&self.out).unwrap();
        (told, capture)
    }
}

/// An upstream that reads what it is sent until the caller's side closes, then answers piece by piece, and keeps what it read.
fn upstream(pieces: Vec<Vec<u8>>, pause: Duration) -> (u16, Arc<std::sync::Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (pieces, kept, mut stream) = (pieces.clone(), Arc::clone(&kept), stream.unwrap());
            std::thread::spawn(move || {
                let mut request = Vec::new();
                let _ = stream.read_to_end(&mut request);
                kept.lock().unwrap().push(request);
                for piece in pieces {
                    if stream.write_all(&piece).is_err() {
                        return;
                    }
                    std::thread::sleep(pause);
                }
            });
        }
    });
    (port, seen)
}

const CHAT: &[u8] = b"POST /v1/chat/completions HTTP/1.1\r\nhost: Odd.Example\r\nX-Request-ID: req-7\r\nAuthorization: Bearer sesame\r\n\
    X-Odd:   spaced \r\nContent-Length: 86\r\n\r\n{\"messages\":[{\"role\":\"user\",\"content\":\"tell me a secret about the moon and the sea\"}]}";

fn stream_pieces() -> Vec<Vec<u8>> {
    let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len()).into_bytes();
    let mut pieces = vec![
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
            .to_vec(),
    ];
    pieces.push(chunk("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"));
    for word in ["Moon", "light"] {
        pieces.push(chunk(&format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{word}\"}}}}]}}\n\n")));
    }
    pieces.push(chunk(
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":2}}\n\n",
    ));
    pieces.push(chunk("data: [DONE]\n\n"));
    pieces.push(b"0\r\nX-Sum: 42\r\n\r\n".to_vec());
    pieces
}

#[test]
fn a_stream_with_trailers_passes_byte_for_byte_and_is_recorded_without_its_texts() {
    let (port, seen) = upstream(stream_pieces(), Duration::from_millis(30));
    let proxy = Proxy::start(port, |_| ());
    let out = proxy.out.clone();
    assert_eq!(proxy.exchange(CHAT), stream_pieces().concat());
    assert_eq!(seen.lock().unwrap()[0], CHAT);
    let stored = || walk(&out);
    std::thread::sleep(Duration::from_millis(1300));
    for secret in ["sesame", "moon", "Moonlight", "Odd.Example"] {
        assert!(!stored().iter().any(|bytes| bytes.windows(secret.len()).any(|part| part == secret.as_bytes())), "{secret}");
    }
    let (told, capture) = proxy.end();
    assert_eq!((told.request_count, told.chunk_count, told.unseen_count), (1, 2, 0));
    let row = capture.tables.requests.row(0);
    assert_eq!((capture.text(row.request_id), capture.text(row.vantage), capture.text(row.finish)), ("req-7", "gateway", "stop"));
    assert_eq!((row.status, row.tokens_in, row.tokens_out, row.new_connection), (Some(200), Some(12), Some(2), Some(1)));
    let order = [Some(row.t_sent_ns), row.t_upstream_sent_ns, row.t_headers_ns, row.t_first_role_ns, row.t_first_content_ns, row.t_done_ns];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
    let gap_ns = capture.tables.chunks.gap_ns[1];
    assert!((25_000_000..2_000_000_000).contains(&gap_ns), "{gap_ns}");
    assert_eq!(capture.tables.prefix_blocks.hash.len(), 0, "the prompt is shorter than a block");
}

/// Every file below a folder.
fn walk(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            files.extend(walk(&entry.path()));
        } else {
            files.push(std::fs::read(entry.path()).unwrap_or_default());
        }
    }
    files
}

#[test]
fn several_requests_of_one_connection_pass_with_their_prefixes_hashed() {
    let body = format!("{{\"prompt\":\"{}\"}}", "the same words again ".repeat(20));
    let post = format!("POST /v1/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let chunked = format!("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let get = "GET /health HTTP/1.1\r\n\r\n";
    let request = format!("{post}{get}{chunked}");
    let document = "{\"choices\":[{\"text\":\"x\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}";
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{document}", document.len());
    let answers = format!("{answer}HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n{answer}");
    // In pieces that end anywhere.
    let pieces = answers.as_bytes().chunks(7).map(<[u8]>::to_vec).collect();
    let (port, seen) = upstream(pieces, Duration::ZERO);
    let proxy = Proxy::start(port, |_| ());
    assert_eq!(proxy.exchange(request.as_bytes()), answers.as_bytes());
    assert_eq!(seen.lock().unwrap()[0], request.as_bytes());
    let (told, capture) = proxy.end();
    assert_eq!((told.request_count, told.other_count, told.connection_count), (2, 1, 1));
    assert_eq!(capture.tables.requests.tokens_out, [Some(1), Some(1)]);
    assert_eq!(capture.tables.requests.new_connection.iter().flatten().sum::<i64>(), 1);
    let hashes = &capture.tables.prefix_blocks.hash;
    let blocks = (20 * 21 + 1) / 64;
    assert_eq!(hashes.len(), 2 * blocks);
    assert_eq!(hashes.iter().collect::<std::collections::BTreeSet<_>>().len(), blocks);
}

const HEAD: &[u8] = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn a_caller_that_waits_for_100_continue_gets_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; HEAD.len()];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, HEAD);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
    });
    let proxy = Proxy::start(port, |_| ());
    let mut stream = proxy.connect();
    stream.write_all(HEAD).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    drop(stream);
    let (told, capture) = proxy.end();
    assert_eq!((told.request_count, capture.tables.requests.status[0]), (1, Some(200)));
}

#[test]
fn http2_and_upgrades_pass_unseen() {
    for begin in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04", "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n\x01\x02"] {
        let (port, seen) = upstream(vec![b"HTTP/1.1 101 Switching\r\n\r\n\xff\xfe".to_vec()], Duration::ZERO);
        let proxy = Proxy::start(port, |_| ());
        assert_eq!(proxy.exchange(begin.as_bytes()), b"HTTP/1.1 101 Switching\r\n\r\n\xff\xfe");
        assert_eq!(seen.lock().unwrap()[0], begin.as_bytes());
        let told = proxy.end_empty();
        assert_eq!((told.unseen_count, told.request_count), (1, 0));
    }
}

impl Proxy {
    /// Ends a proxy that recorded nothing.
    fn end_empty(self) -> Tapped {
        self.stop.store(true, Ordering::Relaxed);
        let told = self.thread.join().unwrap().unwrap();
        let _ = std::fs::remove_dir_all(&self.out);
        told
    }
}

#[test]
fn a_slow_reader_holds_the_upstream_back_and_loses_nothing() {
    let body: Vec<u8> = (0..24_000_000u32).map(|at| (at % 251) as u8).collect();
    let mut pieces = vec![format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes()];
    pieces.push(body.clone());
    let (port, _) = upstream(pieces.clone(), Duration::ZERO);
    let proxy = Proxy::start(port, |_| ());
    let mut stream = proxy.connect();
    stream.write_all(b"GET /big HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer == pieces.concat(), "{} bytes of {}", answer.len(), body.len());
    let _ = proxy.end_empty();
}

#[test]
fn a_reset_of_the_upstream_reaches_the_caller_and_is_told_as_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 16];
        stream.read_exact(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
        // Unread bytes of the request make the end a reset.
        std::thread::sleep(Duration::from_millis(200));
    });
    let proxy = Proxy::start(port, |_| ());
    let mut stream = proxy.connect();
    stream.write_all(CHAT).unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.ends_with(b"half"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    std::thread::sleep(Duration::from_millis(100));
    let (told, capture) = proxy.end();
    assert_eq!(told.request_count, 1);
    assert_eq!(capture.text(capture.tables.requests.finish[0]), "cut");
}

#[test]
fn an_upstream_that_is_not_there_is_told_and_a_redirect_is_passed_on() {
    let proxy = Proxy::start(refused_port(), |_| ());
    assert!(proxy.exchange(b"GET / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 502 "));
    let _ = proxy.end_empty();
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/elsewhere\r\nContent-Length: 0\r\n\r\n";
    let (port, seen) = upstream(vec![redirect.to_vec()], Duration::ZERO);
    let proxy = Proxy::start(port, |_| ());
    assert_eq!(proxy.exchange(b"GET / HTTP/1.1\r\n\r\n"), redirect);
    assert_eq!(seen.lock().unwrap().len(), 1);
    let _ = proxy.end_empty();
}

#[test]
fn a_token_is_asked_of_every_request_and_not_passed_on() {
    let (port, seen) = upstream(vec![b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()], Duration::ZERO);
    let proxy = Proxy::start(port, |plan| plan.token = Some("t0ken".into()));
    assert!(proxy.exchange(b"GET / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 401 "));
    assert!(proxy.exchange(b"GET / HTTP/1.1\r\nX-Inferoscope-Token: t0kem\r\n\r\n").starts_with(b"HTTP/1.1 401 "));
    assert!(proxy.exchange(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").starts_with(b"HTTP/1.1 401 "));
    assert!(seen.lock().unwrap().is_empty());
    // The second request of the connection lacks it.
    let answer = proxy.exchange(b"GET /a HTTP/1.1\r\nX-Inferoscope-Token: t0ken\r\nB: c\r\n\r\n");
    assert_eq!(answer, b"HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(seen.lock().unwrap()[0], b"GET /a HTTP/1.1\r\nB: c\r\n\r\n");
    let _ = proxy.end_empty();
    let plan = TapPlan {
        listen: "0.0.0.0:0".parse().unwrap(),
        upstream: live::Address::base("http://127.0.0.1:1").unwrap(),
        out: std::env::temp_dir().join("never"),
        adds_ids: false,
        token: None,
    };
    assert!(matches!(tap(&plan, &AtomicBool::new(true), &|_| ()), Err(TapError::Open(_))));
}

#[test]
fn ids_are_added_only_where_they_are_missing() {
    let (port, seen) = upstream(vec![b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()], Duration::ZERO);
    let proxy = Proxy::start(port, |plan| plan.adds_ids = true);
    proxy.exchange(b"GET /a HTTP/1.1\r\nX-Request-Id: mine\r\ntraceparent: 00-a-b-01\r\n\r\n");
    proxy.exchange(b"GET /b HTTP/1.1\r\n\r\n");
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], b"GET /a HTTP/1.1\r\nX-Request-Id: mine\r\ntraceparent: 00-a-b-01\r\n\r\n");
    let second = String::from_utf8(seen[1].clone()).unwrap();
    let lines: Vec<&str> = second.split("\r\n").collect();
    assert!(lines[1].starts_with("x-request-id: tap-") && lines[2].starts_with("traceparent: 00-"), "{second}");
    assert_eq!(lines[2].len(), "traceparent: ".len() + 55);
    let _ = proxy.end_empty();
}

#[test]
fn a_head_without_end_is_cut() {
    let (port, _) = upstream(vec![b"never".to_vec()], Duration::ZERO);
    let proxy = Proxy::start(port, |_| ());
    let mut stream = proxy.connect();
    let line = b"X-Long: 0123456789012345678901234567890123456789\r\n";
    let started = Instant::now();
    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    while stream.write_all(line).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(10), "it is taken without end");
    }
    let _ = proxy.end_empty();
}

#[test]
fn a_thousand_connections_opened_and_dropped_leave_nothing_behind() {
    let (port, _) = upstream(vec![b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()], Duration::ZERO);
    let proxy = Proxy::start(port, |_| ());
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for round in 0..1000 {
        let mut stream = proxy.connect();
        match round % 3 {
            0 => {}
            1 => stream.write_all(b"POST /v1/compl").unwrap(),
            _ => stream.write_all(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\nhalf").unwrap(),
        }
    }
    let started = Instant::now();
    while descriptors() > 400 && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(descriptors() <= 400, "{} descriptors are open", descriptors());
    assert_eq!(proxy.exchange(b"GET / HTTP/1.1\r\n\r\n"), b"HTTP/1.1 204 No Content\r\n\r\n");
    let (told, capture) = proxy.end();
    assert_eq!((told.connection_count, told.request_count), (1001, 333));
    // The upstream answers what it is sent as far as it is still there to be asked.
    assert!(capture.tables.requests.rows().all(|row| capture.text(row.finish) == "cut" || row.status == Some(204)));
}
