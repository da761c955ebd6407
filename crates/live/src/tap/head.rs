//! The head of a request or an answer: what the proxy must know of it, and nothing that may be a secret.

use super::framing::Framing;

/// Longest head.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
/// Longest request id that is recorded as it is.
const MAX_ID_BYTES: usize = 128;

/// Length of the head at the front of `bytes`, its empty line included; `from` bytes were looked at before.
pub(super) fn end_of(bytes: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3);
    let ends = bytes.iter().enumerate().skip(start).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let mut found = ends.filter_map(|at| match bytes.get(at + 1..) {
        Some([b'\n', ..]) => Some(at + 2),
        Some([b'\r', b'\n', ..]) => Some(at + 3),
        _ => None,
    });
    found.next()
}

/// Name, in its spelling, and value of each header.
fn headers(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// The value of a header that stands once.
fn value<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    headers(head).find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}

/// What the headers say of the body; `Err` when they are not clear, so that nobody can know where it ends.
fn framing(head: &[u8]) -> Result<Option<Framing>, ()> {
    let mut found = None;
    for (name, value) in headers(head) {
        let own = if name.eq_ignore_ascii_case(b"content-length") {
            let text = std::str::from_utf8(value).map_err(|_| ())?;
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            Framing::length(text.parse().ok().filter(|_| is_number).ok_or(())?)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(());
            }
            Framing::chunked()
        } else if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return Err(());
        } else {
            continue;
        };
        if found.is_some_and(|found| found != own) {
            return Err(());
        }
        found = Some(own);
    }
    Ok(found)
}

/// What is known of a request by its head.
#[expect(clippy::struct_excessive_bools, reason = "each is what one header or word says")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub(super) is_head: bool,
    pub(super) is_completion: bool,
    pub(super) framing: Framing,
    /// `x-request-id`, where it may be recorded.
    pub(super) id: Option<String>,
    pub(super) has_id: bool,
    pub(super) has_trace: bool,
}

impl RequestHead {
    /// Reads a whole head; `None` when the framing is not clear, or the request turns the connection into something else.
    pub(super) fn read(head: &[u8]) -> Option<Self> {
        let line = head.split(|byte| *byte == b'\n').next()?;
        let mut words = line.trim_ascii().split(|byte| *byte == b' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if method == b"CONNECT" || value(head, "upgrade").is_some() || !version.starts_with(b"HTTP/1.") {
            return None;
        }
        let id = value(head, "x-request-id");
        let recorded = id.and_then(|id| std::str::from_utf8(id).ok()).filter(|id| is_plain(id)).map(ToString::to_string);
        Some(Self {
            is_head: method == b"HEAD",
            is_completion: method == b"POST" && is_completion(target),
            framing: framing(head).ok()?.unwrap_or(Framing::Done),
            id: recorded,
            has_id: id.is_some(),
            has_trace: value(head, "traceparent").is_some(),
        })
    }
}

/// True for text that a program made as an id.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

fn is_completion(target: &[u8]) -> bool {
    let path = target.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let ends: [&[u8]; 6] = [b"/completions", b"/completion", b"/v1/responses", b"/v1/messages", b"/generate", b"/generate_stream"];
    ends.iter().any(|end| path.ends_with(end))
}

/// What is known of an answer by its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerHead {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) is_stream: bool,
    pub(super) is_packed: bool,
}

impl AnswerHead {
    /// Reads a whole head; `None` when it is none, or its framing is not clear. `of_head`: the request was a HEAD.
    pub(super) fn read(head: &[u8], of_head: bool) -> Option<Self> {
        let line = head.split(|byte| *byte == b'\n').next()?;
        let mut words = line.trim_ascii().split(|byte| *byte == b' ');
        let version = words.next()?;
        let status: u16 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        if !version.starts_with(b"HTTP/1.") || status == 101 {
            return None;
        }
        let has_none = of_head || status < 200 || status == 204 || status == 304;
        let framing = if has_none { Framing::Done } else { framing(head).ok()?.unwrap_or(Framing::UntilClose) };
        let is_stream = value(head, "content-type").is_some_and(|kind| kind.starts_with(b"text/event-stream"));
        let is_packed = value(head, "content-encoding").is_some_and(|kind| !kind.eq_ignore_ascii_case(b"identity"));
        Some(Self { status, framing, is_stream, is_packed })
    }
}

/// The header by which callers beyond loopback are told from others.
const TOKEN: &str = "x-inferoscope-token";

/// True if the head holds the token, compared in a time that does not depend on where it differs.
pub(super) fn has_token(head: &[u8], token: &str) -> bool {
    value(head, TOKEN).is_some_and(|sent| {
        let differs = sent.iter().zip(token.as_bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
        sent.len() == token.len() && differs == 0
    })
}

/// The head without the token.
pub(super) fn without_token(head: &[u8]) -> Vec<u8> {
    let lines = head.split_inclusive(|byte| *byte == b'\n');
    let is_token = |line: &[u8]| line.get(..TOKEN.len() + 1).is_some_and(|start| start.eq_ignore_ascii_case(b"x-inferoscope-token:"));
    lines.filter(|line| !is_token(line)).flatten().copied().collect()
}

/// The head with more headers behind the request line.
pub(super) fn with_headers(head: &[u8], more: &str) -> Vec<u8> {
    let end = head.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    [&head[..end], more.as_bytes(), &head[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &str) -> Option<RequestHead> {
        RequestHead::read(format!("POST /v1/completions HTTP/1.1\r\n{lines}\r\n").as_bytes())
    }

    #[test]
    fn a_body_of_unclear_length_is_not_guessed() {
        assert_eq!(request("Content-Length: 5\r\n").unwrap().framing, Framing::length(5));
        assert_eq!(request("transfer-encoding: Chunked\r\n").unwrap().framing, Framing::chunked());
        assert_eq!(request("Host: x\r\n").unwrap().framing, Framing::Done);
        for unclear in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: +5\r\n",
            "Content-Length : 5\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Upgrade: websocket\r\n",
        ] {
            assert_eq!(request(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn ids_are_recorded_only_as_ids() {
        let id = |text: &str| request(&format!("X-Request-Id: {text}\r\n")).unwrap().id;
        assert_eq!(id("a-1:b").as_deref(), Some("a-1:b"));
        assert_eq!(id("my secret prompt"), None);
        assert_eq!(id(&"a".repeat(200)), None);
    }

    #[test]
    fn heads_end_at_the_empty_line() {
        assert_eq!(end_of(b"GET / HTTP/1.1\r\nA: b\r\n\r\nbody", 0), Some(24));
        assert_eq!(end_of(b"GET / HTTP/1.1\nA: b\n\nbody", 17), Some(21));
        assert_eq!(end_of(b"GET / HTTP/1.1\r\nA: b\r\n\r", 0), None);
        assert!(has_token(b"GET / HTTP/1.1\r\nX-Inferoscope-Token: abc\r\n\r\n", "abc"));
        assert!(!has_token(b"GET / HTTP/1.1\r\nX-Inferoscope-Token: abcd\r\n\r\n", "abc"));
        assert_eq!(without_token(b"GET / HTTP/1.1\r\nX-Inferoscope-Token: abc\r\nB: c\r\n\r\n"), b"GET / HTTP/1.1\r\nB: c\r\n\r\n");
        assert_eq!(with_headers(b"GET / HTTP/1.1\r\n\r\n", "A: b\r\n"), b"GET / HTTP/1.1\r\nA: b\r\n\r\n");
    }

    #[test]
    fn answers_without_a_body_have_none() {
        let head = |text: &str, of_head| AnswerHead::read(text.as_bytes(), of_head).map(|head| head.framing);
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true), Some(Framing::Done));
        assert_eq!(head("HTTP/1.1 204 No Content\r\n\r\n", false), Some(Framing::Done));
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n", false), Some(Framing::UntilClose));
        assert_eq!(head("HTTP/1.1 101 Switching Protocols\r\n\r\n", false), None);
        assert_eq!(head("SSH-2.0\r\n\r\n", false), None);
    }
}
