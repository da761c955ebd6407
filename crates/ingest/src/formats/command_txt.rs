//! The command that started a server: environment, program and flags, one server per line.
//!
//! Becomes settings (`config.` from flags, `env.` from assignments) and the run's command line. Secrets are redacted in
//! both. Lines that start no server (comments, `cd`, exports of other things) only give their assignments.

use crate::builder::Builder;
use crate::engines::{self, Engine};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::secrets::redact_command;
use crate::shell;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "command_txt", stage: Stage::Clocked, sniff, read };

/// A command file is short.
const MAX_LINES: usize = 400;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if !probe.is_whole || !probe.is_text() || matches!(probe.first_byte(), None | Some(b'{' | b'<')) {
        return Confidence::No;
    }
    let text = String::from_utf8_lossy(probe.head);
    let lines = commands(&text);
    let is_log = lines.iter().any(|(_, line)| line.starts_with("INFO") || line.starts_with("(APIServer"));
    let has_server = lines.len() <= MAX_LINES && lines.iter().any(|(_, line)| engines::of_command(line).is_some());
    if has_server && !is_log { Confidence::Likely } else { Confidence::No }
}

/// Lines with their numbers, continuations joined, comments left out.
fn commands(text: &str) -> Vec<(u64, String)> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut continued = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let (part, goes_on) = line.strip_suffix('\\').map_or((line, false), |part| (part.trim_end(), true));
        match lines.last_mut().filter(|_| continued) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(part);
            }
            None => lines.push((at as u64 + 1, part.to_string())),
        }
        continued = goes_on;
    }
    lines
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let text = String::from_utf8_lossy(input.head()).into_owned();
    builder.facts.simulated |= text.lines().any(|line| line.starts_with("# inferoscope: simulated"));
    let lines = commands(&text);
    let server_count = lines.iter().filter(|(_, line)| engines::of_command(line).is_some()).count();
    let mut server = 0;
    for (number, line) in &lines {
        let words = shell::words(line);
        match engines::of_command(line) {
            Some(engine) => {
                let replica = match (&builder.context.replica, server_count) {
                    (Some(replica), _) => replica.clone(),
                    (None, 0 | 1) => String::new(),
                    (None, _) => server.to_string(),
                };
                server += 1;
                add_server(engine, &words, &replica, *number, builder);
            }
            None => add_environment(&words, "", *number, builder),
        }
    }
}

fn add_server(engine: &Engine, words: &[String], replica: &str, line: u64, builder: &mut Builder<'_>) {
    add_environment(words, replica, line, builder);
    engines::add_flags(builder, engine, words, replica, "command line", line);
    builder.facts.commands.push(redact_command(words));
    note_subject(engine, words, builder);
}

/// What a command line says of the subject.
pub(super) fn note_subject(engine: &Engine, words: &[String], builder: &mut Builder<'_>) {
    let settings = (engine.flags)(words);
    let find = |key: &str| settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.clone());
    let subject = &mut builder.capture.manifest.subject;
    subject.engine = engine.id.to_string();
    if subject.engine_from.is_empty() {
        subject.engine_from = "command line".to_string();
    }
    let served = find("config.served_model_name").and_then(|names| names.split(' ').next().map(ToString::to_string));
    if let Some(model) = served.or_else(|| find("config.model")) {
        subject.model = model;
    }
    for (name, value) in words.iter().filter_map(|word| shell::assignment(word)) {
        match (name, value) {
            ("VLLM_USE_V1", "0") => builder.facts.generation = "V0".to_string(),
            ("VLLM_USE_V1", "1") => builder.facts.generation = "V1".to_string(),
            (name, _) if name.starts_with("VLLM_CPU_") => builder.capture.manifest.subject.device = "CPU".to_string(),
            _ => {}
        }
    }
}

/// Adds the assignments of a command line: those before the program and those handed to a container.
pub(super) fn add_environment(words: &[String], replica: &str, line: u64, builder: &mut Builder<'_>) {
    let is_leading =
        |at: usize| words[..at].iter().all(|word| shell::assignment(word).is_some() || matches!(word.as_str(), "export" | "env" | "set"));
    for (at, word) in words.iter().enumerate() {
        let is_handed = at > 0 && matches!(words[at - 1].as_str(), "-e" | "--env");
        let Some((name, value)) = shell::assignment(word).filter(|_| is_handed || is_leading(at)) else { continue };
        let value = crate::secrets::redact(value).into_owned();
        builder.setting(replica, &format!("env.{name}"), &value, "command line", line);
        if name == "VLLM_ATTENTION_BACKEND" {
            builder.setting(replica, "config.attention_backend", &value, "environment", line);
        }
    }
}
