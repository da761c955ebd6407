//! Which processes of this host are the engine's, and what role each plays.
//!
//! Roles are told by the names that engines give their processes and by who started whom; they are the ones that other host
//! evidence uses. Of a command line only its first words are looked at, to find a process by name; none is kept.

use std::collections::BTreeMap;
use std::fs;

/// Processes that are looked at on one host, at most.
const MAX_PROCESSES: usize = 256;
/// Bytes read of a command line.
const MAX_COMMAND_BYTES: usize = 4096;
/// Words of a command line in which a name counts: `python -m vllm.entrypoints...`, `/usr/bin/python /opt/bin/vllm`.
const NAME_WORDS: usize = 4;

/// Which processes are the engine's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// None is looked at.
    #[default]
    None,
    /// This one and what it started.
    Id(u32),
    /// Those whose name or first words hold this text, and what they started.
    Named(String),
}

/// A process and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: u32,
    pub(super) role: String,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    parent: u32,
    name: String,
    title: Vec<String>,
}

/// The engine's processes as they stand now.
pub(super) fn find(wanted: &Processes) -> Vec<Member> {
    if *wanted == Processes::None {
        return Vec::new();
    }
    members(&all(), wanted, std::process::id())
}

fn members(all: &BTreeMap<u32, Seen>, wanted: &Processes, own: u32) -> Vec<Member> {
    let is_wanted = |pid: u32, seen: &Seen| match wanted {
        Processes::None => false,
        Processes::Id(id) => pid == *id,
        Processes::Named(text) => {
            pid != own && (seen.name.contains(text) || seen.title.iter().take(NAME_WORDS).any(|word| last_part(word).contains(text)))
        }
    };
    let chosen: Vec<u32> = all.iter().filter(|(pid, seen)| is_wanted(**pid, seen)).map(|(pid, _)| *pid).collect();
    let is_below = |pid: u32, root: u32| {
        let mut at = pid;
        for _ in 0..64 {
            match all.get(&at) {
                Some(seen) if seen.parent == root => return true,
                Some(seen) => at = seen.parent,
                None => return false,
            }
        }
        false
    };
    let roots: Vec<u32> = chosen.iter().copied().filter(|pid| !chosen.iter().any(|root| is_below(*pid, *root))).collect();
    let mut found = Vec::new();
    for (number, root) in roots.iter().enumerate() {
        let suffix = if roots.len() > 1 { format!("-{number}") } else { String::new() };
        for (pid, seen) in all.iter().filter(|(pid, _)| *pid == root || is_below(**pid, *root)) {
            found.push(Member { pid: *pid, role: format!("{}{suffix}", role(seen, pid == root)) });
        }
    }
    found.truncate(MAX_PROCESSES);
    found
}

/// Engines title their processes: vLLM `VLLM::EngineCore`, `VLLM::Worker_TP0`, SGLang `sglang::scheduler`, `sglang::detokenizer`. A
/// name is cut after 15 characters.
fn role(seen: &Seen, is_root: bool) -> &'static str {
    let says = |part: &str| seen.name.contains(part) || seen.title.first().is_some_and(|word| word.contains(part));
    if says("EngineCor") || says("sglang::schedul") {
        "engine_core"
    } else if says("VLLM::Worker") {
        "worker"
    } else if says("sglang::detoken") {
        "detokenizer"
    } else if is_root {
        "api_server"
    } else {
        "api_server_child"
    }
}

fn last_part(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn all() -> BTreeMap<u32, Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, seen(pid)?))).collect()
}

fn seen(pid: u32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_string();
    let parent = after.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let mut command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.truncate(MAX_COMMAND_BYTES);
    let words = command.split(|byte| *byte == 0 || *byte == b' ').filter(|word| !word.is_empty()).take(NAME_WORDS);
    Some(Seen { parent, name, title: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_from_titles_and_the_tree() {
        let seen = |parent: u32, name: &str, title: &[&str]| Seen {
            parent,
            name: name.to_string(),
            title: title.iter().map(ToString::to_string).collect(),
        };
        let all = BTreeMap::from([
            (1, seen(0, "init", &["/sbin/init"])),
            (10, seen(1, "vllm", &["/usr/bin/python", "/opt/bin/vllm", "serve"])),
            (11, seen(10, "VLLM::EngineCor", &["VLLM::EngineCore"])),
            (12, seen(11, "VLLM::Worker_TP", &["VLLM::Worker_TP0"])),
            (13, seen(10, "python", &["python", "-c"])),
            (20, seen(1, "inferoscope", &["inferoscope", "record", "--process", "vllm"])),
        ]);
        let shown = |wanted: &Processes| {
            let found = members(&all, wanted, 20);
            found.iter().map(|member| format!("{} {}", member.pid, member.role)).collect::<Vec<_>>().join(", ")
        };
        let expected = "10 api_server, 11 engine_core, 12 worker, 13 api_server_child";
        assert_eq!(shown(&Processes::Named("vllm".into())), expected);
        assert_eq!(shown(&Processes::Id(10)), expected);
        assert_eq!(shown(&Processes::Id(99)), "");
    }
}
