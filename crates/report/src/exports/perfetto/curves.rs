//! Curves: every gauge with a time, a group per vantage (`gpu`, `engine`, `kv`, ...).

use std::collections::HashMap;
use std::io;

use capture::signals::{self, Kind};
use capture::{Capture, Name, labels};

use super::super::arm_prefix;
use super::lanes::Scene;
use super::sink::Sink;

/// What a curve is drawn of: arm, signal, labels.
type Key = (u32, Name, Name);

/// Writes them.
pub(super) fn write<S: Sink>(capture: &Capture, scene: &mut Scene<S>) -> io::Result<()> {
    let samples = &capture.tables.samples;
    let mut groups: HashMap<(u32, &str), u32> = HashMap::new();
    // `None`: a signal that is not drawn.
    let mut tracks: HashMap<Key, Option<u64>> = HashMap::new();
    for at in 0..samples.t_ns.len() {
        let key = (samples.run_idx[at], samples.signal[at], samples.labels[at]);
        if samples.t_ns[at] == 0 {
            continue; // typed, without a time
        }
        let track = match tracks.get(&key) {
            Some(&track) => track,
            None => *tracks.entry(key).or_insert(open(capture, key, &mut groups, scene)?),
        };
        if let Some(track) = track {
            scene.value(track, samples.t_ns[at], samples.value[at])?;
        }
    }
    Ok(())
}

fn open<'a, S: Sink>(
    capture: &'a Capture,
    (run, signal, label_text): Key,
    groups: &mut HashMap<(u32, &'a str), u32>,
    scene: &mut Scene<S>,
) -> io::Result<Option<u64>> {
    let name = capture.text(signal);
    let Some(resolved) = signals::resolve(name).filter(|resolved| resolved.signal.kind == Kind::Gauge) else { return Ok(None) };
    let vantage = name.split('.').next().unwrap_or_default();
    let group = match groups.get(&(run, vantage)) {
        Some(&group) => group,
        None => *groups.entry((run, vantage)).or_insert(scene.group(None, &format!("{}{vantage} gauges", arm_prefix(capture, run)))?),
    };
    let about: Vec<String> = labels::pairs(capture.text(label_text)).into_iter().map(|(key, value)| format!("{key} {value}")).collect();
    let title = if about.is_empty() { name.to_string() } else { format!("{name}, {}", about.join(", ")) };
    scene.curve(group, &title, resolved.unit().as_str()).map(Some)
}
