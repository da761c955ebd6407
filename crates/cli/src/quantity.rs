//! Durations and limits as typed on the command line: `30s`, `500ms`, `ttft=500ms,tpot=50ms`.

use std::collections::BTreeMap;
use std::time::Duration;

use capture::signals;
use capture::units::{Bound, Unit, parse_quantity};

/// Quantities a limit may name without a vantage; what the caller sees is meant.
const BARE_LIMITS: &[&str] = &["ttft", "tpot", "itl", "e2e"];

/// Longest window or interval that makes sense in one sitting.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Reads a duration with a unit: `500ms`, `30s`, `5m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let spelled = match text.strip_suffix('m') {
        Some(minutes) => format!("{minutes} min"),
        None => text.to_string(),
    };
    let seconds = exact(&spelled, Unit::Second)?;
    if !spelled.ends_with(|last: char| last.is_alphabetic()) {
        return Err(format!("expected a unit, as in `{}s`", text.trim()));
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| "expected a positive duration".to_string())?;
    if duration < Duration::from_millis(1) || duration > LONGEST {
        return Err("expected a duration between 1ms and 24h".to_string());
    }
    Ok(duration)
}

/// Reads `ttft=500ms,tpot=50ms` into signal name and limit in base units.
///
/// A name is a full signal name (`server.ttft.mean`) or one of the bare quantities, with or without statistic: `ttft` is
/// short for `client.ttft`.
pub(crate) fn limits(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let mut limits = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("expected `name=value`, found `{part}`"))?;
        let (name, value) = (name.trim(), value.trim());
        let (signal, unit) = signal_of(name)?;
        let limit = exact(value, unit).map_err(|why| format!("{name}: {why}"))?;
        if unit == Unit::Second && !value.ends_with(|last: char| last.is_alphabetic()) {
            return Err(format!("{name}: expected a unit, as in `{value}ms`"));
        }
        if limit <= 0.0 {
            return Err(format!("{name}: expected a limit above zero"));
        }
        if limits.insert(signal, limit).is_some() {
            return Err(format!("`{name}` given twice"));
        }
    }
    if limits.is_empty() { Err("expected `name=value`, as in `ttft=500ms`".to_string()) } else { Ok(limits) }
}

/// Full name and unit of what a limit is set on.
fn signal_of(name: &str) -> Result<(String, Unit), String> {
    let is_bare = BARE_LIMITS.contains(&name.split('.').next().unwrap_or(name));
    let full = if is_bare { format!("client.{name}") } else { name.to_string() };
    match signals::resolve(&full) {
        Some(resolved) => Ok((full, resolved.unit())),
        None if is_bare => Err(unknown(name, signals::nearest(&full).trim_start_matches("client."))),
        None => Err(unknown(name, &nearest_limit(name))),
    }
}

fn nearest_limit(name: &str) -> String {
    if name.contains('.') {
        return signals::nearest(name);
    }
    BARE_LIMITS.iter().min_by_key(|bare| signals::edit_distance(bare, name)).map_or_else(String::new, ToString::to_string)
}

fn unknown(name: &str, nearest: &str) -> String {
    format!("no signal is called `{name}`; the nearest is `{nearest}`")
}

fn exact(text: &str, unit: Unit) -> Result<f64, String> {
    let quantity = parse_quantity(text, unit).map_err(|error| error.to_string())?;
    if quantity.bound != Bound::Exact || quantity.inverted {
        return Err(format!("expected a plain value in `{unit}`, found `{text}`"));
    }
    Ok(quantity.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_their_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(duration("30"), Err("expected a unit, as in `30s`".into()));
        for text in ["", "s", "-3s", "0s", "1e99s", "NaN s", "25h", "3 GB", "> 3s", "10 token/s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_come_in_base_units_under_full_names() {
        let found = limits("ttft=500ms, tpot.p99=50ms,server.e2e.mean=2s").expect("limits");
        let pairs: Vec<(&str, f64)> = found.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
        assert_eq!(pairs, [("client.tpot.p99", 0.05), ("client.ttft", 0.5), ("server.e2e.mean", 2.0)]);
    }

    #[test]
    fn a_wrong_limit_names_what_was_meant() {
        assert_eq!(limits("server.ttfft=1s"), Err("no signal is called `server.ttfft`; the nearest is `server.ttft`".into()));
        assert_eq!(limits("tfft=1s"), Err("no signal is called `tfft`; the nearest is `ttft`".into()));
        assert_eq!(limits("ttft.p42=1s").map_err(|error| error.contains("no signal is called `ttft.p42`")), Err(true));
        assert_eq!(limits("ttft"), Err("expected `name=value`, found `ttft`".into()));
        assert_eq!(limits("ttft=1s,client.ttft=2s"), Err("`client.ttft` given twice".into()));
        assert_eq!(limits("ttft=3 GB"), Err("ttft: expected a value in `s`, found `GB`".into()));
        assert_eq!(limits("server.e2e.mean=2"), Err("server.e2e.mean: expected a unit, as in `2ms`".into()));
        for text in ["", ",", "ttft=", "ttft=-1s", "ttft=0s", "ttft=> 3s"] {
            assert!(limits(text).is_err(), "{text}");
        }
    }
}
