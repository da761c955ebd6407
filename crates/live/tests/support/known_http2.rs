//! The known server over HTTP/2: the same script, told by frames.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{Sleep, sleep_until};

use crate::known_server::{Script, Truth, accept_all, body, end, role};

/// Starts the server on a free port of this machine.
pub(crate) fn start(script: Script) -> (SocketAddr, Arc<Mutex<Truth>>) {
    accept_all(move |stream, truth| {
        let script = script.clone();
        let answer = service_fn(move |request| answer(request, script.clone(), Arc::clone(&truth)));
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer)
    })
}

async fn answer(request: Request<Incoming>, script: Script, truth: Arc<Mutex<Truth>>) -> Result<Response<Answer>, hyper::Error> {
    assert_eq!((request.version(), request.uri().host()), (Version::HTTP_2, Some("127.0.0.1")));
    request.into_body().collect().await?;
    let received = Instant::now();
    truth.lock().unwrap().requests += 1;
    let sleep = Box::pin(sleep_until((received + script.ttft).into()));
    Ok(Response::new(Answer { has_role: !script.has_role, script, truth, received, sent: Vec::new(), sleep, is_done: false }))
}

/// The answer as it becomes due.
struct Answer {
    script: Script,
    truth: Arc<Mutex<Truth>>,
    received: Instant,
    has_role: bool,
    sent: Vec<Instant>,
    sleep: Pin<Box<Sleep>>,
    is_done: bool,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let at = self.sent.len() as u32;
        let text = if self.is_done {
            return Poll::Ready(None);
        } else if !std::mem::replace(&mut self.has_role, true) {
            role()
        } else if at == self.script.chunks {
            self.is_done = true;
            self.truth.lock().unwrap().note(self.received, &self.sent);
            end(&self.script)
        } else {
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.sent.push(Instant::now());
            let due = self.received + self.script.ttft + self.script.interval * (at + 1);
            self.sleep.as_mut().reset(due.into());
            body(&self.script, at)
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))))
    }
}
