//! `observations.toml`: evidence typed by hand, schema `inferoscope.observations/1`.
//!
//! Most people start with a few numbers and a flag line. Values may carry units and bounds; what cannot be right is an
//! error issue that names the line and the nearest valid name, and the rest is still read. Files named by a run are
//! read by the ordinary importers into that run (`read.rs`); notes are kept and never parsed.

mod pairs;
mod signal;
mod sweep;

use std::path::Path;

use capture::signals::SYMPTOMS;
use capture::{Note, Run, Severity};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::builder::{Builder, NO_POINT};
use crate::engines;
use crate::formats::{Confidence, Format, Probe, Stage, command_txt};
use crate::input::Input;
use crate::shell;

use pairs::TypedValue;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "observations_toml", stage: Stage::Clocked, sniff, read };

const SCHEMA: &str = "inferoscope.observations/1";
/// Larger files were not typed by hand.
const MAX_BYTES: usize = 1 << 20;
/// Unknown names for which the nearest valid one is looked up.
const MAX_NEAREST: u32 = 100;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if probe.has("inferoscope.observations/") && probe.lines().any(|line| line.starts_with(b"schema")) {
        Confidence::Sure
    } else if probe.lines().any(|line| line == b"[run.signals]") {
        Confidence::Likely
    } else {
        Confidence::No
    }
}

/// Which files the runs of one observations file name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Runs, at least one.
    pub(crate) run_count: u32,
    /// Run and file, for files that exist.
    pub(crate) files: Vec<(u32, String)>,
}

/// Finds the files that runs name beside the observations.
pub(crate) fn claims(input: &mut Input<'_>, folder: Option<&Path>) -> Claims {
    let text = whole_text(input);
    let (root, _) = DeTable::parse_recoverable(&text);
    let mut claims = Claims { run_count: 1, files: Vec::new() };
    for (run, table) in runs(root.get_ref()).into_iter().enumerate() {
        claims.run_count = run as u32 + 1;
        for (name, _) in file_names(table) {
            let exists = folder.unwrap_or(Path::new("")).join(&name).is_file();
            if is_beside(&name) && exists && !claims.files.contains(&(run as u32, name.clone())) {
                claims.files.push((run as u32, name));
            }
        }
    }
    claims
}

/// A file name that stays in the folder of the observations.
fn is_beside(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn whole_text(input: &mut Input<'_>) -> String {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    // An `Input` never fails; damage is told by its end.
    let _ = input.take(MAX_BYTES as u64).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The `[[run]]` tables in the order of the file.
fn runs<'t, 'i>(root: &'t DeTable<'i>) -> Vec<&'t DeTable<'i>> {
    let run = root.get("run").map(Spanned::get_ref);
    match run {
        Some(DeValue::Array(list)) => list.iter().filter_map(|entry| entry.get_ref().as_table()).collect(),
        Some(DeValue::Table(table)) => vec![table],
        _ => Vec::new(),
    }
}

/// File names of a run with their offsets in the text.
fn file_names(run: &DeTable<'_>) -> Vec<(String, usize)> {
    let Some(list) = run.get("files").and_then(|files| files.get_ref().as_array()) else { return Vec::new() };
    list.iter().filter_map(|file| Some((file.get_ref().as_str()?.to_string(), file.span().start))).collect()
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let text = whole_text(input);
    builder.facts.typed = true;
    builder.facts.simulated |= text.lines().any(|line| line.starts_with("# inferoscope: simulated"));
    let (root, errors) = DeTable::parse_recoverable(&text);
    let line_ends = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
    let mut reader = Reader { line_ends, builder, run_idx: 0, engine: String::new(), unknown: 0, typed: Vec::new() };
    for error in errors.iter().take(16) {
        let at = error.span().map_or(0, |span| span.start);
        reader.error("damaged_toml", at, format!("expected TOML, found a mistake: {}", error.message().replace('\n', " ")));
    }
    reader.root(root.get_ref());
}

/// The reader's place: line ends for line numbers, and the run being read.
struct Reader<'r, 'b> {
    line_ends: Vec<usize>,
    builder: &'r mut Builder<'b>,
    run_idx: u32,
    engine: String,
    unknown: u32,
    /// Exact values of the run or sweep row being read.
    typed: Vec<TypedValue>,
}

impl Reader<'_, '_> {
    fn line(&self, offset: usize) -> u64 {
        self.line_ends.partition_point(|end| *end < offset) as u64 + 1
    }

    fn place(&self, offset: usize) -> String {
        format!("line {}", self.line(offset))
    }

    /// The valid signal nearest to an unknown one, for a bounded number of them.
    fn nearest_signal(&mut self, name: &str) -> String {
        self.unknown += 1;
        if self.unknown > MAX_NEAREST { "not looked up".to_string() } else { capture::signals::nearest(name) }
    }

    fn error(&mut self, code: &'static str, offset: usize, sentence: impl Into<String>) {
        let place = self.place(offset);
        self.builder.mark_damaged();
        self.builder.issue(Severity::Error, code, &place, 1, sentence);
    }

    fn note(&mut self, code: &'static str, offset: usize, sentence: impl Into<String>) {
        let place = self.place(offset);
        self.builder.issue(Severity::Note, code, &place, 1, sentence);
    }

    fn warn(&mut self, code: &'static str, offset: usize, sentence: impl Into<String>) {
        let place = self.place(offset);
        self.builder.issue(Severity::Warning, code, &place, 1, sentence);
    }

    fn root(&mut self, root: &DeTable<'_>) {
        self.check_keys(root, &["schema", "subject", "complaint", "run"], "the file");
        match root.get("schema") {
            Some(schema) if schema.get_ref().as_str() == Some(SCHEMA) => {}
            Some(schema) => {
                let found = schema.get_ref().as_str().unwrap_or("something else").to_string();
                self.error(
                    "unknown_schema",
                    schema.span().start,
                    format!("expected schema `{SCHEMA}`, found `{found}`; it is read as `{SCHEMA}`"),
                );
            }
            None => self.error("unknown_schema", 0, format!("expected `schema = \"{SCHEMA}\"`, found none; it is read as such")),
        }
        if let Some(subject) = self.table(root, "subject") {
            self.subject(subject);
        }
        if let Some(complaint) = self.table(root, "complaint") {
            self.complaint(complaint);
        }
        let runs = runs(root);
        if runs.is_empty() {
            self.error("no_run", 0, "expected at least one `[[run]]`, found none");
        }
        for (at, run) in runs.into_iter().enumerate() {
            self.run_idx = self.builder.context.run_idx + at as u32;
            self.run(run);
        }
    }

    fn table<'t, 'i>(&mut self, parent: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
        let value = parent.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.error("wrong_type", value.span().start, format!("expected `{key}` to be a table, found {}", value.get_ref().type_str()));
        }
        table
    }

    fn check_keys(&mut self, table: &DeTable<'_>, known: &[&str], of: &str) {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let nearest = nearest_of(name, known);
                self.error("unknown_key", key.span().start, format!("`{name}` is no key of {of}; the nearest is `{nearest}`"));
            }
        }
    }

    /// Text of a key, numbers included.
    fn text_of(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        let value = table.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(number.as_str().to_string()),
            DeValue::Float(number) => Some(number.as_str().to_string()),
            other => {
                let found = other.type_str();
                self.error("wrong_type", value.span().start, format!("expected text for `{key}`, found {found}"));
                None
            }
        }
    }

    fn subject(&mut self, subject: &DeTable<'_>) {
        self.check_keys(subject, &["engine", "engine_version", "model", "gpu", "gpu_count", "model_config"], "`subject`");
        let mut get = |key: &str| self.text_of(subject, key).map(|text| crate::secrets::redact(&text).into_owned()).unwrap_or_default();
        let (engine, version, model, gpu, count) = (get("engine"), get("engine_version"), get("model"), get("gpu"), get("gpu_count"));
        self.engine.clone_from(&engine);
        if matches!(version.as_str(), "V0" | "V1") {
            self.builder.facts.generation.clone_from(&version);
        }
        let target = &mut self.builder.capture.manifest.subject;
        target.engine_from = if engine.is_empty() { String::new() } else { "typed".to_string() };
        (target.engine, target.engine_version, target.model, target.device) = (engine, version, model, gpu);
        match count.parse::<u32>() {
            Ok(count) => self.builder.capture.manifest.subject.device_count = count,
            Err(_) if count.is_empty() => {}
            Err(_) => {
                let at = subject.get("gpu_count").map_or(0, |value| value.span().start);
                self.error("impossible_value", at, format!("expected a whole number for `gpu_count`, found `{count}`"));
            }
        }
        self.run_idx = self.builder.context.run_idx;
        if let Some(config) = self.table(subject, "model_config") {
            self.model_config(config);
        }
    }

    /// A model's own numbers, under our names or those of a `config.json`.
    fn model_config(&mut self, config: &DeTable<'_>) {
        for (key, value) in in_order(config) {
            let name = key.get_ref().as_ref();
            let ours = MODEL_KEYS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| *ours);
            let signal = if ours.starts_with("model.") { ours.to_string() } else { format!("model.{ours}") };
            if capture::signals::resolve(&signal).is_some() {
                self.signal(&signal, key.span().start, value, NO_POINT, &[]);
            } else {
                self.note("unused_key", key.span().start, format!("`{name}` is no property of a model that is used here; it is left out"));
            }
        }
    }

    fn complaint(&mut self, complaint: &DeTable<'_>) {
        self.check_keys(complaint, &["symptom", "signal"], "`complaint`");
        if let Some(symptom) = self.text_of(complaint, "symptom") {
            if SYMPTOMS.contains(&symptom.as_str()) {
                self.builder.capture.manifest.subject.stated_symptom = symptom;
            } else {
                let at = complaint.get("symptom").map_or(0, |value| value.span().start);
                let nearest = nearest_of(&symptom, SYMPTOMS);
                self.error("unknown_symptom", at, format!("`{symptom}` is no symptom; the nearest is `{nearest}`"));
            }
        }
        if let Some(signal) = self.text_of(complaint, "signal") {
            if capture::signals::resolve(&signal).is_some() {
                self.builder.capture.manifest.subject.stated_signal = signal;
            } else {
                let at = complaint.get("signal").map_or(0, |value| value.span().start);
                let nearest = self.nearest_signal(&signal);
                self.error("unknown_signal", at, format!("`{signal}` is no signal; the nearest is `{nearest}`"));
            }
        }
    }

    fn run(&mut self, run: &DeTable<'_>) {
        self.check_keys(run, &["name", "changed", "flags", "env", "files", "note", "signals", "sweep", "subject"], "`run`");
        let mut get = |key: &str| self.text_of(run, key).unwrap_or_default();
        let (name, changed, flags, env, note) = (get("name"), get("changed"), get("flags"), get("env"), get("note"));
        let device = self.run_subject(run);
        self.command(run, &env, "env");
        self.command(run, &flags, "flags");
        let words = shell::words(&flags);
        let row = Run {
            run_idx: self.run_idx,
            name: self.builder.intern(&crate::secrets::redact(&name)),
            changed: self.builder.intern(&crate::secrets::redact(&changed)),
            flags: self.builder.intern(&crate::secrets::redact_command(&words)),
            varied_signal: capture::Name::EMPTY,
            device: self.builder.intern(&device),
        };
        self.builder.capture.tables.runs.push(row);
        if !note.is_empty() {
            let note = Note {
                run_idx: self.run_idx,
                text: self.builder.intern(&crate::secrets::redact(&note)),
                source_idx: self.builder.source(),
            };
            self.builder.capture.tables.notes.push(note);
        }
        self.files(run);
        if let Some(signals) = self.table(run, "signals") {
            for (key, value) in in_order(signals) {
                self.signal(key.get_ref(), key.span().start, value, NO_POINT, &[]);
            }
            self.check_pairs();
        }
        self.sweep(run);
    }

    /// What a run states of its own subject; the device is returned, the rest becomes settings.
    fn run_subject(&mut self, run: &DeTable<'_>) -> String {
        let Some(subject) = self.table(run, "subject") else { return String::new() };
        self.check_keys(subject, &["engine", "engine_version", "model", "gpu", "gpu_count"], "`run.subject`");
        for key in ["engine", "engine_version", "model", "gpu_count"] {
            if let Some(value) = self.text_of(subject, key) {
                let line = subject.get(key).map_or(0, |value| self.line(value.span().start));
                self.setting(&format!("config.{key}"), &value, "typed", line);
            }
        }
        self.text_of(subject, "gpu").unwrap_or_default()
    }

    fn command(&mut self, run: &DeTable<'_>, text: &str, key: &str) {
        let Some(value) = run.get(key).filter(|_| !text.trim().is_empty()) else { return };
        let words = shell::words(text);
        let line = self.line(value.span().start);
        let rows = self.builder.capture.tables.settings.run_idx.len();
        command_txt::add_environment(&words, "", line, self.builder);
        if key == "flags" {
            match engines::of_command(text).or_else(|| engines::find(&self.engine)) {
                Some(engine) => engines::add_flags(self.builder, engine, &words, "", "command line", line),
                None => self.note(
                    "flags_not_read",
                    value.span().start,
                    format!("no flag importer for engine `{}`; the flags are kept as text", self.engine),
                ),
            }
        }
        let run_idx = self.run_idx;
        self.builder.capture.tables.settings.run_idx[rows..].fill(run_idx);
    }

    fn setting(&mut self, key: &str, value: &str, origin: &str, line: u64) {
        let value = crate::secrets::redact(value).into_owned();
        self.builder.setting("", key, &value, origin, line);
        if let Some(run_idx) = self.builder.capture.tables.settings.run_idx.last_mut() {
            *run_idx = self.run_idx;
        }
    }

    fn files(&mut self, run: &DeTable<'_>) {
        if let Some(files) = run.get("files")
            && files.get_ref().as_array().is_none()
        {
            self.error(
                "wrong_type",
                files.span().start,
                format!("expected a list of file names for `files`, found {}", files.get_ref().type_str()),
            );
        }
        for (name, at) in file_names(run) {
            if !is_beside(&name) {
                self.error("file_outside", at, format!("expected a file beside this one, found `{name}`; it is not read"));
            } else if !self.builder.context.beside.contains(&name) {
                self.error("file_missing", at, format!("expected the file `{name}` beside this one, found none"));
            }
        }
    }
}

/// Entries in the order of the file.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Spanned<toml::de::DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn nearest_of<'k>(name: &str, known: &[&'k str]) -> &'k str {
    known.iter().copied().min_by_key(|candidate| (capture::signals::edit_distance(candidate, name), *candidate)).unwrap_or_default()
}

/// Keys of a model's `config.json` and ours.
const MODEL_KEYS: &[(&str, &str)] = &[
    ("num_hidden_layers", "layers"),
    ("hidden_size", "hidden"),
    ("num_attention_heads", "heads"),
    ("num_key_value_heads", "kv_heads"),
    ("vocab_size", "vocab"),
    ("num_experts", "experts"),
    ("num_local_experts", "experts"),
    ("n_routed_experts", "experts"),
    ("num_experts_per_tok", "experts_per_token"),
];
