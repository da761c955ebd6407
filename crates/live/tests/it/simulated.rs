//! The simulated engine over real sockets.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use live::simulated::{ServeConfig, ServeError, Server, Setup};

struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn config(token: Option<&str>) -> ServeConfig {
    let listen = "127.0.0.1:0".parse().unwrap();
    ServeConfig { listen, token: token.map(str::to_string), model: "m".into(), setup: Setup::default() }
}

fn serve(config: ServeConfig) -> Running {
    let server = Server::bind(config).unwrap();
    let (address, stop) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || server.serve(&flag, &|_| {}));
    Running { address, stop }
}

/// Sends one request and reads to the end of the connection.
fn ask(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn both_apis_answer_with_the_length_asked_for() {
    let server = serve(config(None));
    let chat = r#"{"messages":[{"role":"user","content":"a b c"}],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}"#;
    let answer = ask(server.address, "POST /v1/chat/completions", chat);
    assert_eq!(answer.matches("\"content\":\" word\"").count(), 4, "{answer}");
    assert!(
        answer.contains("\"role\":\"assistant\"") && answer.contains("\"completion_tokens\":4") && answer.contains("[DONE]"),
        "{answer}"
    );
    let whole = ask(server.address, "POST /v1/completions", r#"{"prompt":"a b","max_tokens":3}"#);
    assert!(whole.contains("\"text\":\" word word word\"") && whole.contains("\"prompt_tokens\":2"), "{whole}");
    assert!(whole.contains("x-simulated-by: inferoscope"), "{whole}");
    let metrics = ask(server.address, "GET /metrics", "");
    assert!(metrics.contains("# simulated by inferoscope"), "{metrics}");
    assert!(metrics.contains("vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 7\n"), "{metrics}");
}

#[test]
fn odd_requests_are_refused_in_words() {
    let server = serve(config(None));
    assert!(ask(server.address, "GET /", "").starts_with("HTTP/1.1 404"));
    assert!(ask(server.address, "POST /v1/completions", "{").starts_with("HTTP/1.1 400"));
    assert!(ask(server.address, "POST /v1/completions", r#"{"prompt":"","max_tokens":3}"#).contains("expected a prompt"));
    let longer_than_the_cache = format!(r#"{{"prompt":"a","max_tokens":{}}}"#, 900_000);
    assert!(ask(server.address, "POST /v1/completions", &longer_than_the_cache).contains("longer than the KV cache"));
}

#[test]
fn a_token_keeps_others_out_and_is_needed_beyond_the_loopback() {
    let server = serve(config(Some("sesame-sesame-sesame")));
    assert!(ask(server.address, "GET /v1/models", "").starts_with("HTTP/1.1 401"));
    let head = "GET /v1/models HTTP/1.1\r\nauthorization: Bearer sesame-sesame-sesame\r\nx:";
    assert!(ask(server.address, head, "").contains("inferoscope-simulated"));
    let open = ServeConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config(None) };
    assert!(matches!(Server::bind(open), Err(ServeError::Open(_))));
    let odd = ServeConfig { model: "a\"b".into(), ..config(None) };
    assert!(matches!(Server::bind(odd), Err(ServeError::Model)));
}
