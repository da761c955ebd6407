//! Processes that are killed while they write a capture, and disks that are full.
//!
//! Not a test harness: this program starts itself again as the process that is killed. It prints what it skips.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test, and one that must say what it skips

#[path = "it/sample.rs"]
#[allow(dead_code)]
mod sample;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capture::store::{self, StoreError, Writer};

use sample::{Random, issues, piece};

/// What the child does, and where.
const CHILD: &str = "INFEROSCOPE_CRASH_CHILD";

/// Kills in all, spread over the kinds of child.
const KILLS: u64 = 200;

/// Rows in a segment of the recordings below.
const ROWS: u32 = 20;

fn main() {
    if let Ok(mode) = std::env::var(CHILD) {
        let dir = PathBuf::from(std::env::args().nth(1).unwrap());
        match mode.as_str() {
            "record" => record(&dir),
            "finish" => finish(&dir),
            "replace" => replace(&dir),
            "overflow" => overflow(&dir),
            other => panic!("no child of this kind: {other}"),
        }
        return;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    let cases: [(&str, fn()); 3] = [("killed", killed), ("limited_file_size", limited_file_size), ("full_disk", full_disk)];
    for (name, case) in cases {
        if args.iter().any(|arg| arg == "--list") {
            println!("{name}: test");
        } else if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            case();
        }
    }
}

fn say(line: impl std::fmt::Display) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

fn child(mode: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CHILD, mode).arg(dir).stdout(Stdio::piped());
    command
}

/// Kills children at random moments and checks what they leave.
fn killed() {
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            std::thread::spawn(move || {
                let random = &mut Random(worker);
                for at in 0..KILLS / 4 {
                    match at % 3 {
                        0 => check_record(random),
                        1 => check_finish(random),
                        _ => check_replace(random),
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{KILLS} kills: every closed segment and every finished capture was whole");
}

/// Starts a child, lets it work for a random time, kills it, and returns the last number it said.
fn kill_at_random(mode: &str, dir: &Path, random: &mut Random) -> u32 {
    let mut child: Child = child(mode, dir).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap(); // it says a 0 when it starts to work
    std::thread::sleep(Duration::from_micros(random.below(40_000) as u64));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().last().map_or(0, |line| line.parse().unwrap())
}

fn values(capture: &capture::Capture) -> Vec<u32> {
    capture.tables.samples.value.iter().map(|value| *value as u32).collect()
}

/// Closes one segment after the other, and says how many rows are safe.
fn record(dir: &Path) {
    say(0);
    let mut writer = Writer::create(&dir.join("a.capture")).unwrap();
    for segment in 0.. {
        writer.append(piece(segment * ROWS, ROWS)).unwrap();
        writer.flush().unwrap();
        say((segment + 1) * ROWS);
    }
}

fn check_record(random: &mut Random) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let safe = kill_at_random("record", dir.path(), random);
    if safe == 0 && !store::is_capture(&path) {
        return; // killed before there was anything
    }
    let open = store::open(&path).unwrap();
    let found = values(&open);
    let count = found.len() as u32;
    assert!(count >= safe && count.is_multiple_of(ROWS), "{count} rows, {safe} were said to be safe");
    assert_eq!(found, (0..count).collect::<Vec<_>>());
    assert_eq!(issues(&open).lines().count(), 1, "only that it was not finished: {}", issues(&open));
    store::compact(&path).unwrap();
    assert!(store::open(&path).unwrap() == open);
    assert!(!path.join("segments").exists());
}

/// Makes one finished capture after the other, and says how many there are.
fn finish(dir: &Path) {
    say(0);
    for number in 0.. {
        let mut writer = Writer::create(&dir.join(format!("{number}.capture"))).unwrap();
        for segment in 0..3 {
            writer.append(piece(segment * ROWS, ROWS)).unwrap();
            writer.flush().unwrap();
        }
        writer.finish().unwrap();
        say(number + 1);
    }
}

fn check_finish(random: &mut Random) {
    let dir = tempfile::tempdir().unwrap();
    let finished = kill_at_random("finish", dir.path(), random);
    for number in 0..=finished {
        let path = dir.path().join(format!("{number}.capture"));
        if number == finished && !store::is_capture(&path) {
            continue; // killed before it was there
        }
        let found = values(&store::open(&path).unwrap());
        let count = found.len() as u32;
        assert!(number == finished || count == 3 * ROWS);
        assert_eq!(found, (0..count).collect::<Vec<_>>());
        store::compact(&path).unwrap();
        let open = store::open(&path).unwrap();
        assert_eq!(values(&open), found);
        let left: Vec<String> = sample::files(&path).into_iter().map(|(name, _)| name).filter(|name| name.contains('/')).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Replaces one capture over and over, and says which one was written last.
fn replace(dir: &Path) {
    say(0);
    for number in 1.. {
        store::write(&piece(number, ROWS), &dir.join("a.capture")).unwrap();
        say(number);
    }
}

fn check_replace(random: &mut Random) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let written = kill_at_random("replace", dir.path(), random);
    if written > 0 || store::is_capture(&path) {
        let open = store::open(&path).unwrap();
        let first = values(&open)[0];
        assert!((written..=written + 1).contains(&first), "capture {first}, {written} was the last known to be written");
        assert_eq!(values(&open), (first..first + ROWS).collect::<Vec<_>>());
        assert_eq!(issues(&open), "");
    }
    store::write(&piece(7, ROWS), &path).unwrap();
    assert_eq!(values(&store::open(&path).unwrap())[0], 7);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing of the killed process stays");
}

/// Samples that do not pack: about 8 bytes a row.
fn incompressible(rows: u32) -> capture::Capture {
    let mut capture = piece(0, rows);
    let random = &mut Random(1);
    capture.tables.samples.value.iter_mut().for_each(|value| *value = f64::from_bits(random.next() >> 2));
    capture
}

/// Writes more than fits, in both ways, and says what the user would read.
fn overflow(dir: &Path) {
    let large = incompressible(50_000);
    for result in [store::write(&large, &dir.join("a.capture")), store::write(&large, &dir.join("new.capture"))] {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        say(error);
    }
    let mut writer = Writer::create(&dir.join("b.capture")).unwrap();
    writer.append(piece(0, ROWS)).unwrap();
    writer.flush().unwrap();
    let error = writer.append(large).unwrap_err(); // many rows: closes the segment
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    say(error);
}

/// What is left in a directory where a process ran out of space.
fn check_overflow(dir: &Path) {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.capture", "b.capture"], "nothing half written stays");
    let open = store::open(&dir.join("a.capture")).unwrap();
    assert_eq!((values(&open).len() as u32, issues(&open).as_str()), (ROWS, ""), "the capture that was there");
    let open = store::open(&dir.join("b.capture")).unwrap();
    assert_eq!(values(&open).len() as u32, ROWS, "the closed segment");
    assert!(!dir.join("b.capture/segments/000001.tmp").exists());
}

fn limited_file_size() {
    let dir = tempfile::tempdir().unwrap();
    store::write(&piece(0, ROWS), &dir.path().join("a.capture")).unwrap();
    let program = std::env::current_exe().unwrap();
    let script = r#"trap "" XFSZ; ulimit -f 200; exec "$0" "$1""#; // in blocks of 512 bytes
    let output = Command::new("sh").args(["-c", script]).arg(&program).arg(dir.path()).env(CHILD, "overflow").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = format!("no space left to write `{}/a.capture/samples.parquet`: File too large", dir.path().display());
    assert!(said.starts_with(&expected), "{said}");
    check_overflow(dir.path());
    println!("a file larger than allowed: told, nothing half written");
}

fn full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=300k", "tmpfs"]).arg(dir.path()).stderr(Stdio::null()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: a full disk (no permission to mount a small one)");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        store::write(&piece(0, ROWS), &dir.path().join("a.capture")).unwrap();
        let output = child("overflow", dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        check_overflow(dir.path());
    });
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    println!("a full disk: told, nothing half written");
}
