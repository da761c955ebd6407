//! `docs/predictions.md`: what was predicted of recorded runs, and what was then measured, by `cases/predictions.toml`.

use std::fmt::Write as _;
use std::path::Path;

use analysis::whatif::{Scored, score};
use anyhow::Context as _;
use capture::Capture;
use toml::Table;

use super::NOTICE;
use crate::cases::{self, Case};

/// What no pair of runs could hold a prediction against.
const UNMEASURED: &str = "
## Levers without a measured pair

Nothing measured stands behind two levers; their figures are what the bytes and the scheduler say.

- `kv_cache_dtype`: no two runs, recorded or published, differ in the format of the cache alone. Tests hold that half the bytes
  are twice the room and a shorter step, not a measured time.
- `disaggregate`: no two runs under one load differ in it. Of published runs 22 pairs have the same decoding replica with prefill
  on other devices and on the same; the model of the hardware says what that does to its time per token (12 % off in the
  median, direction right in all; `docs/validation.md`, *prefill apart*). First tokens, the link and the balance of the
  two pools are simulated and were never held against a run.
";

/// One line of the list.
struct Pair<'t> {
    before: &'t str,
    after: &'t str,
    set: &'t str,
}

impl<'t> Pair<'t> {
    fn read(line: &'t toml::Value) -> anyhow::Result<Self> {
        let text = |key: &str| line.get(key).and_then(toml::Value::as_str).with_context(|| format!("expected `{key}` in {line}"));
        Ok(Self { before: text("before")?, after: text("after")?, set: text("set")? })
    }
}

/// The page.
pub(super) fn render(root: &Path) -> anyhow::Result<String> {
    let folder = root.join("cases");
    let cases = cases::read(&folder)?;
    let list = std::fs::read_to_string(folder.join("predictions.toml")).context("could not read `cases/predictions.toml`")?;
    let list: Table = toml::from_str(&list)?;
    let lines = list.get("pair").and_then(toml::Value::as_array).context("expected `pair`, a list")?;
    let pairs: Vec<Pair<'_>> = lines.iter().map(Pair::read).collect::<anyhow::Result<_>>()?;
    let mut page = format!("{NOTICE}\n# What was predicted, and what was measured\n\n");
    page.push_str("Each pair is two recordings of a real vLLM on a CPU that differ in one thing. `whatif` reads the first alone and\n");
    page.push_str("predicts the ratio of each figure; the second says what it was. The widths of the ranges were chosen on these pairs:\n");
    page.push_str("how they do on others is for others to measure. A figure is refused where nobody could know it.\n\n");
    page.push_str("| run | change | figure | measured ratio | predicted | nine times out of ten | |\n|---|---|---|---|---|---|---|\n");
    let mut all: Vec<Scored> = Vec::new();
    for pair in &pairs {
        let (key, value) = pair.set.split_once('=').with_context(|| format!("`{}` is no lever=value", pair.set))?;
        let (before, after) = (read(&cases, &folder, pair.before)?, read(&cases, &folder, pair.after)?);
        match score(&before, &after, &[(key.to_string(), value.to_string())]) {
            Ok((_, scored)) => {
                for scored in &scored {
                    row(&mut page, pair, scored);
                }
                all.extend(scored);
            }
            Err(refusal) => writeln!(page, "| {} | `{}` | all | | refused | | {refusal} |", pair.before, pair.set)?,
        }
    }
    page.push_str(&summary(&all));
    page.push_str(UNMEASURED);
    Ok(page)
}

fn read(cases: &[Case], folder: &Path, name: &str) -> anyhow::Result<Capture> {
    let case = cases.iter().find(|case| case.folder == folder.join(name)).with_context(|| format!("no case `{name}`"))?;
    let mut capture = ingest::read(std::slice::from_ref(&case.artifacts), &ingest::Options::default())?;
    capture.canonicalize();
    Ok(capture)
}

fn row(page: &mut String, pair: &Pair<'_>, scored: &Scored) {
    let predicted = &scored.predicted;
    let head = format!("| {} | `{}` | {} | {:.2} |", pair.before, pair.set, predicted.name, scored.measured_ratio);
    let line = match (predicted.ratio, &predicted.refused) {
        (Some(ratio), _) => {
            let mark = if scored.is_inside() == Some(true) { "" } else { "outside" };
            format!("{head} {:.2} | {:.2} to {:.2} | {mark} |", ratio.mid, ratio.low, ratio.high)
        }
        (None, why) => format!("{head} refused | | {} |", why.as_deref().unwrap_or_default()),
    };
    page.push_str(&line);
    page.push('\n');
}

fn summary(all: &[Scored]) -> String {
    let mut errors: Vec<f64> = all.iter().filter_map(Scored::error_frac).collect();
    errors.sort_by(f64::total_cmp);
    let share = |answers: Vec<bool>| 100.0 * answers.iter().filter(|right| **right).count() as f64 / answers.len().max(1) as f64;
    format!(
        "\n{} figures of {} predicted; median error of the ratio {:.0} %; {:.0} % inside their range; direction right in {:.0} %.\n",
        errors.len(),
        all.len(),
        100.0 * errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        share(all.iter().filter_map(Scored::is_inside).collect()),
        share(all.iter().filter_map(Scored::is_sign_right).collect()),
    )
}
