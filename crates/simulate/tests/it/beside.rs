//! Data that may lie beside the checkout. Without it a test says what it skipped; with `INFEROSCOPE_REQUIRE=all` that is
//! a failure.

use std::path::{Path, PathBuf};

/// The text of a file of the shared corpus, or nothing where there is none.
#[expect(clippy::print_stderr, reason = "who runs the tests must see what was skipped")]
pub(crate) fn corpus(file: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("INFEROSCOPE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let path = shared.join("corpus/workloads").join(file);
    if let Ok(text) = std::fs::read_to_string(&path) {
        return Some(text);
    }
    let all_required = std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all");
    assert!(!all_required, "nothing may be skipped, and {} is not there", path.display());
    eprintln!("skipped: {file}, no corpus beside the checkout");
    None
}
