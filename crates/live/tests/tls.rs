//! Servers behind TLS: read and loaded where their certificate is trusted, refused where it is not.
//!
//! Which certificates are trusted is read once per process, from the environment: each case is a process of its own.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a case prints what it saw

#[allow(dead_code)] // other tests use more of it
#[path = "support/known_http2.rs"]
mod known_http2;
#[allow(dead_code)] // other tests use more of it
#[path = "support/known_server.rs"]
mod known_server;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use known_server::{Script, percentile, plan, start};
use live::load::{self, Ending, Figures, HttpVersion, Plan, Schedule, Slo};
use live::{Address, Fetch};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};

/// What the process in which a case runs is told: the address of the server.
const SERVER: &str = "TLS_TEST_SERVER";

/// Takes TLS off in front of a server that speaks `protocols`; the port, and the certificate as text.
fn front(server: SocketAddr, protocols: &[&str]) -> (u16, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_string(), "localhost".to_string()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider())).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A caller that does not trust the certificate goes away.
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut inner = tokio::net::TcpStream::connect(server).await.unwrap();
                    inner.set_nodelay(true).unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
                });
            }
        });
    });
    (port, cert.pem())
}

/// Runs a case in a process that trusts the certificates of a file, and gives its output.
fn run(case: &str, server: &str, trusted: &Path) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", case, "--nocapture"])
        .env(SERVER, server)
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR");
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_server_behind_tls_is_read_and_loaded_where_its_certificate_is_trusted() {
    let (server, truth) = start(Script::default());
    let (port, certificate) = front(server, &[]);
    let (_, other) = front(server, &[]);
    let folder = std::env::temp_dir().join(format!("inferoscope-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (own, stranger, none) = (folder.join("own.pem"), folder.join("stranger.pem"), folder.join("none.pem"));
    std::fs::write(&own, certificate).unwrap();
    std::fs::write(&stranger, other).unwrap();
    let https = format!("https://127.0.0.1:{port}");
    let (is_good, output) = run("it_is_read_and_loaded", &https, &own);
    assert!(is_good, "{output}");
    let p50 = percentile(&truth.lock().unwrap().ttft_s, 0.5);
    let told = output.lines().find_map(|line| line.strip_prefix("TTFT p50 ")).unwrap().parse::<f64>().unwrap();
    assert!((told - p50).abs() < 0.02, "{told} and really {p50}");
    for (trusted, reason) in [(&stranger, "invalid peer certificate"), (&none, "expected certificates to trust servers by, found none")] {
        let (is_good, output) = run("it_is_refused", &https, trusted);
        assert!(is_good && output.contains(reason), "{output}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn http2_is_agreed_upon_behind_tls_or_its_refusal_named() {
    let folder = std::env::temp_dir().join(format!("inferoscope-alpn-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let trusted = folder.join("own.pem");
    let (server, truth) = known_http2::start(Script::default());
    let (port, certificate) = front(server, &["h2", "http/1.1"]);
    std::fs::write(&trusted, certificate).unwrap();
    let (is_good, output) = run("it_is_loaded_over_http2", &format!("https://127.0.0.1:{port}"), &trusted);
    assert!(is_good && truth.lock().unwrap().requests == 12, "{output}");
    // A server that knows the older one alone, and one that agrees upon nothing.
    for protocols in [&["http/1.1"][..], &[]] {
        let (port, certificate) = front(server, protocols);
        std::fs::write(&trusted, certificate).unwrap();
        let (is_good, output) = run("it_speaks_no_http2", &format!("https://127.0.0.1:{port}"), &trusted);
        assert!(is_good, "{protocols:?}: {output}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn server() -> Address {
    Address::base(&std::env::var(SERVER).unwrap()).unwrap()
}

fn fetch() -> Result<Vec<u8>, live::FetchError> {
    let address = format!("{}/v1/models", std::env::var(SERVER).unwrap()).parse().unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(Fetch::new(address).get())
}

#[test]
#[ignore = "a case of the test above"]
fn it_is_read_and_loaded() {
    assert!(String::from_utf8(fetch().unwrap()).unwrap().contains("\"id\":\"known\""));
    let figures = loaded(HttpVersion::Http1);
    assert_eq!((figures.failed(), figures.completed, figures.chunks), (0, 12, 240));
    println!("\nTTFT p50 {}", figures.ttft.p50);
}

fn loaded(http: HttpVersion) -> Figures {
    let schedule = Schedule::Closed { users: 4, think: Duration::ZERO, ramp: Duration::ZERO };
    let plan = Plan { http, most_in_flight: 4, ..plan(server(), 12, 1.0, [32, 20], schedule) };
    let run = load::run(&plan, &Arc::new(AtomicBool::new(false)), &|_| {}).unwrap();
    Figures::of(&run.attempts, Slo::default())
}

#[test]
#[ignore = "a case of a test above"]
fn it_is_loaded_over_http2() {
    let figures = loaded(HttpVersion::Http2);
    assert_eq!((figures.failed(), figures.completed, figures.chunks), (0, 12, 240));
}

#[test]
#[ignore = "a case of a test above"]
fn it_speaks_no_http2() {
    assert_eq!(loaded(HttpVersion::Http2).failures.iter().collect::<Vec<_>>(), [(&Ending::NoHttp2, &12)]);
}

#[test]
#[ignore = "a case of the test above"]
fn it_is_refused() {
    let error = fetch().unwrap_err();
    assert_eq!(error.kind(), "connect");
    println!("{error}: {}", std::error::Error::source(&error).unwrap());
}
