//! `py-spy record -f raw`: one line per different stack, frames from the outermost inwards, then the number of samples.
//!
//! With `-t` a line starts with the thread (`thread (18062): Spinner`), with `-s` with the process and its command line,
//! which is left out: it may hold keys. Samples that idle are only there with `-i`, and then count as work where no Python frame
//! shows that they wait (`time.sleep` is none): record without it.

use std::collections::BTreeMap;

use capture::Severity;

use crate::builder::Builder;
use crate::formats::stack_parts::{Frame, Stacks, State};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::{Input, Line};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "pyspy_raw", stage: Stage::Clocked, sniff, read };

/// Lines that are looked at.
const MAX_SNIFFED_LINES: usize = 20;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if matches!(probe.first_byte(), None | Some(b'{' | b'[')) || !probe.is_text() {
        return Confidence::No;
    }
    let (mut python, mut others) = (0, 0);
    for line in probe.lines().filter(|line| !line.is_empty() && line[0] != b'#').take(MAX_SNIFFED_LINES) {
        let text = String::from_utf8_lossy(line);
        let is_python = split(&text).is_some_and(|(stack, _)| stack.contains(".py:") || stack.contains("(<frozen "));
        *(if is_python { &mut python } else { &mut others }) += 1;
    }
    if python > others { Confidence::Sure } else { Confidence::No }
}

/// A line's stack and its number of samples.
fn split(line: &str) -> Option<(&str, f64)> {
    let (stack, count) = line.trim_end().rsplit_once(' ')?;
    let is_count = !count.is_empty() && count.len() <= 15 && count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().ok().filter(|_| is_count)?;
    stack.ends_with(')').then_some((stack, count))
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut stacks = Stacks::default();
    let mut processes = BTreeMap::new();
    while let Some(line) = input.next_line() {
        read_line(line, &mut processes, &mut stacks, builder);
    }
    if stacks.is_empty() {
        builder.refuse("no_rows", "expected lines of `frame;frame;... count`, found none");
        return;
    }
    stacks.finish(builder);
}

fn read_line(line: Line<'_>, processes: &mut BTreeMap<String, u32>, stacks: &mut Stacks, builder: &mut Builder<'_>) {
    let text = String::from_utf8_lossy(line.bytes);
    if text.trim().is_empty() || text.starts_with('#') {
        builder.facts.simulated |= text.starts_with("# inferoscope: simulated");
        return;
    }
    let place = || format!("line {}", line.number);
    let Some((stack, count)) = split(&text).filter(|_| line.complete) else {
        if line.complete {
            builder.issue_once(Severity::Warning, "damaged_row", &place(), || {
                "expected `frame;frame;... count`, found something else; the line is left out".to_string()
            });
        } else {
            builder.mark_damaged();
            builder.issue_once(Severity::Warning, "line_cut", &place(), || {
                "expected a line end, found the end of the text; the last line is left out".to_string()
            });
        }
        return;
    };
    let (process, stack) = take_processes(stack, processes);
    let (thread, stack) = take_thread(stack);
    let frames: Vec<Frame<'_>> = stack.split(';').rev().map(Frame::parse).collect();
    stacks.add((process, thread, State::Unknown), &frames, count, builder);
}

/// Takes the process frames off a stack, the innermost of them being the process itself: `process 12:"python -m x";`.
fn take_processes<'a>(mut stack: &'a str, processes: &mut BTreeMap<String, u32>) -> (u32, &'a str) {
    let mut process = 0;
    while let Some(rest) = stack.strip_prefix("process ") {
        let Some((pid, command)) = rest.split_once(":\"").filter(|(pid, _)| pid.bytes().all(|byte| byte.is_ascii_digit())) else { break };
        let next = processes.len() as u32 + 1;
        process = *processes.entry(pid.to_string()).or_insert(next);
        stack = command.split_once("\";").map_or("", |(_, inside)| inside);
    }
    (process, stack)
}

/// Takes the thread frame off a stack.
fn take_thread(stack: &str) -> (&str, &str) {
    let Some(rest) = stack.strip_prefix("thread (") else { return ("", stack) };
    let (thread, inside) = rest.split_once(';').unwrap_or((rest, ""));
    (thread.split_once("): ").map_or("", |(_, name)| name), inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_threads_are_taken_off() {
        let mut processes = BTreeMap::new();
        let stack = "process 7:\"vllm serve --api-key s;x\";process 9:\"python -c x\";thread (12): a b;f (x.py:1)";
        let (process, rest) = take_processes(stack, &mut processes);
        assert_eq!((process, rest), (2, "thread (12): a b;f (x.py:1)"));
        assert_eq!(take_thread(rest), ("a b", "f (x.py:1)"));
        assert_eq!(take_thread("thread (12);f (x.py:1)"), ("", "f (x.py:1)"));
        assert_eq!(processes.into_iter().collect::<Vec<_>>(), [("7".to_string(), 1), ("9".to_string(), 2)]);
        assert_eq!(split("f (x.py:1) 12"), Some(("f (x.py:1)", 12.0)));
        assert_eq!(split("f (x.py:1) 1.5").or(split("vllm:x 1")), None);
    }
}
