//! Everything we build on may be shipped in a program under MIT or Apache-2.0.

use serde_json::Value;

use crate::workspace::{metadata, program, stdout_of};

/// Licenses we accept (SPDX ids). MPL-2.0 binds its own files only.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Whether an SPDX expression can be met with accepted licenses. `/` is an old spelling of OR.
fn is_accepted(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&words, &mut at) && at == words.len()
}

fn either(words: &[&str], at: &mut usize) -> bool {
    let mut accepted = both(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        accepted |= both(words, at);
    }
    accepted
}

fn both(words: &[&str], at: &mut usize) -> bool {
    let mut accepted = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        accepted &= one(words, at);
    }
    accepted
}

fn one(words: &[&str], at: &mut usize) -> bool {
    if words.get(*at) == Some(&"(") {
        *at += 1;
        let accepted = either(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return accepted && closed;
    }
    let mut license = words.get(*at).copied().unwrap_or_default().to_string();
    *at += 1;
    if words.get(*at) == Some(&"WITH") {
        license = format!("{license} WITH {}", words.get(*at + 1).copied().unwrap_or_default());
        *at += 2;
    }
    ACCEPTED.contains(&license.as_str())
}

/// Name, version and license of every package in the build for this machine.
fn packages() -> Vec<(String, String)> {
    let version = stdout_of(&mut program("rustc", &["-vV"])).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_string();
    let metadata = metadata(&["--filter-platform", &host]).unwrap();
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_string();
    let row = |package: &Value| (format!("{} {}", text(package, "name"), text(package, "version")), text(package, "license"));
    metadata["packages"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn every_dependency_has_an_accepted_license() {
    let packages = packages();
    assert!(packages.len() > 50, "only {} packages: this is not the whole build", packages.len());
    let refused: Vec<String> =
        packages.iter().filter(|(_, license)| !is_accepted(license)).map(|(name, license)| format!("{name}: `{license}`")).collect();
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    for expression in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception"] {
        assert!(is_accepted(expression), "{expression}");
    }
    for expression in
        ["", "GPL-3.0", "LGPL-2.1 AND MIT", "MIT AND", "(MIT", "MIT Apache-2.0", "Apache-2.0 WITH Other-exception", "Proprietary"]
    {
        assert!(!is_accepted(expression), "{expression}");
    }
}
