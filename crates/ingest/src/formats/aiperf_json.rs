//! AIPerf's `profile_export_aiperf.json`: the summary of one run.
//!
//! See `metric_objects.rs` for what its words mean. Its times are local wall time without a zone.

use capture::ClockAlignment;

use crate::builder::{Builder, Load};
use crate::clocks::{self, SECOND_NS};
use crate::formats::figures::{self, At};
use crate::formats::metric_objects::MetricObjects;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "aiperf_json", stage: Stage::Floating, sniff, read };

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_summary = probe.first_byte() == Some(b'{') && (probe.has("\"request_latency\"") || probe.has("\"request_throughput\""));
    match (is_summary, probe.has("\"aiperf_version\""), probe.has("\"input_config\"") && probe.has("aiperf profile")) {
        (true, true, _) | (true, _, true) => Confidence::Sure,
        _ => Confidence::No,
    }
}

#[derive(Default)]
struct Summary {
    metrics: MetricObjects,
    load: Load,
    model: Option<String>,
    start: Option<String>,
    end: Option<String>,
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    let mut it = Summary::default();
    let outcome = json.object(|key, json| {
        if it.metrics.read(key, json)? {
            return Ok(());
        }
        match key {
            "input_config" if json.peek() == Some(b'{') => it.read_config(json)?,
            "start_time" => it.start = json.scalar()?,
            "end_time" => it.end = json.scalar()?,
            _ => json.skip()?,
        }
        Ok(())
    });
    if let Err(error) = outcome {
        builder.damaged_json(&error);
    }
    if it.metrics.is_empty() {
        builder.refuse("no_rows", "expected the metrics of an AIPerf summary, found none");
        return;
    }
    it.add(builder);
}

impl Summary {
    fn read_config(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.object(|key, json| {
            match (key, json.peek()) {
                ("phases", Some(b'[')) => json.array(|json| self.read_phase(json))?,
                ("loadgen", Some(b'{')) => self.read_phase(json)?,
                ("endpoint" | "models", Some(b'{')) => json.object(|key, json| match (key, json.peek()) {
                    ("model_names", Some(b'[')) => json.array(|json| {
                        self.model = self.model.take().or(json.scalar()?);
                        Ok(())
                    }),
                    ("items", Some(b'[')) => json.array(|json| self.read_model(json)),
                    _ => json.skip(),
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    fn read_model(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "name" => self.model = self.model.take().or(json.scalar()?),
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    /// What was offered; a warm-up phase is not what was measured.
    fn read_phase(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        let mut load = Load::default();
        let mut kind = None;
        json.object(|key, json| {
            match key {
                "kind" => kind = json.scalar()?,
                "concurrency" => load.max_concurrency = json.f64()?,
                "rate" | "request_rate" => load.request_rate = json.f64()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        if kind.as_deref() != Some("warmup") {
            self.load.max_concurrency = load.max_concurrency.filter(|value| figures::is_possible("client.concurrency", *value));
            self.load.request_rate = load.request_rate.filter(|value| figures::is_possible("client.request_rate", *value));
        }
        Ok(())
    }

    fn add(mut self, builder: &mut Builder<'_>) {
        self.load.span = self.span(builder);
        let at = At { t_ns: self.load.span.map_or(0, |(_, end)| end), point_idx: 0 };
        if let Some(model) = self.model {
            builder.capture.manifest.subject.model = model;
        }
        let settings =
            [("concurrency", "client.concurrency", self.load.max_concurrency), ("rate", "client.request_rate", self.load.request_rate)];
        for (key, signal, value) in settings {
            if let Some(value) = value {
                figures::add(builder, at, key, signal, value);
            }
        }
        self.metrics.add(at, builder);
        builder.facts.loads.push(self.load);
    }

    /// Host times of start and end, with the alignment row where the file does not say its zone.
    fn span(&self, builder: &mut Builder<'_>) -> Option<(i64, i64)> {
        let (start, has_zone) = crate::civil::iso(self.start.as_deref()?)?;
        let (end, _) = crate::civil::iso(self.end.as_deref()?)?;
        if end < start {
            return None;
        }
        if has_zone {
            return Some((start, end));
        }
        let shift = clocks::find_shift((start, end), None, builder.context);
        builder.capture.manifest.clocks.push(ClockAlignment {
            source: builder.name().to_string(),
            domain: "client local time".to_string(),
            offset_ns: shift.offset_ns,
            error_ns: shift.error_ns.saturating_sub(SECOND_NS).max(0),
            method: shift.method,
            ..ClockAlignment::default()
        });
        Some((start.saturating_add(shift.offset_ns), end.saturating_add(shift.offset_ns)))
    }
}
