//! A text to paste into an issue: the diagnosis complete, in the order of the first screen.
//!
//! Whoever reads the issue may not trust whoever wrote the metrics, so markup, mentions and table bars in strings are
//! escaped, and names stand in code spans.

mod details;
pub(crate) mod write;

use analysis::contract::{Report, Status};

use self::write::{Page, code, text};
use crate::{device_words, figures, phrases};

/// A diagnosis as GitHub Markdown.
pub fn render(report: &Report) -> String {
    let mut page = Page::default();
    write_verdict(&mut page, report);
    write_advice(&mut page, report);
    write_account(&mut page, report);
    details::write_path(&mut page, report);
    details::write_findings(&mut page, report);
    details::write_limits(&mut page, report);
    details::write_unknown(&mut page, report);
    details::write_cleared(&mut page, report);
    details::write_trust(&mut page, report);
    details::write_subject(&mut page, report);
    details::write_issues(&mut page, report);
    page.finish()
}

fn write_verdict(page: &mut Page, report: &Report) {
    let headline = phrases::headline(report);
    let name = if report.verdict.status == Status::Localized && report.verdict.check.is_some() {
        code(&headline.name)
    } else {
        text(&headline.name)
    };
    page.heading(1, &format!("{}: {name}", text(&headline.word)));
    let claim = match headline.claim.chars().next() {
        Some(first) => format!("**{}{}.** ", first.to_uppercase(), text(&headline.claim[first.len_utf8()..])),
        None => String::new(),
    };
    let sentence = phrases::sentence(&text(&report.verdict.sentence));
    page.paragraph(&format!("{claim}{sentence} {}", text(&phrases::since(report))));
    for caveat in phrases::caveats(report) {
        page.paragraph(&format!("> {}", text(&caveat)));
    }
    let facts = [phrases::subject(report), phrases::window(report)];
    page.paragraph(&facts.iter().filter(|fact| !fact.is_empty()).map(|fact| text(fact)).collect::<Vec<_>>().join("; "));
    if report.verdict.status == Status::Localized {
        let falsifier = text(&report.verdict.falsified_by);
        let next = report.verdict.next_suspect.as_deref().map(|next| format!(" Then suspect {}.", code(next)));
        if !falsifier.is_empty() {
            page.paragraph(&format!("What would prove this wrong: {}{}", phrases::sentence(&falsifier), next.unwrap_or_default()));
        }
    }
}

fn write_advice(page: &mut Page, report: &Report) {
    for advice in phrases::cause(report).iter().flat_map(|cause| &cause.hypotheses) {
        page.heading(2, &format!("Do: {} ({})", code(&phrases::change(&advice.change)), text(&advice.id)));
        let remarks = [phrases::present(&advice.change), phrases::interruption(&advice.change)];
        let remarks = remarks.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        page.paragraph(&phrases::sentence(&text(&remarks)));
        for (label, value) in [("Risk", &advice.risk), ("Undo if", &advice.undo_if)] {
            if !value.is_empty() {
                page.item(&format!("{label}: {}", text(value)));
            }
        }
        for (label, value) in [("Rollback", &advice.rollback), ("Versions", &advice.change.valid_for)] {
            if !value.is_empty() {
                page.item(&format!("{label}: {}", code(value)));
            }
        }
        let rows = advice.predictions.iter().map(|prediction| {
            let words = phrases::predicted(prediction);
            vec![text(&words.label), code(&prediction.signal), text(&words.from), text(&words.to), phrases::part(prediction).to_owned()]
        });
        page.table(&["expect", "signal", "now >", "after >", ""], rows.collect());
        if !advice.throughput.is_empty() {
            page.paragraph(&format!("Throughput: {}", phrases::sentence(&text(&advice.throughput))));
        }
    }
    let rows = report.futile.iter().map(|remedy| {
        let gain = remedy.gain_s.map(figures::seconds).unwrap_or_default();
        vec![text(&remedy.fix), text(&remedy.verdict.replace('_', " ")), gain, text(&remedy.price), text(&remedy.because)]
    });
    page.section(2, "What popular fixes would gain here", &["fix", "here", "gain per request >", "price", "because"], rows.collect());
}

fn write_account(page: &mut Page, report: &Report) {
    let accounts = &report.accounts;
    if !accounts.request.is_empty() {
        let whole_s = accounts.request_mean_s.unwrap_or_else(|| accounts.request.iter().map(|part| part.mean_s).sum());
        page.heading(2, &format!("Where {} went", figures::seconds(whole_s)));
        let during = phrases::window_s(report).map(|window_s| format!(" in {}", figures::duration(window_s))).unwrap_or_default();
        let vantage =
            Some(text(&phrases::seen(accounts))).filter(|seen| !seen.is_empty()).map_or(String::new(), |seen| format!(", {seen}"));
        let population = phrases::population(accounts).replacen("mean", "Mean", 1).replacen("one", "One", 1);
        page.paragraph(&format!("{population}{during}{vantage}."));
        let tail = accounts.tail_rule.as_ref().map(|rule| format!("slowest {} >", figures::share(1.0 - rule.quantile)));
        let mut head = vec!["part", "layer", "mean >", "share >"];
        head.extend(tail.as_deref());
        head.push("");
        let rows = accounts.request.iter().map(|part| {
            let layer = part.layer.map(|layer| layer.as_str().to_owned()).unwrap_or_default();
            let mut row = vec![text(&part.part), layer, figures::part_of(part.mean_s, whole_s, "s"), figures::share(part.share)];
            if tail.is_some() {
                let beside = part.tail.as_ref().map(|tail| format!("{}, {}", figures::seconds(tail.mean_s), figures::share(tail.share)));
                row.push(beside.unwrap_or_default());
            }
            row.push(text(&part.remark));
            row
        });
        page.table(&head, rows.collect());
        if tail.is_none() {
            page.paragraph("The slowest requests are not split: nothing here splits their time.");
        }
    }
    let rows = accounts.device.iter().flat_map(|device| {
        device_words::parts(device).into_iter().map(|part| {
            let share = part.ns as f64 / device.window_ns.max(1) as f64;
            let name = format!("{} {}", device.device, device.name);
            vec![text(name.trim()), text(part.name), figures::nanoseconds(part.ns), figures::share(share), text(&part.remark)]
        })
    });
    page.section(2, "Devices", &["device", "part", "time >", "share >", ""], rows.collect());
    let kernels = accounts.device.iter().flat_map(|device| {
        let rows = device_words::roofline_rows(&device.roofline).into_iter();
        rows.map(|row| std::iter::once(text(&device.device)).chain(row).collect())
    });
    let head = ["device", "kernels", "sizes", "time >", "FLOP >", "bytes >", "least >", "reached"];
    page.section(2, "Kernels against the device", &head, kernels.collect());
}
