//! How tests show a capture, and where their fixtures are.

use std::path::{Path, PathBuf};

use capture::{Capture, Name};
use expect_test::Expect;
use ingest::Options;

/// A fixture's path.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Imports paths with the usual limits.
pub(crate) fn import(paths: &[PathBuf]) -> Capture {
    ingest::read(paths, &Options::default()).unwrap()
}

/// Imports one text.
pub(crate) fn import_text(name: &str, text: &str) -> Capture {
    ingest::read_bytes(name, text.as_bytes(), &Options::default())
}

type Shown = fn(&Capture) -> String;

/// How each table is shown.
const TABLES: &[(&str, Shown)] = &[
    ("subject", subject),
    ("sources", sources),
    ("clocks", clocks),
    ("runs", runs),
    ("points", points),
    ("samples", samples),
    ("histograms", histograms),
    ("requests", requests),
    ("spans", spans),
    ("stacks", stacks),
    ("settings", settings),
    ("logs", logs),
    ("counts", counts),
];

/// The rows of the named tables, one per line, and always the issues.
pub(crate) fn show(capture: &Capture, tables: &[&str]) -> String {
    let of = |table: &&str| TABLES.iter().find(|(name, _)| name == table).unwrap().1(capture);
    let shown: String = tables.iter().map(of).collect();
    shown + &issues(capture)
}

/// One line per item.
fn lines<T>(items: impl IntoIterator<Item = T>, line: impl Fn(T) -> String) -> String {
    items.into_iter().map(|item| line(item) + "\n").collect()
}

fn join(capture: &Capture, names: &[Name], between: &str) -> String {
    names.iter().map(|name| capture.text(*name)).collect::<Vec<_>>().join(between)
}

fn subject(capture: &Capture) -> String {
    let it = &capture.manifest.subject;
    let engine = [&it.engine, &it.engine_version, &it.engine_from, &it.model, &it.device, &it.provenance].map(String::as_str);
    let form = [&it.engine_form, &it.engine_form_from, &it.message_channel, &it.scheduling_process].map(String::as_str);
    format!("subject {}\nform {}\n", engine.join(" | "), form.join(" | "))
}

fn sources(capture: &Capture) -> String {
    lines(&capture.manifest.sources, |it| {
        let damaged = if it.damaged { " damaged" } else { "" };
        format!("source {} {} rows={} unmapped={}{damaged}", it.name, it.format, it.row_count, it.unmapped_count)
    })
}

fn clocks(capture: &Capture) -> String {
    lines(&capture.manifest.clocks, |it| format!("clock {} {} {} ±{} {}", it.source, it.domain, it.offset_ns, it.error_ns, it.method))
}

fn runs(capture: &Capture) -> String {
    lines(capture.tables.runs.rows(), |it| {
        format!("run {} {}", it.run_idx, join(capture, &[it.name, it.changed, it.flags, it.varied_signal, it.device], " | "))
    })
}

fn points(capture: &Capture) -> String {
    lines(capture.tables.points.rows(), |it| format!("point {}.{} {}", it.run_idx, it.point_idx, it.varied_value))
}

fn samples(capture: &Capture) -> String {
    lines(capture.tables.samples.rows(), |it| {
        let place = if it.point_idx < 0 { format!("{}", it.run_idx) } else { format!("{}.{}", it.run_idx, it.point_idx) };
        format!("{} {place} {}{{{}}} {}", it.t_ns, capture.text(it.signal), capture.text(it.labels), it.value)
    })
}

fn histograms(capture: &Capture) -> String {
    lines(capture.tables.histograms.rows(), |it| {
        let name = format!("{}{{{}}}", capture.text(it.signal), capture.text(it.labels));
        format!("{} {name} sum={} count={} {:?} {:?}", it.t_ns, it.sum, it.count, it.bounds, it.cumulative)
    })
}

fn requests(capture: &Capture) -> String {
    lines(capture.tables.requests.rows(), |it| {
        let since = |t: Option<i64>| t.map_or("-".to_string(), |t| format!("{:.5}", (t - it.t_sent_ns) as f64 / 1e9));
        let times = [it.t_intended_ns, it.t_connected_ns, it.t_upstream_sent_ns, it.t_upstream_first_ns, it.t_first_content_ns];
        let times: Vec<String> = times.into_iter().chain([it.t_last_token_ns, it.t_done_ns]).map(since).collect();
        let texts = join(capture, &[it.vantage, it.request_id, it.class, it.replica, it.finish], ",");
        format!("{} {texts} {} {:?}/{:?}", it.t_sent_ns, times.join(" "), it.tokens_in, it.tokens_out)
    })
}

fn spans(capture: &Capture) -> String {
    lines(capture.tables.spans.rows(), |it| {
        let texts = join(capture, &[it.trace_id, it.span_id, it.parent_id, it.name, it.request_id], " | ");
        format!("span {}+{} {texts}", it.t_start_ns, it.t_end_ns - it.t_start_ns)
    })
}

fn stacks(capture: &Capture) -> String {
    lines(capture.tables.stacks.rows(), |it| {
        format!("stack {} {} x{} {}", capture.text(it.role), capture.text(it.state), it.weight, capture.text(it.folded))
    })
}

fn settings(capture: &Capture) -> String {
    lines(capture.tables.settings.rows(), |it| {
        format!("set {} {} (line {})", it.run_idx, join(capture, &[it.replica, it.key, it.value, it.origin], " | "), it.line)
    })
}

fn logs(capture: &Capture) -> String {
    lines(capture.tables.logs.rows(), |it| format!("{} {}", it.t_ns, join(capture, &[it.level, it.file, it.kind, it.fields], " ")))
}

fn counts(capture: &Capture) -> String {
    let filled = capture.tables.row_counts().into_iter().filter(|(_, rows)| *rows > 0);
    filled.map(|(name, rows)| format!("{name}={rows}")).collect::<Vec<_>>().join(" ") + "\n"
}

fn issues(capture: &Capture) -> String {
    lines(capture.tables.issues.rows(), |it| {
        let texts = join(capture, &[it.severity, it.code, it.source], " ");
        format!("! {texts} [{}] x{} {}", capture.text(it.place), it.count, capture.text(it.sentence))
    })
}

/// Compares what is shown with what is expected.
pub(crate) fn check(capture: &Capture, tables: &[&str], expected: Expect) {
    expected.assert_eq(&show(capture, tables));
}
