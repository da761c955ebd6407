//! GenAI-Perf's `profile_export_genai_perf.json`: the summary of one run.
//!
//! See `metric_objects.rs` for what its words mean. The file has no date. Older releases write the command's options flat
//! into `input_config`, newer ones nest them; both are read.

use crate::builder::{Builder, Load};
use crate::formats::figures::{self, At};
use crate::formats::metric_objects::MetricObjects;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "genai_perf_json", stage: Stage::Floating, sniff, read };

fn sniff(probe: &Probe<'_>) -> Confidence {
    let is_summary = probe.first_byte() == Some(b'{') && (probe.has("\"request_latency\"") || probe.has("\"request_throughput\""));
    let has_metrics = probe.has("\"avg\"") && probe.has("\"unit\"");
    match (is_summary && has_metrics, probe.has("\"input_config\""), probe.has("aiperf")) {
        (true, true, false) => Confidence::Sure,
        _ => Confidence::No,
    }
}

#[derive(Default)]
struct Summary {
    metrics: MetricObjects,
    load: Load,
    model: Option<String>,
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    let mut it = Summary::default();
    let outcome = json.object(|key, json| match (it.metrics.read(key, json)?, key) {
        (true, _) => Ok(()),
        (false, "input_config") => it.read_config(json),
        _ => json.skip(),
    });
    if let Err(error) = outcome {
        builder.damaged_json(&error);
    }
    if it.metrics.is_empty() {
        builder.refuse("no_rows", "expected the metrics of a GenAI-Perf summary, found none");
        return;
    }
    it.add(builder);
}

impl Summary {
    fn read_config(&mut self, json: &mut Json<&mut Input<'_>>) -> JsonResult<()> {
        if json.peek() != Some(b'{') {
            return json.skip();
        }
        json.object(|key, json| match (key, json.peek()) {
            ("perf_analyzer" | "stimulus", Some(b'{')) => self.read_config(json),
            ("model" | "model_names", Some(b'[')) => json.array(|json| {
                self.model = self.model.take().or(json.scalar()?);
                Ok(())
            }),
            ("concurrency", _) => {
                self.load.max_concurrency = json.f64()?.filter(|value| figures::is_possible("client.concurrency", *value));
                Ok(())
            }
            ("request_rate", _) => {
                self.load.request_rate = json.f64()?.filter(|value| figures::is_possible("client.request_rate", *value));
                Ok(())
            }
            _ => json.skip(),
        })
    }

    fn add(self, builder: &mut Builder<'_>) {
        if let Some(model) = self.model {
            builder.capture.manifest.subject.model = model;
        }
        let at = At::default();
        let settings = [
            ("concurrency", "client.concurrency", self.load.max_concurrency),
            ("request_rate", "client.request_rate", self.load.request_rate),
        ];
        for (key, signal, value) in settings {
            if let Some(value) = value {
                figures::add(builder, at, key, signal, value);
            }
        }
        self.metrics.add(at, builder);
        builder.facts.loads.push(self.load);
    }
}
