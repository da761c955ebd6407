//! What vLLM does when nobody says, by version, for its API server (the offline class has other budgets).
//!
//! Read in `vllm/engine/arg_utils.py` of several versions and in the changes named below. Where the value hangs on
//! something unknown (device memory above all), or where the release that brought a change is not certain, no default is
//! given: a missing setting is better than a wrong one.
//!
//! | change | since |
//! |---|---|
//! | token budget 8192 instead of 2048 on H100, H200 (#12369, V1) | 0.7.0 |
//! | V1 is the default engine, V0 stays for what V1 lacks; removed later | 0.8.0; 0.11.0 |
//! | 256 instead of 1024 sequences on all but H100, H200 (#16158) | 0.8.4 |
//! | device memory of 70 GiB decides instead of the name (#17073), A100 excepted (#17885) | 0.8.5, 0.9.0 |
//! | a third class from 160 GiB on: 16384 tokens (#51726) | 0.28 |
//! | V0: token budget of chunked prefill 2048 instead of 512 (#10544) | 0.6.5 |
//! | asynchronous scheduling on by default (#27614), with EAGLE and MTP too (#31998) | 0.14.0 |
//! | memory share 0.92 instead of 0.9 (#38284) | 0.20 or 0.21 |

use crate::engines::DefaultsQuery;

/// `0.MINOR.PATCH` as MINOR * 100 + PATCH, so that ranges can be written as patterns.
type Version = u32;

/// What is known of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    Cpu,
    /// Below 70 GiB.
    Small,
    /// An A100: treated as small whatever its memory, from 0.9.0 on.
    A100,
    /// H100 and H200, known by name before memory decided.
    Hopper,
    /// Other devices of 70 to 160 GiB.
    Large,
    /// 160 GiB and more.
    Huge {
        nvidia: bool,
    },
}

/// Names and what they are. The first match wins; names are compared as whole words.
const DEVICES: &[(&str, Device)] = &[
    ("CPU", Device::Cpu),
    ("H100", Device::Hopper),
    ("H200", Device::Hopper),
    ("H800", Device::Large),
    ("H20", Device::Large),
    ("GH200", Device::Large),
    ("B200", Device::Huge { nvidia: true }),
    ("GB200", Device::Huge { nvidia: true }),
    ("B300", Device::Huge { nvidia: true }),
    ("GB300", Device::Huge { nvidia: true }),
    ("MI300X", Device::Huge { nvidia: false }),
    ("MI325X", Device::Huge { nvidia: false }),
    ("MI350X", Device::Huge { nvidia: false }),
    ("MI355X", Device::Huge { nvidia: false }),
    ("A100", Device::A100),
    ("T4", Device::Small),
    ("V100", Device::Small),
    ("P100", Device::Small),
    ("L4", Device::Small),
    ("L20", Device::Small),
    ("L40", Device::Small),
    ("L40S", Device::Small),
    ("A10", Device::Small),
    ("A10G", Device::Small),
    ("A30", Device::Small),
    ("A40", Device::Small),
    ("A6000", Device::Small),
    ("A5000", Device::Small),
    ("3060", Device::Small),
    ("3070", Device::Small),
    ("3080", Device::Small),
    ("3090", Device::Small),
    ("4060", Device::Small),
    ("4070", Device::Small),
    ("4080", Device::Small),
    ("4090", Device::Small),
    ("5050", Device::Small),
    ("5060", Device::Small),
    ("5070", Device::Small),
    ("5080", Device::Small),
    ("5090", Device::Small),
];

fn device_of(name: &str) -> Option<Device> {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    DEVICES.iter().find(|(known, _)| words.contains(known)).map(|(_, device)| *device)
}

/// `0.10.2` and the like; anything else (a branch, a date) is not known.
fn version_of(text: &str) -> Option<Version> {
    let mut parts = text.trim_start_matches('v').split('.');
    if parts.next()? != "0" {
        return None;
    }
    let number = |part: &str| part[..part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len())].parse().ok();
    let minor: u32 = number(parts.next()?)?;
    let patch: u32 = parts.next().and_then(number).unwrap_or(0);
    (minor < 1000).then(|| minor * 100 + patch.min(99))
}

/// The settings that `query.stated` leaves open and that this version fills in a known way.
pub(super) fn defaults(query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    let Some(version) = version_of(query.version) else { return Vec::new() };
    let plan = Plan { query, version, device: device_of(query.device) };
    let mut found = plan.all_versions();
    found.extend(if plan.is_v1() { plan.v1() } else { plan.v0() });
    found.retain(|(key, _)| !query.stated.contains_key(*key));
    found
}

struct Plan<'q> {
    query: &'q DefaultsQuery<'q>,
    version: Version,
    device: Option<Device>,
}

impl Plan<'_> {
    fn stated(&self, key: &str) -> Option<&str> {
        self.query.stated.get(key).map(String::as_str)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.stated(key)?.parse().ok()
    }

    /// Which engine runs: what a source says, else what the version does. 0.8 to 0.10 fall back to V0 for some models,
    /// which the log would have said.
    fn is_v1(&self) -> bool {
        match self.query.generation {
            "" => self.version >= 800,
            stated => stated == "V1",
        }
    }

    fn all_versions(&self) -> Vec<(&'static str, String)> {
        let mut found = vec![
            ("config.tensor_parallel", "1".to_string()),
            ("config.pipeline_parallel", "1".to_string()),
            ("config.enforce_eager", "false".to_string()),
            ("config.kv_dtype", "auto".to_string()),
            ("config.speculative_tokens", "0".to_string()),
        ];
        if self.version >= 900 {
            found.push(("config.data_parallel", "1".to_string()));
            found.push(("config.scheduling_policy", "fcfs".to_string()));
            if self.stated("config.data_parallel").is_none_or(|count| count == "1") {
                found.push(("config.api_processes", "1".to_string()));
            }
        }
        match (self.device, self.version) {
            (Some(Device::Cpu), _) => {}
            (_, ..=1899) => found.push(("config.gpu_memory_utilization", "0.9".to_string())),
            (_, 2100..) => found.push(("config.gpu_memory_utilization", "0.92".to_string())),
            _ => {}
        }
        found
    }

    fn v1(&self) -> Vec<(&'static str, String)> {
        let mut found = vec![("config.chunked_prefill", "true".to_string())];
        // Hybrid models were excepted for some time; a flag for their state cache gives them away.
        if !self.query.stated.keys().any(|key| key.contains("mamba")) {
            found.push(("config.prefix_caching", "true".to_string()));
        }
        found.push(("config.long_prefill_token_threshold", "0".to_string()));
        found.extend(self.async_scheduling().map(|is_on| ("config.async_scheduling", is_on.to_string())));
        if self.device == Some(Device::Cpu) && self.version >= 3000 {
            found.push(("config.block_size", "128".to_string()));
        }
        let factor = if self.stated("config.performance_mode") == Some("throughput") { 2 } else { 1 };
        let tokens = self.tokens().map(|tokens| tokens * factor);
        if self.stated("config.chunked_prefill") != Some("false") {
            found.extend(tokens.map(|tokens| ("config.max_num_batched_tokens", tokens.to_string())));
        }
        // No more sequences than tokens.
        let budget = self.number("config.max_num_batched_tokens").or(tokens).unwrap_or(u64::MAX);
        found.extend(self.seqs().map(|seqs| ("config.max_num_seqs", (seqs * factor).min(budget).to_string())));
        found
    }

    /// Number of ranks, for the CPU backend's budgets.
    fn world(&self) -> Option<u64> {
        let of = |key| self.stated(key).map_or(Some(1), |text| text.parse::<u64>().ok().filter(|ranks| (1..=1024).contains(ranks)));
        Some(of("config.tensor_parallel")? * of("config.pipeline_parallel")?)
    }

    #[expect(clippy::match_same_arms, reason = "one arm per device and range reads as the table it is")]
    fn tokens(&self) -> Option<u64> {
        match (self.device?, self.version) {
            (Device::Cpu, 1100..) => self.world().map(|world| 2048 * world),
            (Device::Cpu, _) => None,
            (Device::Small, _) => Some(2048),
            (Device::Hopper, _) => Some(8192),
            (_, ..=804) | (Device::A100, 900..) => Some(2048),
            (Device::Large, 900..) => Some(8192),
            (Device::Huge { .. }, 900..=2699) => Some(8192),
            (Device::Huge { nvidia: true }, 2900..) => Some(16384),
            _ => None,
        }
    }

    #[expect(clippy::match_same_arms, reason = "one arm per device and range reads as the table it is")]
    fn seqs(&self) -> Option<u64> {
        match (self.device?, self.version) {
            (Device::Cpu, 1100..) => self.world().map(|world| 128 * world),
            (Device::Cpu, _) => None,
            (_, ..=803) | (Device::Hopper, _) => Some(1024),
            (Device::Small, _) | (_, 804) | (Device::A100, 900..) => Some(256),
            (Device::Large, 900..) | (Device::Huge { .. }, 900..=2699) => Some(1024),
            _ => None,
        }
    }

    fn async_scheduling(&self) -> Option<bool> {
        if self.device == Some(Device::Cpu) || self.version < 1400 {
            return Some(false);
        }
        let has_pipeline = self.number("config.pipeline_parallel").is_some_and(|ranks| ranks > 1);
        match self.stated("config.speculative_method") {
            _ if has_pipeline => None,
            None => Some(true),
            Some(method) => (method.contains("eagle") || method.contains("mtp")).then_some(true),
        }
    }

    fn v0(&self) -> Vec<(&'static str, String)> {
        let mut found = vec![
            ("config.prefix_caching", "false".to_string()),
            ("config.max_num_seqs", "256".to_string()),
            ("config.async_scheduling", "false".to_string()),
            ("config.swap_space", (4u64 << 30).to_string()),
        ];
        if self.device == Some(Device::Cpu) {
            return found;
        }
        found.push(("config.block_size", "16".to_string()));
        // Long contexts got chunked prefill by default (0.5.5 to the end of V0); the length is often not stated.
        let length = self.number("config.max_model_len");
        let is_chunked = match self.stated("config.chunked_prefill") {
            Some(stated) => Some(stated == "true"),
            None if self.version < 505 => Some(false),
            None => length.map(|length| length > 32_768),
        };
        found.extend(is_chunked.map(|is_chunked| ("config.chunked_prefill", is_chunked.to_string())));
        let tokens = match (is_chunked, self.version) {
            (Some(true), ..=604) => Some(512),
            (Some(true), _) => Some(2048),
            (Some(false), _) => length.map(|length| length.max(2048)),
            (None, _) => None,
        };
        found.extend(tokens.map(|tokens| ("config.max_num_batched_tokens", tokens.to_string())));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, device: &str, stated: &[(&str, &str)], expected: [Option<&str>; 4]) {
        let stated = stated.iter().map(|(key, value)| (format!("config.{key}"), (*value).to_string())).collect();
        let found = defaults(&DefaultsQuery { version, device, generation: "", stated });
        let get = |key: &str| found.iter().find(|(known, _)| *known == format!("config.{key}")).map(|(_, value)| value.as_str());
        let shown = [get("max_num_seqs"), get("max_num_batched_tokens"), get("prefix_caching"), get("async_scheduling")];
        assert_eq!(shown, expected, "{version} on {device:?}");
    }

    #[test]
    fn budgets_follow_version_and_device() {
        check("0.32.0", "CPU", &[], [Some("128"), Some("2048"), Some("true"), Some("false")]);
        check("0.32.0", "CPU", &[("tensor_parallel", "2")], [Some("256"), Some("4096"), Some("true"), Some("false")]);
        check("0.11.0", "H100 SXM 80 GB", &[], [Some("1024"), Some("8192"), Some("true"), Some("false")]);
        check("0.11.0", "NVIDIA A100-SXM4-80GB", &[], [Some("256"), Some("2048"), Some("true"), Some("false")]);
        check("0.8.2", "RTX 4090", &[], [Some("1024"), Some("2048"), Some("true"), Some("false")]);
        check("0.10.2", "L40S 48 GB", &[], [Some("256"), Some("2048"), Some("true"), Some("false")]);
        check("0.33.0", "NVIDIA B200", &[], [None, Some("16384"), Some("true"), Some("true")]);
        check("0.33.0", "MI300X", &[], [None, None, Some("true"), Some("true")]);
        check("0.7.3", "A10G", &[("max_model_len", "8192")], [Some("256"), Some("8192"), Some("false"), Some("false")]);
        check("0.6.4", "A10G", &[("max_model_len", "131072")], [Some("256"), Some("512"), Some("false"), Some("false")]);
    }

    #[test]
    fn what_hangs_on_the_unknown_is_left_open() {
        check("0.32.0", "", &[], [None, None, Some("true"), Some("true")]);
        check("0.32.0", "GB10", &[], [None, None, Some("true"), Some("true")]);
        check("0.8.5", "MI300X", &[], [None, None, Some("true"), Some("false")]);
        check("0.15.1", "H100", &[("speculative_method", "ngram")], [Some("1024"), Some("8192"), Some("true"), None]);
        check("2026-09 main", "H100", &[], [None; 4]);
        check("0.32.0", "CPU", &[("max_num_batched_tokens", "64")], [Some("64"), None, Some("true"), Some("false")]);
    }
}
