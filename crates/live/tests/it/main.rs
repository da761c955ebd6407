//! Reading servers that behave and servers that do not, over real sockets on this machine.

#![allow(clippy::unwrap_used)]
#![allow(clippy::unused_self)] // a helper per server reads better as a method

mod gpu;
#[path = "../support/known_http2.rs"]
mod known_http2;
#[path = "../support/known_server.rs"]
mod known_server;
mod load;
mod prometheus;
mod python;
mod record;
mod servers;
mod simulated;
mod tap;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use live::{Address, Fetch, scrape_window};

use crate::servers::{Behavior, refused_port, serve};

/// Reads once and shows the body or the error, with the port and the operating system's own words taken out.
fn read(port: u16) -> String {
    let address: Address = format!("http://ada:lace@127.0.0.1:{port}/metrics").parse().unwrap();
    let fetch = Fetch {
        connect_timeout: Duration::from_millis(500),
        total_timeout: Duration::from_millis(500),
        max_body_bytes: 100_000,
        ..Fetch::new(address)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = match runtime.block_on(fetch.get()) {
        Ok(body) => String::from_utf8(body).unwrap(),
        Err(error) => format!("{}: {error}", error.kind()),
    };
    text.replace(&port.to_string(), "PORT")
}

fn check(behavior: Behavior, expected: &Expect) {
    let started = Instant::now();
    expected.assert_eq(&read(serve(behavior)));
    assert!(started.elapsed() < Duration::from_secs(5), "a limit on time does not hold");
}

#[test]
fn a_metrics_page_is_read_as_served() {
    check(
        Behavior::Page("vllm:num_requests_running 3\n"),
        &expect![[r#"
        vllm:num_requests_running 3
    "#]],
    );
}

#[test]
fn credentials_reach_the_server_and_no_compression_is_asked_for() {
    let head = read(serve(Behavior::Echo)).to_ascii_lowercase();
    assert!(head.contains("authorization: basic ywrhomxhy2u=") && head.contains("host: 127.0.0.1:port"), "{head}");
    assert!(!head.contains("accept-encoding"), "{head}");
}

/// Some proxies pack whatever the client said.
#[test]
fn gzip_that_nobody_asked_for_is_unpacked() {
    let packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x50\x30\xe4\x02\x00\x23\xff\x0a\x91\x04\x00\x00\x00";
    check(
        Behavior::Encoded("gzip", packed),
        &expect![[r#"
        x 1
    "#]],
    );
    check(
        Behavior::Encoded("gzip", &packed[..20]),
        &expect!["encoding: `http://127.0.0.1:PORT/metrics` sent an answer that cannot be unpacked as gzip"],
    );
    check(
        Behavior::Encoded("gzip", TWO_HUNDRED_KB),
        &expect!["too_large: `http://127.0.0.1:PORT/metrics` sent more than 100000 bytes; expected a metrics page"],
    );
}

/// 200,000 zeros in gzip.
const TWO_HUNDRED_KB: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc1\x31\x01\x00\x00\x00\xc2\xa0\xf5\x4f\x6d\x06\x7f\xa0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\xd7\x00\x7b\x58\xe0\x5c\x40\x0d\x03\x00";

#[test]
fn another_encoding_is_named() {
    check(
        Behavior::Encoded("br", b"x"),
        &expect!["encoding: `http://127.0.0.1:PORT/metrics` sent its answer in the encoding `br`; expected plain text, or gzip"],
    );
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    check(Behavior::HangBeforeHead, &expect!["timeout: `http://127.0.0.1:PORT/metrics` did not answer within 0.5 s"]);
}

#[test]
fn a_server_that_stops_in_the_body_is_given_up() {
    check(Behavior::HangInBody, &expect!["timeout: `http://127.0.0.1:PORT/metrics` did not finish its answer within 0.5 s"]);
}

#[test]
fn a_server_that_sends_forever_is_cut() {
    check(
        Behavior::SendForever,
        &expect!["too_large: `http://127.0.0.1:PORT/metrics` sent more than 100000 bytes; expected a metrics page"],
    );
}

#[test]
fn a_head_without_end_is_cut() {
    check(Behavior::HugeHead, &expect!["protocol: `http://127.0.0.1:PORT/metrics` did not send a whole HTTP answer"]);
}

#[test]
fn what_is_not_http_is_refused() {
    check(Behavior::Garbage, &expect!["protocol: `http://127.0.0.1:PORT/metrics` did not send a whole HTTP answer"]);
}

#[test]
fn a_body_shorter_than_announced_is_refused() {
    check(Behavior::ShortBody, &expect!["protocol: `http://127.0.0.1:PORT/metrics` did not send a whole HTTP answer"]);
}

#[test]
fn a_missing_page_is_named_with_its_status() {
    check(Behavior::Status("404 Not Found"), &expect!["status: `http://127.0.0.1:PORT/metrics` answered 404 Not Found, expected 200 OK"]);
}

#[test]
fn a_redirect_is_not_followed_and_its_secrets_are_not_shown() {
    check(
        Behavior::Redirect("http://eve:pw@other/m?api_key=1"),
        &expect![
            "redirect: `http://127.0.0.1:PORT/metrics` answered 302 Found and points to `http://other/m?api_key=<redacted>`; redirects are not followed, name the final address"
        ],
    );
}

#[test]
fn nobody_listening_is_an_error_at_once() {
    assert!(read(refused_port()).starts_with("connect: could not connect to `http://127.0.0.1:PORT/metrics`"));
}

fn address(port: u16) -> Address {
    format!("http://127.0.0.1:{port}").parse().unwrap()
}

#[test]
fn a_window_keeps_failed_readings_as_such() {
    let port = serve(Behavior::EverySecondFails);
    let seen = AtomicUsize::new(0);
    let count = |_| {
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let (window, interval) = (Duration::from_millis(620), Duration::from_millis(100));
    let scrapes = scrape_window(&address(port), window, interval, &AtomicBool::new(false), &count).unwrap();
    assert!(scrapes.len() >= 2 && scrapes.len() <= 7, "{}", scrapes.len());
    assert_eq!(seen.into_inner(), scrapes.len());
    assert!(scrapes.windows(2).all(|pair| pair[0].t_ns < pair[1].t_ns));
    for (at, scrape) in scrapes.iter().enumerate() {
        let text = String::from_utf8(scrape.body.clone()).unwrap();
        let (head, rest) = text.split_once('\n').unwrap();
        assert!(head.starts_with("# SCRAPE ts="), "{head}");
        assert_eq!((scrape.is_whole, head.ends_with("error=status"), rest.is_empty()), (at % 2 == 0, at % 2 == 1, at % 2 == 1), "{text}");
    }
}

/// One connection for all readings; one that the server closed is replaced, and no reading is lost by it.
#[test]
fn a_connection_left_open_is_used_again() {
    let port = serve(Behavior::KeepsOpen(3));
    let (window, interval) = (Duration::from_millis(800), Duration::from_millis(100));
    let scrapes = scrape_window(&address(port), window, interval, &AtomicBool::new(false), &|_| {}).unwrap();
    assert!(scrapes.iter().all(|scrape| scrape.is_whole));
    for (at, scrape) in scrapes.iter().enumerate() {
        let text = String::from_utf8(scrape.body.clone()).unwrap();
        assert_eq!(text.lines().nth(1), Some(format!("connections {}", at / 3).as_str()));
    }
}

#[test]
fn a_window_without_a_single_answer_says_why() {
    let (window, interval) = (Duration::from_millis(50), Duration::from_millis(20));
    let error = scrape_window(&address(refused_port()), window, interval, &AtomicBool::new(false), &|_| {}).unwrap_err();
    assert!(error.to_string().starts_with("could not connect to `http://127.0.0.1:"), "{error}");
}

/// Nobody there, or a server that says no: told after a moment, not after ten minutes; whatever the interval.
#[test]
fn a_window_without_hope_ends_early() {
    for port in [refused_port(), serve(Behavior::Status("404 Not Found"))] {
        let started = Instant::now();
        let (window, interval) = (Duration::from_secs(60), Duration::from_secs(30));
        let seen = AtomicUsize::new(0);
        let count = |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        scrape_window(&address(port), window, interval, &AtomicBool::new(false), &count).unwrap_err();
        assert!(started.elapsed() >= Duration::from_secs(2) && started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(seen.into_inner(), 2, "tried again before it was given up");
    }
}

/// One that fails for another reason may come to.
#[test]
fn a_window_with_hope_goes_on() {
    let port = serve(Behavior::Status("503 Service Unavailable"));
    let started = Instant::now();
    scrape_window(&address(port), Duration::from_secs(3), Duration::from_secs(1), &AtomicBool::new(false), &|_| {}).unwrap_err();
    assert!(started.elapsed() >= Duration::from_secs(3));
}

#[test]
fn stopping_ends_the_window_and_keeps_what_was_read() {
    let port = serve(Behavior::Page("x 1\n"));
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let stop_now = |_| stop.store(true, Ordering::Relaxed);
    let scrapes = scrape_window(&address(port), Duration::from_secs(60), Duration::from_secs(30), &stop, &stop_now).unwrap();
    assert_eq!(scrapes.len(), 1);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn stopping_during_a_hanging_reading_ends_at_once() {
    let port = serve(Behavior::HangBeforeHead);
    let started = Instant::now();
    let error =
        scrape_window(&address(port), Duration::from_secs(60), Duration::from_secs(1), &AtomicBool::new(true), &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), format!("stopped before `http://127.0.0.1:{port}/metrics` answered"));
    assert!(started.elapsed() < Duration::from_secs(5));
}
