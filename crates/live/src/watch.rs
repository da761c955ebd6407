//! A page of text for whoever asks on this machine: what a Prometheus server scrapes.
//!
//! Answers `GET /metrics` and nothing else, one request per connection, on a loopback address only. Left out: TLS and
//! passwords; a reverse proxy adds them where the page must be reached from elsewhere.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::window::runtime;

/// Longest head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Askers at the same time.
const MAX_ASKERS: usize = 64;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could ask.
    #[error("`{0}` can be reached from other machines; expected a loopback address, as in `127.0.0.1:9477`")]
    Open(SocketAddr),
    /// The address is taken, or not of this host.
    #[error("could not listen on `{0}`")]
    Listen(SocketAddr, #[source] io::Error),
}

/// The page as it is served now.
#[derive(Clone, Debug)]
pub struct ServedPage {
    text: Arc<Mutex<String>>,
    /// Where it is served, its port known.
    pub listen: SocketAddr,
}

impl ServedPage {
    /// Serves an empty page from a thread of its own, as long as the program runs.
    pub fn serve(listen: SocketAddr) -> Result<Self, ServeError> {
        if !listen.ip().is_loopback() {
            return Err(ServeError::Open(listen));
        }
        let failed = |source| ServeError::Listen(listen, source);
        let runtime = runtime().map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(failed)?;
        let page = Self { text: Arc::default(), listen: listener.local_addr().map_err(failed)? };
        let text = Arc::clone(&page.text);
        std::thread::Builder::new().name("page".into()).spawn(move || runtime.block_on(answer_all(listener, text))).map_err(failed)?;
        Ok(page)
    }

    /// Replaces the page.
    pub fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

async fn answer_all(listener: TcpListener, text: Arc<Mutex<String>>) {
    let askers = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await; // out of descriptors
            continue;
        };
        if askers.load(Ordering::Relaxed) >= MAX_ASKERS {
            continue;
        }
        askers.fetch_add(1, Ordering::Relaxed);
        let (askers, text) = (Arc::clone(&askers), Arc::clone(&text));
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, answer(stream, &text)).await; // who hangs or leaves gets nothing
            askers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn answer(mut stream: TcpStream, text: &Mutex<String>) -> io::Result<()> {
    let (mut head, mut buffer) = (Vec::new(), [0; 2048]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await?;
        if count == 0 || head.len() > MAX_HEAD_BYTES {
            return Ok(());
        }
        head.extend_from_slice(&buffer[..count]);
    }
    let mut words = head.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", text.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        (b"GET", _) => ("404 Not Found", "expected /metrics\n".to_string()),
        _ => ("405 Method Not Allowed", "expected GET\n".to_string()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
