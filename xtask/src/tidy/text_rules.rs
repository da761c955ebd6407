//! Rules that one file can break.

use std::path::{Component, Path};

use super::Breach;
use super::rust_source::{functions, without_tests};

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 70;

/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["common", "helper", "helpers", "manager", "util", "utils", "misc"];

/// Places of one machine, which mean nothing on another. Spelled apart, since this file is checked too.
const MACHINE_PATHS: [&str; 2] = [concat!("/", "work/"), concat!("/", "root/")];

/// Folders whose files are evidence as found.
const EVIDENCE: [&str; 3] = ["artifacts", "examples", "samples"];

/// Start of the names of license texts, which stay as their authors laid them out.
const LICENSE: &str = "LICENSE";

/// Everything wrong with one text file.
pub(super) fn breaches(file: &Path, text: &str) -> Vec<Breach> {
    let name = file.display().to_string();
    let mut found = machine_paths(&name, text);
    if !is_evidence(file) {
        found.extend(line_rules(&name, text));
        found.extend(name_rule(file, &name));
    }
    if file.extension().is_some_and(|extension| extension == "rs") {
        found.extend(rust_rules(&name, text));
    }
    found
}

fn is_evidence(file: &Path) -> bool {
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    if file.to_string_lossy().starts_with(LICENSE) {
        return true;
    }
    let mut folders = file.components().filter_map(|part| if let Component::Normal(name) = part { name.to_str() } else { None });
    !is_rust && folders.any(|folder| EVIDENCE.contains(&folder))
}

fn machine_paths(name: &str, text: &str) -> Vec<Breach> {
    let hit = |line: &&str| MACHINE_PATHS.iter().any(|path| starts_a_path(line, path));
    let lines = text.lines().filter(hit).count();
    let found = format!("{lines} lines name a folder of one machine");
    if lines == 0 { Vec::new() } else { vec![Breach { rule: "machine-path", what: name.to_string(), found }] }
}

/// Whether `path` stands in the line as the start of an absolute path, not inside a longer one or an address.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-/".contains(before)))
}

fn line_rules(name: &str, text: &str) -> Vec<Breach> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let place = format!("line {}", at + 1);
        if line.contains('\t') {
            found.push(Breach { rule: "tab", what: name.to_string(), found: format!("{place}: a tab, expected spaces") });
        }
        if let Some(rest) = mark_without_text(line) {
            let found_text = format!("{place}: expected `{MARK}: ` and a sentence, found `{rest}`");
            found.push(Breach { rule: "fixme", what: name.to_string(), found: found_text });
        }
    }
    found
}

/// The mark for a known wrong answer, spelled apart for the same reason as above.
const MARK: &str = concat!("FIX", "ME");

fn mark_without_text(line: &str) -> Option<&str> {
    let at = line.find(MARK)?;
    let rest = &line[at + MARK.len()..];
    let has_text = rest.strip_prefix(": ").is_some_and(|sentence| sentence.split_whitespace().count() >= 3);
    let is_comment = line[..at].trim_start().starts_with("//") || line[..at].contains(" // ");
    if has_text || !is_comment { None } else { Some(rest.trim()) }
}

fn name_rule(file: &Path, name: &str) -> Option<Breach> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_code = file.extension().is_some_and(|extension| ["rs", "py", "js", "sh"].iter().any(|known| extension == *known));
    let is_empty = EMPTY_NAMES.contains(&stem) || EMPTY_NAMES.iter().any(|word| stem.ends_with(&format!("_{word}")));
    (is_code && is_empty).then(|| Breach {
        rule: "file-name",
        what: name.to_string(),
        found: "a name that says nothing; name the thing inside".into(),
    })
}

fn rust_rules(name: &str, text: &str) -> Vec<Breach> {
    let mut found = Vec::new();
    if !text.trim_start().starts_with("//!") {
        found.push(Breach {
            rule: "module-comment",
            what: name.to_string(),
            found: "expected `//!` and what the file is, at its top".into(),
        });
    }
    if is_test_file(name) {
        return found;
    }
    let code = without_tests(text);
    let lines = code.lines().count();
    if lines > MAX_FILE_LINES {
        found.push(Breach {
            rule: "file-length",
            what: name.to_string(),
            found: format!("{lines} lines, at most {MAX_FILE_LINES} without a reason"),
        });
    }
    for function in functions(code).into_iter().filter(|function| function.line_count > MAX_FUNCTION_LINES) {
        let what = format!("{name}::{}", function.name);
        found.push(Breach {
            rule: "function-length",
            what,
            found: format!("{} lines, at most {MAX_FUNCTION_LINES} without a reason", function.line_count),
        });
    }
    found
}

/// Tests hold long expected texts; their length is their reader's business.
fn is_test_file(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(file: &str, text: &str, expected: &Expect) {
        let found: Vec<String> = breaches(Path::new(file), text).iter().map(ToString::to_string).collect();
        expected.assert_eq(&found.join("\n"));
    }

    #[test]
    fn a_good_file_breaks_nothing() {
        check("crates/a/src/kv.rs", "//! What it is.\n\nfn a() {}\n", &expect![[""]]);
    }

    #[test]
    fn long_files_and_functions_are_named() {
        let body = "    let _ = 1;\n".repeat(80);
        let text = format!("//! Long.\nfn long() {{\n{body}}}\n{}", "// filler\n".repeat(600));
        check(
            "crates/a/src/kv.rs",
            &text,
            &expect![[r#"
                crates/a/src/kv.rs: 683 lines, at most 600 without a reason [file-length]
                crates/a/src/kv.rs::long: 82 lines, at most 70 without a reason [function-length]"#]],
        );
    }

    #[test]
    fn a_file_says_what_it_is_by_name_and_first_line() {
        check(
            "crates/a/src/string_utils.rs",
            "use std::fmt;\n",
            &expect![[r#"
                crates/a/src/string_utils.rs: a name that says nothing; name the thing inside [file-name]
                crates/a/src/string_utils.rs: expected `//!` and what the file is, at its top [module-comment]"#]],
        );
    }

    #[test]
    fn tabs_marks_and_machine_paths_are_named() {
        let text = format!(
            "//! X.\n\tfn a() {{}}\n// {MARK}\n// {MARK}: wrong by 3 % until resets are split\nconst P: &str = \"/{}x\";\n",
            "root/"
        );
        check(
            "crates/a/src/kv.rs",
            &text,
            &expect![[r#"
                crates/a/src/kv.rs: 1 lines name a folder of one machine [machine-path]
                crates/a/src/kv.rs: line 2: a tab, expected spaces [tab]
                crates/a/src/kv.rs: line 3: expected `FIXME: ` and a sentence, found `` [fixme]"#]],
        );
    }

    #[test]
    fn evidence_keeps_its_tabs_and_a_url_is_no_folder() {
        check("cases/a/b/artifacts/notes.txt", &format!("a\tb https://example.org/{}x\n", "work/"), &expect![[""]]);
    }
}
