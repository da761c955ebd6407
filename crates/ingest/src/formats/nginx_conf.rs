//! nginx's configuration: what a proxy does to a stream of tokens.
//!
//! | directive | becomes |
//! |---|---|
//! | `proxy_buffering on|off` | `config.proxy_buffering`; without one in a block with `proxy_pass`, nginx's default `on` |
//! | `proxy_buffer_size`, `proxy_buffers`, `proxy_cache`, `gzip` | `config.` of the same name |
//! | `keepalive` in an upstream, `proxy_http_version` | `config.keepalive`, `config.proxy_http_version` (default 1.0: no reuse) |
//! | `proxy_read_timeout`, `proxy_connect_timeout`, `proxy_send_timeout` | `config.` of the same name, in seconds |
//! | `proxy_next_upstream_tries` | `config.retries` |
//! | `add_header X-Accel-Buffering no` by the proxy itself does not turn buffering off and is not read |
//!
//! The innermost block with `proxy_pass` that handles completions decides; where several proxy, a `/v1` location wins,
//! then the one that buffers. `include` is not followed: what it holds is said to be unknown.

use std::collections::BTreeMap;

use capture::Severity;

use crate::builder::Builder;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "nginx_conf", stage: Stage::Clocked, sniff, read };

/// Most blocks that are kept, and deepest nesting.
const MAX_BLOCKS: usize = 2000;
const MAX_DEPTH: usize = 32;
/// Most words of one directive.
const MAX_WORDS: usize = 200;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if !probe.is_text() || matches!(probe.first_byte(), None | Some(b'<' | b'[')) || !probe.has("{") {
        return Confidence::No;
    }
    let starts = |line: &&[u8], word: &str| line.starts_with(word.as_bytes()) && line.ends_with(b";");
    let mut lines = probe.lines().take(4000);
    let is_proxy =
        lines.any(|line| starts(&line, "proxy_pass ") || starts(&line, "proxy_buffering ") || starts(&line, "proxy_read_timeout "));
    if is_proxy { Confidence::Likely } else { Confidence::No }
}

/// Directives in effect in one block, with the line of each.
type Directives = BTreeMap<String, (Vec<String>, u64)>;

/// One block: its header and its own directives. Block 0 is the file.
#[derive(Default)]
struct Block {
    parent: usize,
    header: Vec<String>,
    directives: Directives,
}

/// A block that hands requests on, with everything in effect in it.
struct Proxying {
    location: String,
    directives: Directives,
    line: u64,
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut reader = Reader::new();
    while let Some(line) = input.next_line() {
        reader.line(&String::from_utf8_lossy(line.bytes), line.number);
    }
    reader.finish(builder);
}

struct Reader {
    blocks: Vec<Block>,
    /// The block being read.
    at: usize,
    words: Vec<String>,
    line: u64,
    includes: i64,
    unbalanced: i64,
    too_many: usize,
}

impl Reader {
    fn new() -> Self {
        Self { blocks: vec![Block::default()], at: 0, words: Vec::new(), line: 0, includes: 0, unbalanced: 0, too_many: 0 }
    }

    /// Words, `;`, `{` and `}` of one line; quotes hold words together, `#` starts a comment.
    fn line(&mut self, line: &str, number: u64) {
        let mut word = String::new();
        let mut quote = None;
        for character in line.chars() {
            match (quote, character) {
                (Some(open), close) if open == close => quote = None,
                (Some(_), inside) => word.push(inside),
                (None, '"' | '\'') => quote = Some(character),
                (None, '#') if word.is_empty() => break,
                (None, ';' | '{' | '}') => {
                    self.word(&mut word, number);
                    self.mark(character);
                }
                (None, blank) if blank.is_whitespace() => self.word(&mut word, number),
                (None, plain) => word.push(plain),
            }
        }
        self.word(&mut word, number);
    }

    fn word(&mut self, word: &mut String, number: u64) {
        if !word.is_empty() && self.words.len() < MAX_WORDS {
            if self.words.is_empty() {
                self.line = number;
            }
            self.words.push(std::mem::take(word));
        }
        word.clear();
    }

    fn mark(&mut self, mark: char) {
        let words = std::mem::take(&mut self.words);
        match mark {
            ';' => self.directive(words),
            '{' if self.too_many == 0 && self.blocks.len() < MAX_BLOCKS && self.chain(self.at).len() < MAX_DEPTH => {
                self.blocks.push(Block { parent: self.at, header: words, directives: Directives::new() });
                self.at = self.blocks.len() - 1;
            }
            '{' => self.too_many += 1,
            _ if self.too_many > 0 => self.too_many -= 1,
            _ if self.at == 0 => self.unbalanced += 1,
            _ => self.at = self.blocks[self.at].parent,
        }
    }

    fn directive(&mut self, mut words: Vec<String>) {
        if words.is_empty() || self.too_many > 0 {
            return;
        }
        let name = words.remove(0);
        self.includes += i64::from(name == "include");
        self.blocks[self.at].directives.insert(name, (words, self.line));
    }

    /// A block and those around it, from the inside out.
    fn chain(&self, block: usize) -> Vec<usize> {
        let mut chain = vec![block];
        let mut at = block;
        while at != 0 {
            at = self.blocks[at].parent;
            chain.push(at);
        }
        chain
    }

    /// Blocks that hand requests on, in the file's order. Everything but `proxy_pass` itself is passed down.
    fn proxying(&self) -> Vec<Proxying> {
        let effective = |block: usize| {
            let mut directives = Directives::new();
            for outer in self.chain(block).into_iter().rev() {
                directives.extend(self.blocks[outer].directives.clone());
            }
            directives
        };
        let mut found = Vec::new();
        for (at, block) in self.blocks.iter().enumerate() {
            let Some((_, line)) = block.directives.get("proxy_pass").or_else(|| block.directives.get("grpc_pass")) else { continue };
            let is_location = block.header.first().is_some_and(|word| word == "location");
            let location = block.header.last().filter(|_| is_location).cloned().unwrap_or_default();
            found.push(Proxying { location, directives: effective(at), line: *line });
        }
        // A fragment that is included into a location.
        if found.is_empty()
            && let Some(line) = self.blocks[0].directives.values().map(|(_, line)| *line).min()
        {
            found.push(Proxying { location: String::new(), directives: effective(0), line });
        }
        found
    }

    /// Connections an upstream keeps open.
    fn keepalive(&self) -> Option<(String, u64)> {
        let mut upstreams = self.blocks.iter().filter(|block| block.header.first().is_some_and(|word| word == "upstream"));
        upstreams.find_map(|block| block.directives.get("keepalive")).and_then(|(words, line)| Some((words.first()?.clone(), *line)))
    }

    fn finish(self, builder: &mut Builder<'_>) {
        if self.at != 0 || self.unbalanced > 0 || !self.words.is_empty() {
            builder.mark_damaged();
            let sentence =
                "expected a closing brace for every block, found an uneven number; the file may be cut, what stands in it is read";
            builder.issue(Severity::Warning, "unbalanced_braces", "", 1, sentence);
        }
        if self.includes > 0 {
            let sentence = "`include` is not followed; a setting in an included file is not known here";
            builder.issue(Severity::Note, "include_not_read", "", self.includes, sentence);
        }
        let proxying = self.proxying();
        let buffers = |proxying: &Proxying| first(&proxying.directives, "proxy_buffering").is_none_or(|value| value != "off");
        let rank = |proxying: &Proxying| (proxying.location.contains("/v1"), buffers(proxying));
        let Some(chosen) = proxying.iter().rev().max_by_key(|proxying| rank(proxying)) else {
            builder.refuse("no_proxy", "expected a block of nginx's configuration with `proxy_pass`, found none");
            return;
        };
        if proxying.len() > 1 {
            let location = if chosen.location.is_empty() { "the first" } else { &chosen.location };
            let sentence = format!("several locations hand requests on; `{location}` is taken as the one of the model server");
            builder.issue(Severity::Note, "several_locations", &format!("line {}", chosen.line), proxying.len(), sentence);
        }
        add_settings(chosen, self.keepalive().as_ref(), builder);
    }
}

fn first<'d>(directives: &'d Directives, name: &str) -> Option<&'d str> {
    directives.get(name).and_then(|(words, _)| words.first()).map(String::as_str)
}

/// Directives kept as they stand.
const KEPT: &[&str] = &["proxy_buffer_size", "proxy_buffers", "proxy_cache", "gzip", "proxy_request_buffering", "tcp_nodelay", "limit_req"];
/// Times, in seconds.
const TIMES: &[&str] = &["proxy_read_timeout", "proxy_connect_timeout", "proxy_send_timeout", "keepalive_timeout"];

fn add_settings(chosen: &Proxying, keepalive: Option<&(String, u64)>, builder: &mut Builder<'_>) {
    let replica = String::new();
    let file = "start-up dump (nginx configuration)";
    let default = "default of nginx";
    builder.setting(&replica, "config.gateway", "nginx", file, chosen.line);
    let mut set = |key: &str, stated: Option<(String, u64)>, otherwise: &str| match stated {
        Some((value, line)) => builder.setting(&replica, key, &value, file, line),
        None if !otherwise.is_empty() => builder.setting(&replica, key, otherwise, default, chosen.line),
        None => {}
    };
    let stated =
        |name: &str| chosen.directives.get(name).map(|(words, line)| (crate::secrets::redact(&words.join(" ")).into_owned(), *line));
    let buffering = stated("proxy_buffering").map(|(value, line)| (if value == "off" { "false" } else { "true" }.to_string(), line));
    set("config.proxy_buffering", buffering, "true");
    set("config.proxy_http_version", stated("proxy_http_version"), "1.0");
    set("config.keepalive", keepalive.cloned(), "");
    set("config.retries", stated("proxy_next_upstream_tries"), "");
    for name in KEPT {
        set(&format!("config.{name}"), stated(name), "");
    }
    for name in TIMES {
        let seconds = stated(name).and_then(|(value, line)| Some((format!("{}", seconds(&value)?), line)));
        set(&format!("config.{name}"), seconds, "");
    }
}

/// Seconds of nginx's times: `600s`, `10m`, `1h 30m`, `500ms`, `60`.
fn seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    for part in text.split_whitespace() {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(part.len());
        let scale = match &part[end..] {
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total += part[..end].parse::<f64>().ok()? * scale;
    }
    Some(total)
}
