//! Where the time went: the parts of a request with bars and, where request rows exist, the slow tail beside them.
//!
//! Neighbors of one layer below 2 % share a line. Devices that were recorded stand below, in lines of the same form.

use analysis::contract::{Accounts, Report, RequestPart, TailRule};

use super::devices;
use super::screen::{Screen, Style};
use crate::wrap::NO_BREAK;
use crate::{clean, figures, phrases};

/// Width of a part's label: usually, and at most.
const PART: [usize; 2] = [15, 21];
/// Columns the table takes at most: figures far apart are hard to read together.
const WIDE: usize = 80;
/// A part below this share joins a small neighbor's line.
const SMALL: f64 = 0.02;
/// Width of a share, the space before it included.
const SHARE: usize = 6;
/// Bar cells of a whole, the most that fit are taken.
const BARS: [usize; 5] = [20, 16, 12, 10, 8];

/// Where the columns behind the seconds lie.
#[derive(Clone, Copy)]
struct Columns {
    /// Width of the labels.
    label: usize,
    /// Bar cells of a whole.
    bar: usize,
    /// Where bar and remark must end.
    limit: usize,
    /// Where the tail's share ends, where there is a tail.
    tail_end: Option<usize>,
}

/// One line of the table.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) mean_s: f64,
    pub(super) share: f64,
    pub(super) tail_share: Option<f64>,
    pub(super) remark: String,
}

pub(super) fn write(screen: &mut Screen, report: &Report) {
    let accounts = &report.accounts;
    if !accounts.request.is_empty() {
        write_requests(screen, report);
    }
    devices::write(screen, &accounts.device);
}

fn write_requests(screen: &mut Screen, report: &Report) {
    let accounts = &report.accounts;
    let tail = accounts.tail_rule.as_ref().filter(|_| accounts.request.iter().any(|part| part.tail.is_some()));
    let tail_end = write_header(screen, report, tail);
    let lines = lines(&accounts.request);
    write_lines(screen, &lines, whole_s(accounts), tail_end);
    if tail.is_none() {
        screen.remark(2, "slowest requests not shown: nothing here splits their time");
    }
}

/// Lines under one another: label, seconds, share, bar, remark, and the tail's share where there is a tail.
pub(super) fn write_lines(screen: &mut Screen, lines: &[Line], whole_s: f64, tail_end: Option<usize>) {
    let cells: Vec<String> = lines.iter().map(|line| figures::part_of(line.mean_s, whole_s, "s")).collect();
    let wide = cells.iter().map(|cell| clean::columns(cell)).max().unwrap_or(0);
    let label = lines.iter().map(|line| clean::columns(&line.label)).max().unwrap_or(0).max(PART[0]);
    let head = label + 3 + wide + SHARE + 2;
    let limit = tail_end.map_or(screen.width().min(WIDE), |end| end.saturating_sub(SHARE));
    let columns = Columns { label, bar: bar_cells(lines, limit.saturating_sub(head)), limit, tail_end };
    for (line, cell) in lines.iter().zip(&cells) {
        write_line(screen, line, &format!("{cell:>wide$}"), columns);
    }
}

/// Cells of a whole bar: as many as leave room for every remark behind its bar, if some number does.
fn bar_cells(lines: &[Line], room: usize) -> usize {
    let fits = |cells: &usize| {
        let used = |line: &Line| (line.share.clamp(0.0, 1.0) * *cells as f64).ceil() as usize + 2 + clean::columns(&line.remark);
        lines.iter().filter(|line| !line.remark.is_empty()).all(|line| used(line) <= room)
    };
    BARS.into_iter().filter(|cells| *cells <= room).find(fits).unwrap_or(BARS[0].min(room))
}

/// The mean whole request; the sum of the parts where it is not given.
fn whole_s(accounts: &Accounts) -> f64 {
    accounts.request_mean_s.unwrap_or_else(|| accounts.request.iter().map(|part| part.mean_s).sum())
}

/// The line above the table; answers where the tail's share column ends.
fn write_header(screen: &mut Screen, report: &Report, tail: Option<&TailRule>) -> Option<usize> {
    let accounts = &report.accounts;
    let mut left = format!("where {} went", figures::seconds(whole_s(accounts)));
    if accounts.request_count > 0 {
        let during = phrases::window_s(report).map(|window_s| format!(" in {}", figures::duration(window_s)));
        left =
            format!("{left}{NO_BREAK}{NO_BREAK} mean of {} requests{}", figures::count(accounts.request_count), during.unwrap_or_default());
    }
    let Some(rule) = tail else {
        screen.text(&left, Style::Plain);
        return None;
    };
    let group = format!("slowest {}", figures::share(1.0 - rule.quantile));
    let right = format!("{group}: {}", figures::seconds(rule.mean_s));
    let start = screen.width().min(WIDE).saturating_sub(clean::columns(&right));
    let used = clean::columns(&left);
    if used + 3 <= start {
        let left = left.replace(NO_BREAK, " ");
        screen.row(&[(&left, Style::Plain), (&" ".repeat(start - used), Style::Plain), (&right, Style::Plain)]);
    } else {
        screen.text(&left, Style::Plain);
        screen.row(&[(&" ".repeat(start), Style::Plain), (&right, Style::Plain)]);
    }
    Some(start + clean::columns(&group))
}

fn write_line(screen: &mut Screen, line: &Line, seconds: &str, columns: Columns) {
    let pad = " ".repeat(columns.label.saturating_sub(clean::columns(&line.label)));
    let head = format!("  {}{pad} {seconds}{:>SHARE$}  ", line.label, figures::share_cell(line.share));
    let bar = bar(line.share, columns.bar, screen.blocks());
    let mut used = clean::columns(&head) + clean::columns(&bar);
    let gap = if bar.is_empty() { 0 } else { 2 };
    let fits = !line.remark.is_empty() && used + gap + clean::columns(&line.remark) <= columns.limit;
    let beside = if fits { format!("{}{}", " ".repeat(gap), line.remark) } else { String::new() };
    used += clean::columns(&beside);
    let tail = line.tail_share.zip(columns.tail_end).map_or(String::new(), |(share, end)| {
        let cell = figures::share_cell(share);
        format!("{:>width$}", cell, width = end.saturating_sub(used))
    });
    screen.row(&[(&head, Style::Plain), (&bar, Style::Plain), (&beside, Style::Faint), (&tail, Style::Plain)]);
    if !fits && !line.remark.is_empty() {
        screen.remark(4, &line.remark);
    }
}

/// A bar of `share` of `full` cells; eighths of a cell where block characters may be used.
fn bar(share: f64, full: usize, blocks: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let cells = share.clamp(0.0, 1.0) * full as f64;
    if !cells.is_finite() {
        return String::new();
    }
    if !blocks {
        return "#".repeat(cells.round() as usize);
    }
    let eighths = (cells * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Parts as lines; small neighbors of one layer share one.
fn lines(parts: &[RequestPart]) -> Vec<Line> {
    let mut groups: Vec<Vec<&RequestPart>> = Vec::new();
    let small = |part: &RequestPart| part.share < SMALL && part.remark.is_empty() && part.part != "unattributed";
    for part in parts {
        match groups.last_mut() {
            Some(group) if small(part) && group.iter().all(|other| small(other) && other.layer == part.layer) => group.push(part),
            _ => groups.push(vec![part]),
        }
    }
    groups.iter().map(|group| line(group)).collect()
}

fn line(group: &[&RequestPart]) -> Line {
    let names: Vec<String> = group.iter().map(|part| clean::name(&part.part, PART[0])).collect();
    let label = match names.join(", ") {
        label if clean::columns(&label) <= PART[0] => label,
        _ => format!("{} to {}", names[0], names[names.len() - 1]),
    };
    let tail_share = group.iter().filter_map(|part| part.tail.as_ref()).map(|tail| tail.share);
    Line {
        label: clean::name(&label, PART[1]),
        mean_s: group.iter().map(|part| part.mean_s).sum(),
        share: group.iter().map(|part| part.share).sum(),
        tail_share: group.iter().any(|part| part.tail.is_some()).then(|| tail_share.sum()),
        remark: clean::short(&group[0].remark, phrases::NAME_LIMIT),
    }
}
