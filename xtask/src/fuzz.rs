//! `cargo xtask fuzz`: every fuzz target for a while, with cargo-fuzz. Seeds are the samples of the tests.
//!
//! The targets need unstable compiler flags; on a stable toolchain they are allowed for this build alone. `cargo xtask test`
//! runs the same functions over samples and mutations without any of this.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::workspace::{cargo, root, succeed};

/// Seconds per target unless told otherwise.
const SECONDS: u32 = 60;
/// Memory at which a target counts as unbounded, MB.
const MEMORY_MB: u32 = 2048;

/// Runs the targets named, else all, each for `--seconds`.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let (seconds, named) = match args {
        ["--seconds", seconds, named @ ..] => (seconds.parse().context("expected a number after `--seconds`")?, named),
        named => (SECONDS, named),
    };
    let installed = Command::new("cargo").args(["fuzz", "--version"]).output().is_ok_and(|output| output.status.success());
    ensure!(installed, "cargo-fuzz is not installed: `cargo install cargo-fuzz`");
    let all = targets(&root().join("fuzz/fuzz_targets"))?;
    if let Some(unknown) = named.iter().find(|name| !all.iter().any(|target| target == **name)) {
        bail!("`{unknown}` is no fuzz target; there are {}", all.join(", "));
    }
    for target in all.iter().filter(|target| named.is_empty() || named.contains(&target.as_str())) {
        println!("fuzz {target} for {seconds} s");
        let corpus = root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus)?;
        let limits = [format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MEMORY_MB}"), "-timeout=10".into()];
        let mut command = cargo(&["fuzz", "run", "--sanitizer", "none", target]);
        command.arg(corpus).arg("crates/ingest/tests/data").arg("--").args(limits).env("RUSTC_BOOTSTRAP", "1");
        succeed(&mut command)?;
    }
    Ok(())
}

fn targets(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("could not list `{}`", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_registered_and_every_registration_is_a_target() {
        let manifest: toml::Table = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap().parse().unwrap();
        let mut registered: Vec<String> =
            manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap().to_string()).collect();
        registered.sort();
        assert_eq!(registered, targets(&root().join("fuzz/fuzz_targets")).unwrap());
    }
}
