//! Metrics of different servers that nothing in their names tells apart.
//!
//! Two servers scraped into `a/metrics.prom` and `b/metrics.prom` would both be replica 0 and read as one engine. They
//! are told apart by what they serve, by the start of their process, and by totals that cannot be of one server.
//! Successive files of one server, or scrapes in a row of files, stay one replica.

use std::collections::{BTreeMap, BTreeSet};

use capture::{Capture, Name, Severity, labels};

use crate::builder::Built;

/// Metrics of one source that wait for those of the others.
pub(crate) struct Held {
    pub(crate) built: Built,
    /// Name of the source.
    pub(crate) name: String,
    /// The row of files the source belongs to; its own name for a file that stands alone.
    pub(crate) series: String,
    /// Replica label its rows carry.
    pub(crate) replica: String,
}

/// Totals by signal and labels: time and value.
type Totals = BTreeMap<(String, String), Vec<(i64, f64)>>;

#[derive(Default)]
struct Server {
    members: Vec<usize>,
    label: String,
    models: BTreeSet<String>,
    starts: BTreeSet<u64>,
    totals: Totals,
}

/// Gives every server among sources of one replica a label of its own, and tells it.
pub(crate) fn tell_apart(held: &mut [Held], total: &mut Capture) {
    let mut groups: BTreeMap<(u32, String), BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    for (at, source) in held.iter().enumerate() {
        let group = groups.entry((source.built.run_idx, source.replica.clone())).or_default();
        group.entry(source.series.clone()).or_default().push(at);
    }
    for ((_, replica), series) in groups {
        if series.len() < 2 {
            continue;
        }
        let mut servers: Vec<Server> = Vec::new();
        for (name, members) in series {
            let unit = server_of(held, name, members);
            match servers.iter_mut().find(|server| is_same(server, &unit)) {
                Some(server) => server.join(unit),
                None => servers.push(unit),
            }
        }
        if servers.len() < 2 {
            continue;
        }
        let names: Vec<String> = servers.iter().take(8).map(|server| format!("`{}`", server.label)).collect();
        let more = if servers.len() > names.len() { ", ..." } else { "" };
        let sentence = format!(
            "expected the metrics of one server as replica `{replica}`, found {} that differ in model, start of the process or totals; each is a \
             replica of its own: {}{more}",
            servers.len(),
            names.join(", ")
        );
        total.add_issue(Severity::Warning, "replicas_told_apart", &held[servers[0].members[0]].name, "", 1, &sentence);
        for server in servers {
            for at in server.members {
                relabel(&mut held[at].built, &server.label);
            }
        }
    }
}

fn server_of(held: &[Held], label: String, members: Vec<usize>) -> Server {
    let mut server = Server { label, ..Server::default() };
    for &at in &members {
        let capture = &held[at].built.capture;
        let model = &capture.manifest.subject.model;
        if !model.is_empty() {
            server.models.insert(model.clone());
        }
        let mut slots: BTreeMap<(Name, Name), Vec<(i64, f64)>> = BTreeMap::new();
        let start = capture.names.find("server.start_time");
        let counted: Vec<Name> = ["server.output_tokens_total", "server.prompt_tokens_total", "kv.preemptions"]
            .iter()
            .filter_map(|signal| capture.names.find(signal))
            .collect();
        let samples = &capture.tables.samples;
        for row in 0..samples.t_ns.len() {
            if Some(samples.signal[row]) == start {
                server.starts.insert(samples.value[row].to_bits());
            } else if counted.contains(&samples.signal[row]) {
                slots.entry((samples.signal[row], samples.labels[row])).or_default().push((samples.t_ns[row], samples.value[row]));
            }
        }
        for ((signal, labels), rows) in slots {
            let key = (capture.text(signal).to_string(), capture.text(labels).to_string());
            server.totals.entry(key).or_default().extend(rows);
        }
    }
    server.members = members;
    server
}

impl Server {
    fn join(&mut self, other: Self) {
        self.members.extend(other.members);
        self.models.extend(other.models);
        self.starts.extend(other.starts);
        for (key, rows) in other.totals {
            self.totals.entry(key).or_default().extend(rows);
        }
    }
}

fn is_same(one: &Server, other: &Server) -> bool {
    if !one.models.is_empty() && !other.models.is_empty() && one.models.is_disjoint(&other.models) {
        return false;
    }
    if !one.starts.is_empty() && !other.starts.is_empty() {
        return !one.starts.is_disjoint(&other.starts);
    }
    !one.totals.iter().any(|(key, rows)| other.totals.get(key).is_some_and(|others| is_conflict(rows, others)))
}

/// True when the totals of two sources, laid together, have two values at one time or fall more often than each does.
fn is_conflict(rows: &[(i64, f64)], others: &[(i64, f64)]) -> bool {
    let sorted = |mut rows: Vec<(i64, f64)>| {
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        rows
    };
    let falls = |rows: &[(i64, f64)]| rows.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    let doubled = |rows: &[(i64, f64)]| rows.windows(2).filter(|pair| pair[1].0 == pair[0].0 && pair[1].1 > pair[0].1).count();
    let (one, other) = (sorted(rows.to_vec()), sorted(others.to_vec()));
    let (Some(first), Some(last), Some(other_first), Some(other_last)) = (one.first(), one.last(), other.first(), other.last()) else {
        return false;
    };
    // One after the other is what a restart looks like.
    if last.0 < other_first.0 || other_last.0 < first.0 {
        return false;
    }
    let both = sorted(one.iter().chain(&other).copied().collect());
    falls(&both) > falls(&one) + falls(&other) || doubled(&both) > doubled(&one) + doubled(&other)
}

/// The labels with another replica, where they name one.
pub(crate) fn with_replica(capture: &mut Capture, labels: Name, replica: &str) -> Name {
    let pairs = labels::pairs(capture.text(labels));
    let pairs: Vec<(&str, &str)> =
        pairs.iter().map(|(key, value)| (key.as_str(), if key == "replica" { replica } else { value.as_str() })).collect();
    let text = labels::canonical(&pairs);
    capture.intern(&text)
}

fn relabel(built: &mut Built, replica: &str) {
    let capture = &mut built.capture;
    let mut renamed: BTreeMap<Name, Name> = BTreeMap::new();
    let used: BTreeSet<Name> = capture.tables.samples.labels.iter().chain(&capture.tables.histograms.labels).copied().collect();
    for name in used {
        renamed.insert(name, with_replica(capture, name, replica));
    }
    let own = capture.intern(replica);
    let tables = &mut capture.tables;
    for name in tables.samples.labels.iter_mut().chain(&mut tables.histograms.labels) {
        *name = renamed.get(name).copied().unwrap_or(*name);
    }
    tables.settings.replica.fill(own);
    let starts = std::mem::take(&mut built.facts.process_starts);
    built.facts.process_starts = starts.into_values().map(|start| (replica.to_string(), start)).collect();
}
