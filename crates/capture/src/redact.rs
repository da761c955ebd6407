//! A capture that can be shown to strangers: numbers, settings and salted hashes, no text.
//!
//! Every text column of every table has a policy (`policy.rs`); one that none is written for is hashed, so a new column
//! is safe before anybody thinks of it. What is kept as it stands is the program's own vocabulary (`words.rs`) and numbers;
//! of a text in which verdicts look for words, those words stay beside its hash (`remnants.rs`).
//! The same text gets the same hash within one capture, so requests still join; the salt is the caller's and is not kept.
//! Times, token counts and sizes stay as they are: who must hide those must not hand out a recording.

mod policy;
mod remnants;
mod words;

use std::collections::HashMap;
use std::convert::Infallible;

use crate::capture::Capture;
use crate::content_hash::sha256_of;
use crate::ids::Name;
use crate::issues::Severity;
use crate::manifest::{Manifest, Subject};
use crate::names::Names;
use crate::signals::{SYMPTOMS, resolve};
use crate::tables::{Attachments, ColumnMut, Notes, Table, TableVisitor};

use policy::Policy;

/// What a redaction needs from its caller.
#[derive(Clone, Copy)]
pub struct Redaction<'a> {
    /// Random text, thrown away afterwards: without it no hash can be tested against a guess.
    pub salt: &'a str,
    /// The public name of a model everybody knows, for a name or path that means it.
    pub model: &'a dyn Fn(&str) -> Option<String>,
    /// The public name of a device everybody knows.
    pub device: &'a dyn Fn(&str) -> Option<String>,
    /// The words of the name of a kernel, call or range by which it is known; all of it where it is made of such words.
    pub event: &'a dyn Fn(&str) -> String,
}

impl std::fmt::Debug for Redaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redaction").finish_non_exhaustive()
    }
}

impl Capture {
    /// Replaces every text that a user, a host or a model may have put in. The capture is canonical afterwards.
    pub fn redact(&mut self, redaction: &Redaction<'_>) {
        self.tables.notes = Notes::default();
        self.tables.attachments = Attachments::default();
        // Block hashes are salted already, but with a salt that the original may share with other captures.
        for hash in &mut self.tables.prefix_blocks.hash {
            let salted = sha256_of(&[redaction.salt, &hash.to_string()]);
            *hash = i64::from_str_radix(&salted[..15], 16).unwrap_or_default();
        }
        let old = std::mem::take(&mut self.names);
        let mut redactor = Redactor { old: &old, new: Names::default(), redaction, done: HashMap::new() };
        redactor.settings(&mut self.tables.settings.key, &mut self.tables.settings.value);
        let Ok(()) = self.tables.visit(&mut redactor);
        self.names = redactor.new;
        self.manifest.redact(redaction);
        self.add_issue(Severity::Note, "redacted", "", "", 1, "texts were left out or hashed to make this capture shareable");
        self.canonicalize();
    }
}

impl Redaction<'_> {
    /// The same text always gets the same hash under one salt; nothing stays nothing.
    fn hash(&self, text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("x{}", &sha256_of(&[self.salt, text])[..12]) }
    }

    /// The same in digits, in which no number format or size can be read.
    fn number(&self, text: &str) -> String {
        let hashed = u64::from_str_radix(&sha256_of(&[self.salt, text])[..12], 16).unwrap_or_default();
        format!("{:08}", hashed % 100_000_000)
    }
}

/// True when `word` is still found in a text that held it, after redaction: what verdicts look for in names, in words that
/// tell runs apart and in values of settings must be.
pub fn keeps_word(word: &str) -> bool {
    words::holds(word)
}

/// The same for words that verdicts look for in the name of a model.
pub fn keeps_model_word(word: &str) -> bool {
    words::holds_for_model(word)
}

/// True when the kind of a log line, a label's value or the like is shown as it is.
pub fn keeps_kind(kind: &str) -> bool {
    words::kept(kind).is_some()
}

/// True when a setting of this key keeps its key.
pub fn keeps_setting(key: &str) -> bool {
    policy::is_known_key(key)
}

impl Manifest {
    fn redact(&mut self, redaction: &Redaction<'_>) {
        for source in &mut self.sources {
            source.name = redaction.hash(&source.name);
            source.hash = redaction.hash(&source.hash);
            source.content_hash = redaction.hash(&source.content_hash);
            source.format = words::kept(&source.format).map_or_else(|| redaction.hash(&source.format), str::to_string);
        }
        for clock in &mut self.clocks {
            clock.source = redaction.hash(&clock.source);
            clock.domain = words::phrase(&clock.domain);
            clock.method = String::new();
        }
        self.subject.redact(redaction);
    }
}

impl Subject {
    fn redact(&mut self, redaction: &Redaction<'_>) {
        let hash_unknown = |text: &str| words::kept(text).map_or_else(|| redaction.hash(text), str::to_string);
        self.engine = hash_unknown(&self.engine);
        self.engine_version = words::version(&self.engine_version);
        self.engine_from = words::phrase(&self.engine_from);
        self.engine_form = words::phrase(&self.engine_form);
        self.engine_form_from = words::phrase(&self.engine_form_from);
        self.message_channel = words::phrase(&self.message_channel);
        self.scheduling_process = words::phrase(&self.scheduling_process);
        self.model = remnants::model(&self.model, redaction);
        self.device = (redaction.device)(&self.device).unwrap_or_else(|| hash_unknown(&self.device));
        self.provenance = words::phrase(&self.provenance);
        if !SYMPTOMS.contains(&self.stated_symptom.as_str()) {
            self.stated_symptom.clear();
        }
        if resolve(&self.stated_signal).is_none() {
            self.stated_signal.clear();
        }
    }
}

struct Redactor<'a> {
    old: &'a Names,
    new: Names,
    redaction: &'a Redaction<'a>,
    done: HashMap<(Policy, Name), Name>,
}

impl Redactor<'_> {
    fn renamed(&mut self, policy: Policy, name: Name) -> Name {
        if let Some(&known) = self.done.get(&(policy, name)) {
            return known;
        }
        let text = policy.apply(self.old.text(name), self.redaction);
        let renamed = self.new.intern(&text);
        self.done.insert((policy, name), renamed);
        renamed
    }

    /// A value can only be judged beside its key.
    fn settings(&mut self, keys: &mut [Name], values: &mut [Name]) {
        for (key, value) in keys.iter_mut().zip(values) {
            let (key_text, value_text) = policy::setting(self.old.text(*key), self.old.text(*value), self.redaction);
            (*key, *value) = (self.new.intern(&key_text), self.new.intern(&value_text));
        }
    }
}

impl TableVisitor for Redactor<'_> {
    type Error = Infallible;

    fn visit<T: Table>(&mut self, table: &mut T) -> Result<(), Infallible> {
        for (column, values) in table.columns_mut() {
            let policy = policy::of(T::NAME, column);
            if let (ColumnMut::Name(names), Some(policy)) = (values, policy) {
                for name in names {
                    *name = self.renamed(policy, *name);
                }
            }
        }
        Ok(())
    }
}
