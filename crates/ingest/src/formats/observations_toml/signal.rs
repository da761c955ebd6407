//! One typed value: name with statistic and labels, unit, bound, plausibility.

use capture::signals::{Resolved, STATISTICS, resolve};
use capture::units::{Bound, QuantityError, Unit, parse_quantity};
use capture::{Sample, labels};
use toml::Spanned;
use toml::de::DeValue;

use super::Reader;
use super::pairs::TypedValue;

/// Signals whose name may carry one more part, and the label it stands for.
const PART_LABELS: &[(&str, &str)] = &[
    ("kernel.time", "category"),
    ("kernel.time_ideal", "category"),
    ("gpu.throttle_share", "reason"),
    ("gpu.throttle_reasons", "reason"),
    ("gateway.time", "part"),
    ("engine.time_share", "part"),
    ("proc.frame_share", "part"),
    ("spec.position_acceptance", "position"),
    ("spec.accepted_at_position", "position"),
];

/// Ratios of one core: a process may use several.
const PER_CORE: &[&str] = &["proc.cpu", "client.cpu", "proc.gil_wait"];

/// A name taken apart.
struct Named {
    /// Name as it stands in the samples.
    name: String,
    resolved: Resolved,
    labels: Vec<(String, String)>,
}

/// Takes `gpu.sm_clock.max{phase="decode"}`, `kernel.time.gemm` or `client.ttft.p50` apart.
fn take_apart(written: &str) -> Result<Named, Unknown> {
    let (name, rest) = written.split_once('{').map_or((written, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
    let labels = labels::pairs(rest);
    if let Some((unknown, _)) = labels.iter().find(|(key, _)| !labels::KNOWN.contains(&key.as_str())) {
        return Err(Unknown::Label(unknown.clone()));
    }
    if let Some(resolved) = resolve(name) {
        return Ok(Named { name: name.to_string(), resolved, labels });
    }
    for (signal, label) in PART_LABELS {
        let Some(part) = name.strip_prefix(signal).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let (part, statistic) = match part.rsplit_once('.') {
            Some((part, last)) if STATISTICS.contains(&last) => (part, format!(".{last}")),
            _ => (part, String::new()),
        };
        let name = format!("{signal}{statistic}");
        if let Some(resolved) = resolve(&name).filter(|_| !part.is_empty()) {
            let mut labels = labels;
            labels.push(((*label).to_string(), part.to_string()));
            return Ok(Named { name, resolved, labels });
        }
    }
    Err(Unknown::Signal(name.to_string()))
}

/// What of a name is not in the vocabulary.
enum Unknown {
    Label(String),
    Signal(String),
}

/// A value as read.
pub(super) enum Typed {
    Number(f64, Bound),
    Text(String),
    /// Already told as an issue, or nothing to add.
    Nothing,
}

impl Reader<'_, '_> {
    /// Reads one entry of `[run.signals]` or of a sweep row. `more` are labels from the rest of the row.
    pub(super) fn signal(&mut self, written: &str, at: usize, value: &Spanned<DeValue<'_>>, point_idx: i32, more: &[(String, String)]) {
        let named = match take_apart(written) {
            Ok(named) => named,
            Err(unknown) => return self.unknown_name(at, &unknown),
        };
        let place = value.span().start;
        if let DeValue::Array(list) = value.get_ref()
            && named.resolved.unit() != Unit::Text
        {
            for (position, entry) in list.iter().enumerate() {
                let mut labels = more.to_vec();
                labels.push(("position".to_string(), position.to_string()));
                if let Typed::Number(value, bound) = self.value(&named, entry.get_ref(), place) {
                    self.add_sample(&named, value, bound, point_idx, &labels);
                }
            }
            return;
        }
        match self.value(&named, value.get_ref(), place) {
            Typed::Nothing => {}
            Typed::Number(number, bound) => {
                if named.name.starts_with("config.") && point_idx < 0 {
                    self.setting(&named.name, &plain_number(&named, number), "typed", self.line(at));
                }
                self.add_sample(&named, number, bound, point_idx, more);
                if bound == Bound::Exact {
                    let pairs: Vec<(&str, &str)> =
                        more.iter().chain(&named.labels).map(|(key, value)| (key.as_str(), value.as_str())).collect();
                    self.typed.push(TypedValue::new(&named.name, &labels::canonical(&pairs), number, at));
                }
            }
            Typed::Text(text) if named.name == "gpu.throttle_reasons" => {
                let mut labels = more.to_vec();
                labels.push(("reason".to_string(), text));
                self.add_sample(&named, 1.0, Bound::Exact, point_idx, &labels);
            }
            Typed::Text(text) => self.setting(&named.name, &text, "typed", self.line(at)),
        }
    }

    fn unknown_name(&mut self, at: usize, unknown: &Unknown) {
        let sentence = match unknown {
            Unknown::Label(label) => format!("`{label}` is no label; the nearest is `{}`", super::nearest_of(label, labels::KNOWN)),
            Unknown::Signal(name) => format!("`{name}` is no signal; the nearest is `{}`", self.nearest_signal(name)),
        };
        self.error("unknown_signal", at, sentence);
    }

    /// The text of a signal that is text, for labels of a sweep row.
    pub(super) fn text_value(written: &str, value: &DeValue<'_>) -> Option<(String, String)> {
        let named = take_apart(written).ok()?;
        let is_text = named.resolved.unit() == Unit::Text;
        is_text.then(|| value.as_str().map(|text| (named.name.clone(), text.to_string())))?
    }

    /// The number of a signal, without issues, for the varied value of a sweep row.
    pub(super) fn number_value(written: &str, value: &DeValue<'_>) -> Option<f64> {
        let named = take_apart(written).ok()?;
        match value {
            DeValue::String(text) => parse_quantity(text, named.resolved.unit()).ok().map(|quantity| quantity.value),
            DeValue::Boolean(flag) => Some(f64::from(u8::from(*flag))),
            other => plain(other),
        }
    }

    fn value(&mut self, named: &Named, value: &DeValue<'_>, at: usize) -> Typed {
        let unit = named.resolved.unit();
        match (unit, value) {
            (Unit::Text, DeValue::String(text)) => Typed::Text(text.to_string()),
            (Unit::Text, DeValue::Array(list)) => {
                let items: Vec<String> = list.iter().map(|item| shown(item.get_ref())).collect();
                Typed::Text(format!("[{}]", items.join(", ")))
            }
            (Unit::Text, other) => Typed::Text(shown(other)),
            (Unit::Flag, DeValue::Boolean(flag)) => Typed::Number(f64::from(u8::from(*flag)), Bound::Exact),
            (Unit::Flag, DeValue::String(text)) if matches!(text.as_ref(), "true" | "false") => {
                Typed::Number(f64::from(u8::from(text == "true")), Bound::Exact)
            }
            (_, DeValue::String(text)) if named.name == "gpu.throttle_reasons" && !text.starts_with(|c: char| c.is_ascii_digit()) => {
                Typed::Text(text.to_string())
            }
            (_, DeValue::String(text)) => self.quantity(named, text, at),
            (_, DeValue::Integer(_) | DeValue::Float(_)) => match plain(value) {
                Some(number) => self.plausible(named, number, Bound::Exact, at),
                None => self.refuse("impossible_value", at, format!("expected a finite number for `{}`", named.name)),
            },
            (_, other) => {
                let found = other.type_str();
                self.refuse("wrong_type", at, format!("expected a value in `{unit}` for `{}`, found {found}", named.name))
            }
        }
    }

    fn refuse(&mut self, code: &'static str, at: usize, sentence: String) -> Typed {
        self.error(code, at, sentence);
        Typed::Nothing
    }

    fn quantity(&mut self, named: &Named, text: &str, at: usize) -> Typed {
        match parse_quantity(text, named.resolved.unit()) {
            Ok(quantity) => {
                if quantity.inverted {
                    let sentence = format!("`{}` is a time and was given as the rate `{text}`; it is inverted", named.name);
                    self.note("inverted_rate", at, sentence);
                }
                self.plausible(named, quantity.value, quantity.bound, at)
            }
            Err(error) => {
                let code = match error {
                    QuantityError::NoNumber => "impossible_value",
                    QuantityError::UnknownUnit(_) | QuantityError::WrongUnit { .. } => "wrong_unit",
                };
                let unit = named.resolved.unit();
                self.refuse(code, at, format!("`{}` has the unit `{unit}`, found `{text}`: {error}", named.name))
            }
        }
    }

    fn plausible(&mut self, named: &Named, number: f64, bound: Bound, at: usize) -> Typed {
        let is_ratio = named.resolved.unit() == Unit::Ratio && !PER_CORE.contains(&named.resolved.signal.name);
        if !number.is_finite() || (number < 0.0 && named.resolved.unit() != Unit::Celsius) {
            return self.refuse("impossible_value", at, format!("expected zero or more for `{}`, found {number}", named.name));
        }
        if is_ratio && number > 1.0 {
            return self.refuse(
                "impossible_value",
                at,
                format!("expected a ratio from 0 to 1 for `{}`, found {number}; percent is written `97 %`", named.name),
            );
        }
        Typed::Number(number, bound)
    }

    fn add_sample(&mut self, named: &Named, value: f64, bound: Bound, point_idx: i32, more: &[(String, String)]) {
        let mode = match bound {
            Bound::Exact => "",
            Bound::AtLeast => "at_least",
            Bound::AtMost => "at_most",
        };
        let pairs = more.iter().chain(&named.labels).map(|(key, value)| (key.as_str(), value.as_str()));
        let mut pairs: Vec<(&str, &str)> = pairs.collect();
        if !mode.is_empty() {
            pairs.push(("mode", mode));
        }
        let labels = labels::canonical(&pairs);
        let row = Sample {
            t_ns: 0,
            run_idx: self.run_idx,
            point_idx,
            signal: self.builder.intern(&named.name),
            labels: self.builder.intern(&labels),
            value,
            source_idx: self.builder.source(),
        };
        self.builder.capture.tables.samples.push(row);
    }
}

/// A number as a setting shows it.
fn plain_number(named: &Named, number: f64) -> String {
    match named.resolved.unit() {
        Unit::Flag => (number != 0.0).to_string(),
        _ => format!("{number}"),
    }
}

fn plain(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(number) => i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()? as f64,
        DeValue::Float(number) => number.as_str().replace('_', "").parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        other => other.type_str().to_string(),
    }
}
