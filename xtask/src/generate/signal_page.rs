//! `docs/signals.md` from the vocabulary.

use capture::signals::{SIGNALS, STATISTICS, Signal};

use super::NOTICE;

/// What a vantage measures, in the order of the page.
const VANTAGES: &[(&str, &str)] = &[
    ("client", "what the caller saw"),
    ("gateway", "a proxy or router between caller and server"),
    ("server", "the API process"),
    ("engine", "the inference core"),
    ("kv", "the KV cache"),
    ("spec", "speculative decoding"),
    ("gpu", "device counters"),
    ("kernel", "the device timeline"),
    ("comm", "collectives between devices"),
    ("proc", "a process or thread of the host"),
    ("host", "the machine"),
    ("bench", "one operator alone on this host"),
    ("config", "effective settings"),
    ("model", "the served model"),
];

/// The whole page.
pub(super) fn render() -> String {
    let mut page = format!(
        "{NOTICE}\n# Signals\n\nA signal is one measured quantity with one name, one unit and one resource dimension. A name is \
         `vantage.quantity`, and may end in a statistic: {}. It may carry the labels listed.\n",
        STATISTICS.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    );
    for (vantage, meaning) in VANTAGES {
        page.push_str(&format!(
            "\n## {vantage}: {meaning}\n\n| signal | unit | kind | dimension | labels | meaning |\n|---|---|---|---|---|---|\n"
        ));
        SIGNALS.iter().filter(|signal| vantage_of(signal) == *vantage).for_each(|signal| page.push_str(&row(signal)));
    }
    page
}

fn vantage_of(signal: &Signal) -> &'static str {
    signal.name.split('.').next().unwrap_or_default()
}

fn row(signal: &Signal) -> String {
    let derived = if signal.derived { " (derived)" } else { "" };
    let cells = [
        format!("`{}`", signal.name),
        signal.unit.as_str().to_string(),
        format!("{}{derived}", signal.kind.as_str()),
        signal.dimension.as_str().to_string(),
        signal.labels.join(", "),
        signal.meaning.to_string(),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_stands_on_the_page_once() {
        let page = render();
        for signal in SIGNALS {
            assert_eq!(page.matches(&format!("\n| `{}` |", signal.name)).count(), 1, "{}", signal.name);
        }
    }
}
