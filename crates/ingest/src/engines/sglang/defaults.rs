//! What SGLang does when nobody says, by version.
//!
//! Read in `sglang/srt/server_args.py` of the 0.5 line. Chunk size and largest captured batch hang on device memory:
//!
//! | memory of the device | chunk size | largest captured batch (tensor parallel below 4, from 4) |
//! |---|---|---|
//! | below 20 GiB (T4) | 2048 | 8, 8 |
//! | below 35 GiB (A10, 4090, 5090) | 2048 | 24, 80 |
//! | below 60 GiB (A100 40 GB, L40) | 4096 | 32, 160 |
//! | below 90 GiB (H100, A100 80 GB) | 8192 | 256, 512 |
//! | below 160 GiB (H20, H200) | 8192 | 256, 512 |
//! | more (B200, MI300) | 16384 | 512, 512 |
//!
//! Where memory or version leaves it open nothing is given. The seat limit and the memory share are computed at
//! start-up from the model: they stand in the log, never here.

use crate::engines::DefaultsQuery;

/// Memory classes of devices, by word of their name: index into [`CLASSES`]. A100 comes in two sizes and is left out
/// unless its name says which.
const DEVICES: &[(&str, usize)] = &[
    ("T4", 0),
    ("4080", 0),
    ("A10", 1),
    ("A10G", 1),
    ("L4", 1),
    ("4090", 1),
    ("5090", 1),
    ("3090", 1),
    ("L40", 2),
    ("L40S", 2),
    ("A40", 2),
    ("A6000", 2),
    ("H100", 3),
    ("H800", 3),
    ("H20", 4),
    ("H200", 4),
    ("B200", 5),
    ("GB200", 5),
    ("B300", 5),
    ("MI300X", 5),
    ("MI325X", 5),
    ("MI355X", 5),
];

/// Chunk size, largest captured batch with fewer than 4 tensor-parallel ranks, and with more.
const CLASSES: [(u32, u32, u32); 6] =
    [(2048, 8, 8), (2048, 24, 80), (4096, 32, 160), (8192, 256, 512), (8192, 256, 512), (16384, 512, 512)];

fn class_of(device: &str) -> Option<usize> {
    let upper = device.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    if words.contains(&"A100") {
        return match (upper.contains("80G") || words.contains(&"80"), upper.contains("40G") || words.contains(&"40")) {
            (true, _) => Some(3),
            (_, true) => Some(2),
            _ => None,
        };
    }
    DEVICES.iter().find(|(known, _)| words.contains(known)).map(|(_, class)| *class)
}

/// `0.5.4` and later builds as (minor, patch).
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim_start_matches('v').split('.');
    if parts.next()? != "0" {
        return None;
    }
    let number = |part: &str| part[..part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len())].parse().ok();
    Some((number(parts.next()?)?, parts.next().and_then(number).unwrap_or(0)))
}

/// The settings that `query.stated` leaves open and that this version fills in a known way.
pub(super) fn defaults(query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    let Some(version) = version_of(query.version) else { return Vec::new() };
    let stated = |key: &str| query.stated.get(key).map(String::as_str);
    let mut found = vec![
        ("config.tensor_parallel", "1".to_string()),
        ("config.data_parallel", "1".to_string()),
        ("config.prefix_caching", "true".to_string()),
        ("config.enforce_eager", "false".to_string()),
        ("config.kv_dtype", "auto".to_string()),
        ("config.stream_interval", "1".to_string()),
    ];
    if version.0 >= 5 {
        found.push(("config.pipeline_parallel", "1".to_string()));
        found.push(("config.api_processes", "1".to_string()));
        if stated("config.speculative_method").is_none() {
            found.push(("config.async_scheduling", "true".to_string()));
            found.push(("config.speculative_tokens", "0".to_string()));
        }
        found.extend(by_memory(query));
    }
    found.retain(|(key, _)| !query.stated.contains_key(*key));
    found
}

fn by_memory(query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    let Some(class) = class_of(query.device) else { return Vec::new() };
    let (chunk, few, many) = CLASSES[class];
    let stated = |key: &str| query.stated.get(key).map(String::as_str);
    let mut found = Vec::new();
    if stated("config.chunked_prefill") != Some("false") {
        found.push(("config.chunked_prefill", "true".to_string()));
        found.push(("config.max_num_batched_tokens", chunk.to_string()));
    }
    let ranks = stated("config.tensor_parallel").map_or(Ok(1), str::parse::<u32>);
    let is_eager = stated("config.enforce_eager") == Some("true");
    if let (Ok(ranks), false, None) = (ranks, is_eager, stated("config.graph_sizes")) {
        found.push(("config.graph_max_size", if ranks < 4 { few } else { many }.to_string()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, device: &str, stated: &[(&str, &str)], expected: [Option<&str>; 3]) {
        let stated = stated.iter().map(|(key, value)| (format!("config.{key}"), (*value).to_string())).collect();
        let found = defaults(&DefaultsQuery { version, device, generation: "", stated });
        let get = |key: &str| found.iter().find(|(known, _)| *known == format!("config.{key}")).map(|(_, value)| value.as_str());
        assert_eq!([get("max_num_batched_tokens"), get("graph_max_size"), get("prefix_caching")], expected, "{version} on {device:?}");
    }

    #[test]
    fn sizes_follow_device_memory() {
        check("0.5.4", "L40", &[], [Some("4096"), Some("32"), Some("true")]);
        check("0.5.4", "NVIDIA H100 80GB HBM3", &[("tensor_parallel", "8")], [Some("8192"), Some("512"), Some("true")]);
        check("0.5.10", "NVIDIA A100-SXM4-40GB", &[], [Some("4096"), Some("32"), Some("true")]);
        check("0.5.10", "A100", &[], [None, None, Some("true")]);
        check("0.5.10", "B200", &[("enforce_eager", "true"), ("prefix_caching", "false")], [Some("16384"), None, None]);
        check("0.4.3", "L40", &[], [None, None, Some("true")]);
        check("main", "L40", &[], [None; 3]);
    }
}
