//! Where the time went, and the ceilings ahead.

use analysis::contract::{Accounts, Report, RequestPart};

use super::bars::{self, Segment};
use super::build::{Html, element, section as titled, stacking, table, text_element};
use crate::{clean, device_words, figures, phrases};

pub(super) fn section(report: &Report) -> Html {
    Html::join([requests(report), devices(&report.accounts)])
}

/// The mean request and its slow tail on one scale, then the figures.
fn requests(report: &Report) -> Html {
    let accounts = &report.accounts;
    if accounts.request.is_empty() {
        return Html::default();
    }
    let whole_s = accounts.request_mean_s.unwrap_or_else(|| accounts.request.iter().map(|part| part.mean_s).sum());
    let tail = accounts.tail_rule.as_ref().filter(|_| accounts.request.iter().any(|part| part.tail.is_some()));
    let longest_s = tail.map_or(whole_s, |rule| rule.mean_s.max(whole_s));
    let during = phrases::window_s(report).map(|window_s| format!(" in {}", figures::duration(window_s))).unwrap_or_default();
    let mut bars = vec![
        text_element("p", "bar-title", &format!("{}{during}: {}", phrases::population(accounts), figures::seconds(whole_s))),
        bars::stacked(
            &segments(&accounts.request, |part| Some((part.mean_s, part.share))),
            whole_s / longest_s,
            "parts of the mean request",
        ),
    ];
    if let Some(rule) = tail {
        let group = format!(
            "slowest {}, {} requests: {}",
            figures::share(1.0 - rule.quantile),
            figures::count(rule.n),
            figures::seconds(rule.mean_s)
        );
        let parts = segments(&accounts.request, |part| part.tail.as_ref().map(|tail| (tail.mean_s, tail.share)));
        bars.push(text_element("p", "bar-title", &group));
        bars.push(bars::stacked(&parts, rule.mean_s / longest_s, "parts of the slowest requests"));
    } else {
        bars.push(text_element("p", "aside", "The slowest requests are not split: nothing here splits their time."));
    }
    let rows = accounts.request.iter().map(|part| {
        let remark = Html::join([Html::markup(" "), text_element("small", "", &part.remark)]);
        let key = Html::join([element("i", class_of(&part.part), &Html::markup("")), Html::text(&part.part), remark]);
        let layer = part.layer.map_or("", |layer| layer.as_str());
        let mut row = vec![
            key,
            Html::text(layer),
            Html::text(&figures::part_of(part.mean_s, whole_s, "s")),
            Html::text(&figures::share_cell(part.share)),
        ];
        if let Some(rule) = tail {
            let tail = part.tail.as_ref();
            row.push(Html::text(&tail.map(|tail| figures::part_of(tail.mean_s, rule.mean_s, "s")).unwrap_or_default()));
            row.push(Html::text(&tail.map(|tail| figures::share_cell(tail.share)).unwrap_or_default()));
        }
        row
    });
    let slowest = tail.map(|rule| format!("slowest {} >", figures::share(1.0 - rule.quantile)));
    let mut head = vec!["part", "layer", "mean >", "share >"];
    head.extend(slowest.as_deref().into_iter().chain(tail.map(|_| "share >")));
    let vantage = phrases::seen(accounts);
    titled(
        &format!("Where {} went", figures::seconds(whole_s)),
        &vantage,
        &Html::join([element("div", "bars", &Html::join(bars)), element("div", "account", &table(&head, rows.collect()))]),
    )
}

fn segments(parts: &[RequestPart], figure: impl Fn(&RequestPart) -> Option<(f64, f64)>) -> Vec<Segment> {
    let shown = parts.iter().filter_map(|part| figure(part).map(|(mean_s, share)| (part, mean_s, share)));
    shown
        .map(|(part, mean_s, share)| {
            let name = clean::name(&part.part, 20);
            Segment {
                class: class_of(&part.part),
                share,
                label: format!("{name} {}", figures::share(share)),
                hint: format!("{name}: {}, {}", figures::seconds(mean_s), figures::share(share)),
            }
        })
        .collect()
}

/// The class that colors a part.
fn class_of(part: &str) -> &'static str {
    const CLASSES: [(&str, &str); 14] = [
        ("client", "p-client"),
        ("transfer", "p-transfer"),
        ("gateway", "p-gateway"),
        ("api", "p-api"),
        ("tokenize", "p-tokenize"),
        ("queue", "p-queue"),
        ("prefill", "p-prefill"),
        ("decode", "p-decode"),
        ("detokenize", "p-detokenize"),
        ("stream", "p-stream"),
        ("compute", "p-decode"),
        ("communication", "p-transfer"),
        ("copies", "p-prefill"),
        ("idle", "p-queue"),
    ];
    CLASSES.iter().find(|(name, _)| *name == part).map_or("p-unattributed", |(_, class)| class)
}

/// Where the time of each device went.
fn devices(accounts: &Accounts) -> Html {
    if accounts.device.is_empty() {
        return Html::default();
    }
    let bars = accounts.device.iter().map(|device| {
        let segments: Vec<Segment> = device_words::parts(device)
            .into_iter()
            .map(|part| {
                let share = part.ns as f64 / device.window_ns.max(1) as f64;
                Segment {
                    class: class_of(part.name),
                    share,
                    label: format!("{} {}", part.name, figures::share(share)),
                    hint: format!("{}: {}, {}", part.name, figures::nanoseconds(part.ns), figures::share(share)),
                }
            })
            .collect();
        let title = format!("{}, {}", device_words::title(device), figures::nanoseconds(device.window_ns));
        Html::join([text_element("p", "bar-title", &title), bars::stacked(&segments, 1.0, "parts of a device's time")])
    });
    let rows = accounts.device.iter().flat_map(|device| {
        device_words::parts(device).into_iter().map(|part| {
            let remark = Html::join([Html::markup(" "), text_element("small", "", &part.remark)]);
            let key = Html::join([element("i", class_of(part.name), &Html::markup("")), Html::text(part.name), remark]);
            let share = part.ns as f64 / device.window_ns.max(1) as f64;
            vec![Html::text(&device.device), key, Html::text(&figures::nanoseconds(part.ns)), Html::text(&figures::share_cell(share))]
        })
    });
    let kernels = accounts.device.iter().flat_map(|device| {
        device_words::roofline_rows(&device.roofline).into_iter().map(|row| {
            let cells = row.iter().map(|cell| Html::text(cell));
            std::iter::once(Html::text(&device.device)).chain(cells).collect()
        })
    });
    let kernels = table(&["device", "kernels", "sizes", "time >", "FLOP >", "bytes >", "least >", "reached"], kernels.collect());
    let remarks = accounts.device.iter().flat_map(device_words::remarks).map(|remark| text_element("p", "aside", &remark));
    titled(
        "Devices",
        "as a profiler recorded them",
        &Html::join([
            element("div", "bars", &Html::join(bars)),
            element("div", "account", &table(&["device", "part", "time >", "share >"], rows.collect())),
            element("div", "account", &kernels),
            Html::join(remarks),
        ]),
    )
}

/// The ordered ceilings, each as a bar, with the present rate across them.
pub(super) fn limits(report: &Report) -> Html {
    let top = report.limits.iter().map(|limit| limit.value).filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
    if top <= 0.0 {
        return Html::default();
    }
    let now = phrases::present_rate(report).filter(|_| report.limits.iter().all(|limit| limit.unit == "request/s"));
    let rows = report.limits.iter().enumerate().map(|(at, limit)| {
        let bar = bars::gauge(if at == 0 { "fill" } else { "fill later" }, limit.value / top, now.map(|now| now / top));
        let ahead = now.map(|now| figures::quantity(limit.value / now, "factor")).unwrap_or_default();
        vec![
            Html::text(&limit.what),
            element("div", "scale", &bar),
            Html::text(&figures::quantity(limit.value, &limit.unit)),
            Html::text(&ahead),
            Html::text(&limit.from),
        ]
    });
    let aside = now.map(|now| format!("now {}, the line across", figures::quantity(now, "request/s"))).unwrap_or_default();
    let of_now = if now.is_some() { "of now >" } else { "" };
    titled("Limits of this server, lowest first", &aside, &stacking(&["what binds", "", "at >", of_now, "from"], rows.collect()))
}
