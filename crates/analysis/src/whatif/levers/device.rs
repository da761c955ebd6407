//! Another device, more ranks, other number formats: the step law changes by the ratio of two predictions of the model's
//! step on the hardware, and the KV cache by what the weights leave.

use model::calibration::{Lever as Moved, published};
use model::deployment::{Deployment, Load};
use model::memory::Dtype;
use model::step_time::{Ideal, StepLoad};

use super::{Found, Lever, Wrong, whole};
use crate::whatif::scenario::Scenario;

pub(super) const GPU: Lever = Lever {
    name: "gpu",
    aliases: &["device"],
    takes: "a device of the hardware table, as `h100-sxm`",
    about: "the same model on another device",
    apply: gpu,
};

pub(super) const TENSOR: Lever = Lever {
    name: "tensor_parallel",
    aliases: &["tensor_parallel_size", "tp", "tp_size"],
    takes: "a whole number that divides the query heads",
    about: "devices that share each layer",
    apply: tensor,
};

pub(super) const WEIGHTS: Lever = Lever {
    name: "weights",
    aliases: &["quantization", "dtype"],
    takes: "bf16, fp8, int8, int4, mxfp4 or nvfp4",
    about: "number format of the weights",
    apply: weights,
};

pub(super) const KV_DTYPE: Lever = Lever {
    name: "kv_cache_dtype",
    aliases: &["kv_dtype"],
    takes: "bf16, fp8 or int8",
    about: "number format of the KV cache",
    apply: kv_dtype,
};

fn gpu(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let gpu = model::hardware::find(value).ok_or(Wrong::Value)?;
    change(scenario, |deployment| std::mem::replace(&mut deployment.gpu, gpu).id.clone())
}

fn tensor(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let ranks = whole(value, 1)?;
    change(scenario, |deployment| std::mem::replace(&mut deployment.tensor, ranks).to_string())
}

fn weights(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let dtype = Dtype::parse(value).ok_or(Wrong::Value)?;
    let found = change(scenario, |deployment| format!("{:?}", std::mem::replace(&mut deployment.weights, dtype)).to_lowercase())?;
    if dtype.bytes_per_param() < 0.9 {
        scenario.warnings.push("below 8 bits answers change: measure quality before anything else".into());
    }
    Ok(found)
}

fn kv_dtype(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let dtype = Dtype::parse(value).ok_or(Wrong::Value)?;
    change(scenario, |deployment| format!("{:?}", std::mem::replace(&mut deployment.kv, dtype)).to_lowercase())
}

/// Changes the deployment and carries the ratio over to the law and to the size of the KV cache.
fn change(scenario: &mut Scenario, set: impl FnOnce(&mut Deployment<'static>) -> String) -> Result<Found, Wrong> {
    let Some(old) = scenario.deployment else {
        let why = "model or device of the run are not in the tables".to_string();
        return Err(Wrong::Unknowable(why, "name them with `--model` and `--device`"));
    };
    let mut new = old;
    let found = set(&mut new);
    new.kv_tokens = None;
    new.check().map_err(|error| Wrong::Unknowable(error.to_string(), "choose another value"))?;
    let (prompt, output) = scenario.workload.mean_tokens();
    let load = Load { concurrency: scenario.run.batch, prompt_tokens: prompt, cached_tokens: 0.0, output_tokens: output };
    // What the law says of batches stays; the step of the run's own batch moves as its prediction does. Its parts are not
    // told apart: what a measured sequence costs is hardly ever the reading of its cache alone.
    let (before, after) = (prices(&old, &load, scenario.run.batch), prices(&new, &load, scenario.run.batch));
    let ratio = |at: usize| if before[at] > 0.0 { after[at] / before[at] } else { 1.0 };
    scenario.cost.a_s *= ratio(0);
    scenario.cost.b_s *= ratio(0);
    scenario.cost.c_s *= ratio(1);
    let room = |deployment: &Deployment<'_>| Deployment { kv_tokens: None, ..*deployment }.kv_capacity().mid;
    let (had, has) = (room(&old), room(&new));
    if has < 1.0 {
        return Err(Wrong::Unknowable("the weights leave no room for a KV cache".into(), "add devices or choose a smaller format"));
    }
    if scenario.run.kv_tokens.is_some() && had > 0.0 {
        let blocks = f64::from(scenario.system.engine.kv_blocks) * has / had;
        scenario.system.engine.kv_blocks = blocks.clamp(1.0, f64::from(u32::MAX)) as u32;
    }
    let moved = Moved::moved((&old, &load), (&new, &load));
    scenario.device_width = scenario.device_width.max(published(new.model.kind()).levers.band(&moved).hi);
    scenario.deployment = Some(Deployment { kv_tokens: old.kv_tokens.map(|tokens| tokens * has / had.max(1.0)), ..new });
    scenario.assumed.push("step times on other hardware or formats move as published runs of other models did".into());
    Ok((found, "setting"))
}

/// Seconds of a decode step at this batch, and per prompt token beside it, by the calibrated step function.
fn prices(deployment: &Deployment<'_>, load: &Load, batch: f64) -> [f64; 2] {
    let coefficients = &published(deployment.model.kind()).coefficients;
    // Long enough that arithmetic and not the weights is what takes the time, as where prompts fill steps.
    let long = load.prompt_tokens.max(4096.0);
    let step = |prompt_tokens: f64| {
        let work = StepLoad { decode_seqs: batch, tokens_per_seq: 1.0, context: load.mean_context(), prompt_tokens, prompt_context: 0.0 };
        Ideal::of(deployment, &work).step(coefficients).total_s
    };
    [step(0.0), (step(long) - step(0.0)) / long]
}
