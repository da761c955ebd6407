//! The allow list: which breaches are meant, and why.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use toml::{Table, Value};

use super::Breach;

/// Complaints that remain: breaches without an entry, entries without a reason, entries without a breach.
pub(super) fn left_over(list: &Path, breaches: Vec<Breach>) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(list).with_context(|| format!("could not read `{}`", list.display()))?;
    let table: Table = text.parse().with_context(|| format!("could not parse `{}`", list.display()))?;
    let entries: Vec<Entry> = table.get("allow").and_then(Value::as_array).into_iter().flatten().map(Entry::read).collect();
    Ok(compare(&entries, breaches))
}

struct Entry {
    rule: String,
    what: String,
    reason: String,
}

impl Entry {
    fn read(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        Self { rule: text("rule"), what: text("what"), reason: text("reason") }
    }

    fn covers(&self, breach: &Breach) -> bool {
        self.rule == breach.rule && self.what == breach.what
    }
}

fn compare(entries: &[Entry], breaches: Vec<Breach>) -> Vec<String> {
    let mut complaints = Vec::new();
    for entry in entries {
        let name = format!("tidy-allow.toml: {} {}", entry.rule, entry.what);
        if entry.reason.split_whitespace().count() < 3 {
            complaints.push(format!("{name}: expected a reason"));
        }
        if !breaches.iter().any(|breach| entry.covers(breach)) {
            complaints.push(format!("{name}: nothing needs this exception"));
        }
    }
    let is_meant = |breach: &Breach| entries.iter().any(|entry| entry.covers(breach));
    complaints.extend(breaches.into_iter().filter(|breach| !is_meant(breach)).map(|breach| breach.to_string()));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_needs_a_reason_and_a_breach() {
        let entry = |what: &str, reason: &str| Entry { rule: "file-length".into(), what: what.into(), reason: reason.into() };
        let breach = |what: &str| Breach { rule: "file-length", what: what.into(), found: "700 lines".into() };
        let entries = [entry("a.rs", "one flat table"), entry("b.rs", "because"), entry("c.rs", "was long once")];
        let complaints = compare(&entries, vec![breach("a.rs"), breach("b.rs"), breach("d.rs")]);
        assert_eq!(
            complaints,
            [
                "tidy-allow.toml: file-length b.rs: expected a reason",
                "tidy-allow.toml: file-length c.rs: nothing needs this exception",
                "d.rs: 700 lines [file-length]",
            ]
        );
    }
}
