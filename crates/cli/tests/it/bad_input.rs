//! Inputs that cannot be right: a sentence and exit code 2 or 3, never a panic, never a hang.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{self, Run};

/// Diagnoses `make`'s path inside a fresh folder and demands a refusal with words.
fn refused(make: impl FnOnce(&Path) -> PathBuf) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let input = make(folder.path());
    let run = program::run(["diagnose".as_ref(), input.as_os_str()]);
    assert!(run.code == 2 || run.code == 3, "exit code {} with {run:?}", run.code);
    let told = if run.code == 2 { &run.stderr } else { &run.stdout };
    assert!(told.split_whitespace().count() > 3, "too few words: {run:?}");
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    assert!(run.code == 3 || run.stderr.starts_with("error: "), "{}", run.stderr);
    assert!(run.code == 3 || run.stdout.is_empty(), "an answer and a failure at once: {}", run.stdout);
    run
}

fn file(name: &str, content: &[u8]) -> Run {
    refused(|folder| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    })
}

/// Bytes without meaning, always the same ones.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn an_empty_file() {
    file("metrics.prom", b"");
}

#[test]
fn a_web_page_in_place_of_metrics() {
    file("metrics.prom", b"<!doctype html>\n<html><head><title>404 Not Found</title></head><body>nginx</body></html>\n");
}

#[test]
fn a_file_that_is_not_there() {
    let run = refused(|folder| folder.join("metrics.prom"));
    assert!(run.code == 2 && run.stderr.contains("metrics.prom"), "{}", run.stderr);
}

#[test]
fn an_empty_folder() {
    refused(Path::to_path_buf);
}

#[test]
fn a_folder_that_contains_itself() {
    refused(|folder| {
        symlink(folder, folder.join("again")).unwrap();
        folder.to_path_buf()
    });
}

#[test]
fn a_link_to_itself() {
    refused(|folder| {
        let path = folder.join("loop.prom");
        symlink(&path, &path).unwrap();
        path
    });
}

#[test]
fn a_file_that_cannot_be_read() {
    // Readable by its mode for anyone, by its content for nobody.
    refused(|_| PathBuf::from("/proc/self/mem"));
}

#[test]
fn a_pipe_nobody_writes_to() {
    refused(|folder| {
        let path = folder.join("metrics.prom");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        folder.to_path_buf()
    });
}

#[test]
fn noise_under_every_name() {
    for name in ["metrics.prom", "server.log", "bench.json", "host.jsonl", "command.txt", "data.bin", "x.prom.gz"] {
        file(name, &noise(40_000));
    }
}

#[test]
fn a_gzip_file_that_ends_early() {
    file("metrics.prom.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b]);
}

#[test]
fn json_of_another_kind() {
    file("bench.json", br#"{"name": "left-pad", "version": "1.0.0"}"#);
}

#[test]
fn typed_numbers_with_a_signal_nobody_knows() {
    let run =
        file("observations.toml", b"schema = \"inferoscope.observations/1\"\n[[run]]\n[run.signals]\n\"server.ttfft.mean\" = \"2 s\"\n");
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(told.contains("server.ttft.mean"), "the nearest name is not given: {told}");
}

#[test]
fn a_capture_without_content() {
    refused(|folder| {
        let path = folder.join("run.capture");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("manifest.json"), "{}").unwrap();
        path
    });
}

/// They have no end.
#[test]
fn a_device() {
    for device in ["/dev/zero", "/dev/urandom", "/dev/full"] {
        let run = refused(|_| PathBuf::from(device));
        assert_eq!(run.stderr, format!("error: `{device}` is a device, which is not read; save what it holds to a file first\n"));
    }
}

/// Not "a folder of binary data".
#[test]
fn a_capture_with_a_damaged_manifest() {
    let run = refused(|folder| {
        let path = folder.join("run.capture");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("manifest.json"), "{\"kind\": \"infero").unwrap();
        fs::write(path.join("samples.parquet"), noise(4000)).unwrap();
        path
    });
    assert!(run.code == 2 && run.stderr.contains("manifest.json` is damaged: expected a JSON object"), "{run:?}");
}

/// Names and arguments that would color the screen, fake a line of the program, or reorder one.
#[test]
fn no_name_steers_the_terminal() {
    let name = "a\u{1b}[31mEVIL\u{9b}\u{202e}\nerror: all is well\n  cause: none.prom";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), "<!doctype html>\n<title>404</title>\n").unwrap();
    fs::create_dir(folder.path().join("x.capture")).unwrap();
    for args in [
        &["diagnose", name][..],
        &["diagnose", "missing\u{1b}[2J\nerror: fake"],
        &["diagnose", "x.capture", name],
        &["diagnose", &format!("{name}://host")],
        &["diagnose", "x", "--html", name],
        &["capture", name, "-o", name],
        &["capture", "x", "-o", "y", "--window", name],
        &["explain", name],
        &[name],
        &["diagnose", "x", &format!("--{name}")],
    ] {
        let run = program::finish(program::command().current_dir(folder.path()).args(args));
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        let is_bad = |sign: &char| (sign.is_control() && *sign != '\n') || *sign == '\u{202e}';
        assert_eq!(run.stderr.chars().find(is_bad), None, "{args:?}: {}", run.stderr);
        let starts = run.stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("  cause: none"));
        assert_eq!(starts.count(), 1, "{args:?}: {}", run.stderr);
    }
}
