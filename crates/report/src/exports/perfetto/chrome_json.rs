//! The JSON form: the Trace Event Format of Chrome, which Perfetto, `chrome://tracing` and many scripts read.
//!
//! Times are microseconds with three decimals, written from integers, so that no nanosecond is lost.

use std::collections::HashMap;
use std::io::{self, Write};

use super::sink::{Curve, Detail, Group, Lane, Sink, Slice};

/// Writes events.
#[derive(Debug)]
pub(super) struct ChromeJson<W> {
    out: W,
    line: String,
    is_first: bool,
    /// Of each track its group, number within the group and, for curves, name.
    tracks: HashMap<u64, (u32, u32, String)>,
}

impl<W: Write> ChromeJson<W> {
    /// Starts a trace.
    pub(super) fn start(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"otherData\":{\"producer\":\"inferoscope\"},\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self { out, line: String::new(), is_first: true, tracks: HashMap::new() })
    }

    /// Starts an event in `self.line`.
    fn event(&mut self, phase: char, track: u64, t_ns: u64) {
        let (pid, tid) = self.tracks.get(&track).map_or((0, 0), |(pid, tid, _)| (*pid, *tid));
        self.open(phase, pid, tid);
        self.line.push_str(&format!(",\"ts\":{}.{:03}", t_ns / 1000, t_ns % 1000));
    }

    fn open(&mut self, phase: char, pid: u32, tid: u32) {
        self.line.clear();
        self.line.push_str(if self.is_first { "\n" } else { ",\n" });
        self.is_first = false;
        self.line.push_str(&format!("{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{tid}"));
    }

    fn member(&mut self, key: &str, text: &str) {
        self.line.push_str(&format!(",\"{key}\":"));
        push_string(text, &mut self.line);
    }

    fn close(&mut self) -> io::Result<()> {
        self.line.push('}');
        self.out.write_all(self.line.as_bytes())
    }

    fn name_it(&mut self, what: &str, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        self.open('M', pid, tid);
        self.member("name", what);
        self.line.push_str(",\"args\":{\"name\":");
        push_string(name, &mut self.line);
        self.line.push('}');
        self.close()
    }

    fn flow(&mut self, phase: char, track: u64, t_ns: u64, id: u64) -> io::Result<()> {
        self.event(phase, track, t_ns);
        self.line.push_str(&format!(",\"cat\":\"launch\",\"name\":\"launch\",\"id\":\"{id:x}\""));
        if phase == 'f' {
            self.line.push_str(",\"bp\":\"e\"");
        }
        self.close()
    }

    fn details(&mut self, details: &[(&'static str, Detail<'_>)]) {
        self.line.push_str(",\"args\":{");
        for (at, (name, detail)) in details.iter().enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            push_string(name, &mut self.line);
            self.line.push(':');
            match detail {
                Detail::Text(text) => push_string(text.text, &mut self.line),
                Detail::Count(count) => self.line.push_str(&count.to_string()),
                Detail::Number(number) => self.line.push_str(&json_number(*number)),
            }
        }
        self.line.push('}');
    }
}

/// JSON has no word for what is not finite.
fn json_number(number: f64) -> String {
    if number.is_finite() { format!("{number}") } else { "null".to_string() }
}

fn push_string(text: &str, line: &mut String) {
    line.push('"');
    for sign in text.chars() {
        match sign {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            sign if sign.is_control() => line.push_str(&format!("\\u{:04x}", u32::from(sign))),
            sign => line.push(sign),
        }
    }
    line.push('"');
}

impl<W: Write> Sink for ChromeJson<W> {
    fn group(&mut self, group: Group<'_>) -> io::Result<()> {
        self.name_it("process_name", group.pid, 0, group.name)
    }

    fn lane(&mut self, lane: Lane<'_>) -> io::Result<()> {
        self.tracks.insert(lane.track, (lane.pid, lane.tid, String::new()));
        self.name_it("thread_name", lane.pid, lane.tid, lane.name)
    }

    fn curve(&mut self, curve: Curve<'_>) -> io::Result<()> {
        self.tracks.insert(curve.track, (curve.pid, 0, format!("{} [{}]", curve.name, curve.unit)));
        Ok(())
    }

    fn begin(&mut self, track: u64, t_ns: u64, slice: &Slice<'_>) -> io::Result<()> {
        self.event('B', track, t_ns);
        self.member("name", slice.name.text);
        if !slice.category.is_empty() {
            self.member("cat", slice.category);
        }
        if !slice.details.is_empty() {
            self.details(slice.details);
        }
        self.close()?;
        if slice.flow_out != 0 {
            self.flow('s', track, t_ns, slice.flow_out)?;
        }
        if slice.flow_in != 0 {
            self.flow('f', track, t_ns, slice.flow_in)?;
        }
        Ok(())
    }

    fn end(&mut self, track: u64, t_ns: u64) -> io::Result<()> {
        self.event('E', track, t_ns);
        self.close()
    }

    fn value(&mut self, track: u64, t_ns: u64, value: f64) -> io::Result<()> {
        let name = self.tracks.get(&track).map(|(_, _, name)| name.clone()).unwrap_or_default();
        self.event('C', track, t_ns);
        self.member("name", &name);
        self.line.push_str(&format!(",\"args\":{{\"value\":{}}}", json_number(value)));
        self.close()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}
