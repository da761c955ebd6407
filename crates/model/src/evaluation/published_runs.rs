//! Reads measured runs as the published tables of aiconfigurator state them: one run a line, columns by name.
//!
//! `model_path`, `system`, `precision`, `mode`, `isl`, `osl`, the parallel sizes, `batch_size` (per attention rank),
//! `silicon_concurrency`, `silicon_ttft_ms`, `silicon_tpot_ms`; runs with prefill and decode apart have a `decode_` in
//! front of the sizes. Fields are plain text without quotes. A line that cannot be used is kept with its reason.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::calibration::Observation;
use crate::deployment::{Deployment, Load};
use crate::hardware::{self, Gpu};
use crate::memory::Dtype;
use crate::models::{self, ModelShape};
use crate::prediction::Loop;

/// Largest file read.
pub const MOST_BYTES: usize = 64 << 20;

/// Most runs read.
pub const MOST_ROWS: usize = 20_000;

/// Columns without which nothing can be scored.
const NEEDED: [&str; 7] = ["model_path", "system", "mode", "isl", "osl", "tp_size", "silicon_tpot_ms"];

/// A file that is not such a table.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// Too large.
    #[error("a table of runs may have {MOST_BYTES} bytes, found {found}")]
    Bytes {
        /// Bytes.
        found: usize,
    },
    /// Too many lines.
    #[error("a table of runs may have {MOST_ROWS} rows, found more")]
    Rows,
    /// A column is missing.
    #[error("line 1: expected a column `{column}`, found {found}")]
    Column {
        /// Which.
        column: &'static str,
        /// The columns there are, cut.
        found: String,
    },
}

/// A line that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Line in the file, from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// What a file held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Usable runs.
    pub observations: Vec<Observation>,
    /// Lines without one.
    pub skipped: Vec<Skipped>,
    /// What was read as something else than it says, and how often.
    pub assumed: BTreeMap<String, usize>,
    /// Lines after the first.
    pub row_count: usize,
}

/// Reads a table.
pub fn read(text: &str) -> Result<Runs, ReadError> {
    if text.len() > MOST_BYTES {
        return Err(ReadError::Bytes { found: text.len() });
    }
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let header: Vec<&str> =
        lines.next().map_or(Vec::new(), |(_, line)| line.trim_start_matches('\u{feff}').split(',').map(str::trim).collect());
    for column in NEEDED {
        if !header.contains(&column) {
            let found = header.join(",").chars().take(200).collect();
            return Err(ReadError::Column { column, found });
        }
    }
    let mut runs = Runs::default();
    for (at, line) in lines {
        runs.row_count += 1;
        if runs.row_count > MOST_ROWS {
            return Err(ReadError::Rows);
        }
        let row = Row { header: &header, fields: line.split(',').collect() };
        match row.observation(at + 1) {
            Ok((observation, assumed)) => {
                runs.observations.push(observation);
                for what in assumed {
                    *runs.assumed.entry(what.to_owned()).or_default() += 1;
                }
            }
            Err(reason) => runs.skipped.push(Skipped { line: at + 1, reason }),
        }
    }
    Ok(runs)
}

struct Row<'a> {
    header: &'a [&'a str],
    fields: Vec<&'a str>,
}

/// Parallel sizes of the ranks that decode.
struct Ranks {
    tensor: u32,
    attention_dp: u32,
    expert_parallel: u32,
}

impl Row<'_> {
    fn text(&self, column: &str) -> &str {
        self.header.iter().position(|name| *name == column).and_then(|at| self.fields.get(at)).map_or("", |field| field.trim())
    }

    fn number(&self, column: &str) -> Result<Option<f64>, String> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => Ok(Some(value)),
            _ => Err(format!("`{column}`: expected a positive number, found `{}`", cut(text))),
        }
    }

    fn needed(&self, column: &str) -> Result<f64, String> {
        self.number(column)?.ok_or_else(|| format!("`{column}` is empty"))
    }

    fn count(&self, column: &str) -> Result<u32, String> {
        let value = self.number(column)?.unwrap_or(1.0);
        if value.fract() == 0.0 && value <= 4096.0 {
            Ok(value as u32)
        } else {
            Err(format!("`{column}`: expected a whole number up to 4096, found {value}"))
        }
    }

    fn observation(&self, line: usize) -> Result<(Observation, Vec<&'static str>), String> {
        let mut assumed = Vec::new();
        let name = self.text("model_path");
        let model = models::find(name).ok_or_else(|| format!("model `{}` is not in the table", cut(name)))?;
        let system = self.text("system");
        let gpu = device(system).ok_or_else(|| format!("device `{}` is not in the table or not told apart", cut(system)))?;
        let disaggregated = match self.text("mode") {
            "agg" => false,
            "disagg" => true,
            other => return Err(format!("`mode`: expected `agg` or `disagg`, found `{}`", cut(other))),
        };
        let prefix = if disaggregated { "decode_" } else { "" };
        let weights = self.weights(model, &mut assumed)?;
        let ranks = self.ranks(prefix, model, &mut assumed)?;
        let pipeline = self.count(&format!("{prefix}pp_size"))?;
        let concurrency = self.concurrency(disaggregated, &ranks)?;
        let deployment =
            Deployment { tensor: ranks.tensor, attention_dp: ranks.attention_dp, pipeline, ..Deployment::new(model, gpu, weights) };
        let load = Load::closed(concurrency, self.needed("isl")?, self.needed("osl")?);
        let measured = (self.needed("silicon_tpot_ms")? / 1e3, self.number("silicon_ttft_ms")?.map(|ms| ms / 1e3));
        let mut observation =
            Observation::measured(&deployment, &load, self.text("backend"), measured.0, measured.1).map_err(|error| error.to_string())?;
        observation.line = line;
        name.clone_into(&mut observation.published_as);
        self.text("backend_version").clone_into(&mut observation.version);
        observation.expert_parallel = ranks.expert_parallel;
        if disaggregated {
            observation.disaggregated = true;
            observation.closed = Loop::decoding(&deployment, &load).map_err(|error| error.to_string())?;
            // The first token comes from the other devices.
            observation.ttft_s = None;
        }
        Ok((observation, assumed))
    }

    /// The stated format; without one the format of the products; without that 16 bit, unless the model only exists in 4.
    fn weights(&self, model: &ModelShape, assumed: &mut Vec<&'static str>) -> Result<Dtype, String> {
        let (precision, products) = (self.text("precision"), self.text("gemm_quant_mode"));
        let experts = self.text("moe_quant_mode");
        // `fp4` alone says a width; the products' own word says which format.
        let words =
            if precision == "fp4" || precision.is_empty() { [experts, products, precision] } else { [precision, products, experts] };
        if words.iter().all(|word| word.is_empty()) {
            let name = self.text("model_path");
            if let Some(stated) = name.rsplit(['/', '-', '_']).find_map(format_of) {
                assumed.push("empty precision read from the name of the checkpoint");
                return Ok(stated);
            }
            if model.name.starts_with("gpt-oss") {
                assumed.push("empty precision read as MXFP4, the only published format of gpt-oss");
                return Ok(Dtype::Mxfp4);
            }
            assumed.push("empty precision read as BF16");
            return Ok(Dtype::Bf16);
        }
        words
            .iter()
            .filter(|word| !word.is_empty())
            .find_map(|word| format_of(word))
            .ok_or_else(|| format!("precision `{}` is not known", cut(words.iter().find(|word| !word.is_empty()).unwrap_or(&""))))
    }

    /// Sizes that describe one deployment. The tables repeat runs of `n` ranks with `n x n` in place of `n` (the same
    /// times stand under `dp 8, ep 8` and under `dp 64, moe_tp 8, ep 8`): those are read as `n`.
    fn ranks(&self, prefix: &str, model: &ModelShape, assumed: &mut Vec<&'static str>) -> Result<Ranks, String> {
        let size = |name: &str| self.count(&format!("{prefix}{name}"));
        let (mut tensor, mut dp) = (size("tp_size")?, size("attention_dp_size")?);
        let (moe_tensor, mut expert_parallel) = (size("moe_tp_size")?, size("moe_ep_size")?);
        if model.experts == 0 {
            return Ok(Ranks { tensor, attention_dp: dp, expert_parallel: 1 });
        }
        let square = |n: u32| n.saturating_mul(n);
        let mut squared = true;
        if dp == 1 && moe_tensor >= 4 && moe_tensor == expert_parallel && tensor == square(moe_tensor) {
            tensor = moe_tensor;
        } else if tensor == 1 && moe_tensor >= 4 && moe_tensor == expert_parallel && dp == square(moe_tensor) {
            dp = moe_tensor;
        } else if tensor > 1 && tensor == dp && moe_tensor == 1 && expert_parallel == square(dp) {
            (tensor, expert_parallel) = (1, dp);
        } else {
            squared = false;
        }
        if squared {
            assumed.push("parallel sizes multiplied with themselves read as one node");
        } else if moe_tensor.saturating_mul(expert_parallel) != tensor.saturating_mul(dp) {
            let attention = tensor.saturating_mul(dp);
            return Err(format!("{moe_tensor} x {expert_parallel} expert ranks beside {attention} attention ranks describe no deployment"));
        }
        Ok(Ranks { tensor, attention_dp: dp, expert_parallel })
    }

    /// Requests in flight on the decoding ranks of one replica.
    fn concurrency(&self, disaggregated: bool, ranks: &Ranks) -> Result<f64, String> {
        let in_flight = self.number("silicon_concurrency")?;
        if !disaggregated {
            let per_rank = self.number("batch_size")?.map(|batch| batch * f64::from(ranks.attention_dp));
            return in_flight.or(per_rank).ok_or_else(|| "neither `silicon_concurrency` nor `batch_size` is given".to_owned());
        }
        let (batch, workers) = (self.number("decode_batch_size")?, self.number("decode_num_workers")?);
        let room = batch.map(|batch| batch * f64::from(ranks.attention_dp));
        match (room, in_flight.zip(workers).map(|(in_flight, workers)| in_flight / workers)) {
            (Some(room), Some(load)) => Ok(room.min(load).max(1.0)),
            (Some(room), None) => Ok(room),
            (None, Some(load)) => Ok(load.max(1.0)),
            (None, None) => Err("prefill and decode apart, and neither decode batch nor decode workers are given".to_owned()),
        }
    }
}

/// The device of a system's name. Where the name alone fits several, the publisher's own description of its systems decides:
/// its A100 have 80 GB.
fn device(system: &str) -> Option<&'static Gpu> {
    match system {
        "a100_sxm" => hardware::find("a100-sxm-80"),
        "a100_pcie" => hardware::find("a100-pcie-80"),
        "rtx_pro_6000" => hardware::find("rtx-pro-6000-server"),
        other => hardware::find(other),
    }
}

/// The formats as the tables spell them: `fp8_block`, `nvfp4`, `int4_wo`, `w4a16_mxfp4`.
fn format_of(word: &str) -> Option<Dtype> {
    let word = word.to_ascii_lowercase();
    if word.contains("mxfp4") {
        return Some(Dtype::Mxfp4);
    }
    match word.as_str() {
        "int8_wo" | "sq" => Some(Dtype::Int8),
        _ => Dtype::parse(&word),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
