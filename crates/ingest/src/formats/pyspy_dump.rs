//! `py-spy dump`, as text or `--json`, one dump or many after one another: threads, whether they run, who holds the
//! interpreter lock.
//!
//! A dump is one look at each thread; shares by part come of a few dozen. Command lines and the values that `--locals`
//! prints are left out: they hold keys and prompts.

use capture::Severity;

use crate::builder::Builder;
use crate::formats::stack_parts::{Frame, Stacks, State};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "pyspy_dump", stage: Stage::Clocked, sniff, read };

/// Most frames of a thread that are held.
const MAX_FRAMES: usize = 1_000;

fn sniff(probe: &Probe<'_>) -> Confidence {
    match probe.first_byte() {
        Some(b'[') if probe.has("\"owns_gil\"") && probe.has("\"frames\"") => Confidence::Sure,
        None | Some(b'[' | b'{' | b'<') => Confidence::No,
        _ if probe.is_text() && probe.lines().any(|line| thread(&String::from_utf8_lossy(line)).is_some()) => Confidence::Sure,
        _ => Confidence::No,
    }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut stacks = Stacks::default();
    if input.head().trim_ascii_start().first() == Some(&b'[') {
        read_json(input, &mut stacks, builder);
    } else {
        read_text(input, &mut stacks, builder);
    }
    if stacks.is_empty() {
        builder.refuse("no_rows", "expected threads with frames as py-spy dumps them, found none");
        return;
    }
    stacks.finish(builder);
}

/// One frame as held until its thread is complete.
#[derive(Default)]
struct Held {
    function: String,
    file: String,
    line: String,
}

/// One thread of a dump.
#[derive(Default)]
struct Thread {
    name: String,
    state: Option<State>,
    frames: Vec<Held>,
    process: u32,
}

impl Thread {
    fn push(&mut self, frame: Held) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push(frame);
        }
    }

    /// Adds the thread; one without frames has nothing to tell.
    fn flush(&mut self, stacks: &mut Stacks, builder: &mut Builder<'_>) {
        if let Some(state) = self.state.take()
            && !self.frames.is_empty()
        {
            let frames: Vec<Frame<'_>> =
                self.frames.iter().map(|held| Frame { function: &held.function, file: &held.file, line: &held.line }).collect();
            stacks.add((self.process, &self.name, state), &frames, 1.0, builder);
        }
        self.frames.clear();
        self.name.clear();
    }
}

/// Name and state in `Thread 18092 (active+gil): "Spinner"`.
fn thread(line: &str) -> Option<(&str, State)> {
    let rest = line.strip_prefix("Thread ")?;
    let (id, rest) = rest.split_once(" (")?;
    let (state, name) = rest.split_once(')')?;
    let state = match state {
        "idle" => State::Idle,
        "active" => State::Active,
        "active+gil" => State::Gil,
        _ => return None,
    };
    let is_id = !id.is_empty() && id.trim_start_matches("0x").trim_start_matches("0X").bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| (name.trim_start_matches(": ").trim_matches('"'), state))
}

fn read_text(input: &mut Input<'_>, stacks: &mut Stacks, builder: &mut Builder<'_>) {
    let mut open = Thread::default();
    let mut is_cut = false;
    while let Some(line) = input.next_line() {
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.trim_end();
        is_cut = !line.complete && text.starts_with(' ');
        if is_cut {
            break;
        }
        builder.facts.simulated |= text.starts_with("# inferoscope: simulated");
        if let Some((name, state)) = thread(text) {
            open.flush(stacks, builder);
            name.clone_into(&mut open.name);
            open.state = Some(state);
        } else if let Some(rest) = text.strip_prefix("Process ") {
            open.flush(stacks, builder);
            open.process = rest.split(':').next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        } else if text.starts_with("    ") && !text.starts_with("     ") && open.state.is_some() {
            let frame = Frame::parse(text);
            open.push(Held { function: frame.function.into(), file: frame.file.into(), line: frame.line.into() });
        }
    }
    if is_cut {
        // The frames that are there are the innermost ones: the part they are in is known.
        builder.mark_damaged();
        builder.issue_once(Severity::Warning, "line_cut", "last line", || {
            "expected a whole frame, found the end of the text; the last thread lacks its outer frames".to_string()
        });
    }
    open.flush(stacks, builder);
}

fn read_json(input: &mut Input<'_>, stacks: &mut Stacks, builder: &mut Builder<'_>) {
    let mut json = Json::new(input);
    while json.peek().is_some() {
        let read = json.array(|json| {
            let mut thread = read_thread(json)?;
            thread.flush(stacks, builder);
            Ok(())
        });
        if let Err(error) = read {
            builder.mark_damaged();
            let found = if error.at_end { "the end of the text" } else { "something else" };
            let sentence = format!("expected {}, found {found}; the rest is left out", error.expected);
            builder.issue(Severity::Warning, "damaged_json", &format!("byte {}", error.offset + 1), 1, sentence);
            return;
        }
    }
}

fn read_thread<R: std::io::BufRead>(json: &mut Json<R>) -> JsonResult<Thread> {
    let (mut it, mut is_active, mut owns_gil) = (Thread::default(), false, false);
    json.object(|key, json| {
        match key {
            "pid" => it.process = json.i64()?.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
            "thread_name" => it.name = json.scalar()?.unwrap_or_default(),
            "active" => is_active = json.bool()?.unwrap_or(false),
            "owns_gil" => owns_gil = json.bool()?.unwrap_or(false),
            "frames" => json.array(|json| {
                let frame = read_frame(json)?;
                it.push(frame);
                Ok(())
            })?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    it.state = Some(match (is_active, owns_gil) {
        (false, _) => State::Idle,
        (true, true) => State::Gil,
        (true, false) => State::Active,
    });
    Ok(it)
}

fn read_frame<R: std::io::BufRead>(json: &mut Json<R>) -> JsonResult<Held> {
    let (mut it, mut short) = (Held::default(), None);
    json.object(|key, json| {
        match key {
            "name" => it.function = json.scalar()?.unwrap_or_default(),
            "filename" => it.file = json.scalar()?.unwrap_or_default(),
            "short_filename" => short = json.scalar()?,
            "line" => it.line = json.i64()?.filter(|line| *line > 0).map(|line| line.to_string()).unwrap_or_default(),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    it.file = short.unwrap_or(it.file);
    Ok(it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_lines_are_told_from_others() {
        assert_eq!(thread("Thread 18092 (active+gil): \"Spinner\""), Some(("Spinner", State::Gil)));
        assert_eq!(thread("Thread 0x7F1 (idle)"), Some(("", State::Idle)));
        for line in ["Thread 1 (busy)", "Thread x (idle)", "Threads 1 (idle)", "Thread  (idle)", ""] {
            assert_eq!(thread(line), None, "{line}");
        }
    }
}
