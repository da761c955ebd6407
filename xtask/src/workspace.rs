//! Where things are, and running other programs there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    let crate_folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_folder.parent().map(Path::to_path_buf).unwrap_or(crate_folder)
}

/// A program that will run at the root.
pub(crate) fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).args(args);
    command
}

/// The cargo that runs this tool.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    program(&cargo, args)
}

/// Runs to the end with the terminal's own stdout and stderr; anything but success is an error.
pub(crate) fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` failed");
    Ok(())
}

/// What the program prints.
pub(crate) fn stdout_of(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("could not start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed something else than text"))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Files git knows or would take, relative to the root, sorted; deleted ones left out.
pub(crate) fn files() -> anyhow::Result<Vec<PathBuf>> {
    let listed = stdout_of(&mut program("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut files: Vec<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// `cargo metadata` without network.
pub(crate) fn metadata(args: &[&str]) -> anyhow::Result<Value> {
    let text = stdout_of(cargo(&["metadata", "--format-version", "1", "--offline"]).args(args))?;
    serde_json::from_str(&text).context("`cargo metadata` printed something else than JSON")
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let metadata = metadata(&["--no-deps"])?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("`cargo metadata` names no target directory")
}

/// Builds the release program and returns its path.
pub(crate) fn release_program() -> anyhow::Result<PathBuf> {
    succeed(&mut cargo(&["build", "--release", "--package", "cli"]))?;
    Ok(target_folder()?.join("release/inferoscope"))
}
