//! Recording where the threads of a real CPython stand, and who holds its interpreter lock. Without a `python3` there is
//! nothing to record: the test says so, and where nothing may be skipped (`INFEROSCOPE_REQUIRE=all`) that is a failure.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use capture::{Capture, labels};
use live::{Processes, RecordPlan, record};

/// Threads that spin with the lock, one that sleeps, and the main one, which waits in a lock of its own.
const SCRIPT: &str = "
import sys, threading, time

def spin():
    while True:
        sum(range(1000))

def rest():
    time.sleep(1000)

for name in sys.argv[1:]:
    threading.Thread(target=spin, name=name, daemon=True).start()
threading.Thread(target=rest, name='sleeper', daemon=True).start()
print('ready' if sys.version_info >= (3, 11) else 'old', flush=True)
threading.Event().wait()
";

/// Ends with the test.
struct Engine(Child);

impl Engine {
    /// Starts an interpreter with spinning threads of these names.
    #[expect(clippy::print_stderr)] // who runs the tests must see it
    fn start(spinning: &[&str]) -> Option<Self> {
        let mut command = Command::new("python3");
        let started = command.args(["-c", SCRIPT]).args(spinning).stdout(Stdio::piped()).spawn();
        let engine = started.ok().map(|mut child| {
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            (Self(child), line)
        });
        let found = engine.filter(|(_, line)| line == "ready\n").map(|(engine, _)| engine);
        if found.is_none() {
            let all_required = std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all");
            assert!(!all_required, "nothing may be skipped, and no `python3` of 3.11 or later is installed");
            eprintln!("skipped: threads of a real Python, no `python3` of 3.11 or later is installed");
        }
        found
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn recorded(engine: &Engine, python: bool) -> Capture {
    let out = std::env::temp_dir().join(format!("inferoscope-python-{}-{}.capture", std::process::id(), engine.0.id()));
    let _ = std::fs::remove_dir_all(&out);
    let plan = RecordPlan {
        targets: Vec::new(),
        logs: Vec::new(),
        processes: Processes::Id(engine.0.id()),
        python,
        nvml: None,
        out,
        duration: Some(Duration::from_secs(60)),
        interval: Duration::from_millis(500),
        timeout: Duration::from_secs(1),
        profile: None,
    };
    let (stop, segments) = (AtomicBool::new(false), AtomicU32::new(0));
    let told = record(&plan, &stop, &|told| {
        let is_enough = if python { told.look_count >= 30 } else { segments.fetch_add(1, Ordering::Relaxed) >= 1 };
        stop.store(is_enough, Ordering::Relaxed);
    })
    .unwrap();
    assert!(told.notes.is_empty() && told.is_finished, "{told:?}");
    let capture = capture::store::open(&plan.out).unwrap();
    std::fs::remove_dir_all(&plan.out).unwrap();
    capture
}

/// A share in words that a busy machine does not change.
fn in_words(share: f64) -> &'static str {
    match share {
        ..0.02 => "never",
        ..0.2 => "seldom",
        ..0.8 => "about half of the time",
        _ => "nearly always",
    }
}

/// What a reader of the capture learns, a line each.
fn learned(capture: &Capture) -> String {
    let mut held: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut text = String::new();
    for row in capture.tables.samples.rows() {
        let own = capture.text(row.labels);
        match capture.text(row.signal) {
            "proc.gil_held" => held.entry(labels::get(own, "thread").unwrap()).or_default().push(row.value),
            "proc.gil_wait" if row.t_ns == 0 => text.push_str(&format!("the engine waits for its lock {}\n", in_words(row.value))),
            _ => {}
        }
    }
    for (thread, shares) in held {
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        text.push_str(&format!("{thread} holds the lock {}\n", in_words(mean)));
    }
    let mut stacks: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for row in capture.tables.stacks.rows() {
        let innermost = capture.text(row.folded).rsplit(';').next().unwrap();
        *stacks.entry((capture.text(row.role), innermost)).or_default() += row.weight;
    }
    let mut most: BTreeMap<&str, (f64, &str)> = BTreeMap::new();
    for ((role, frame), weight) in stacks {
        let found = most.entry(role).or_insert((0.0, ""));
        *found = if weight > found.0 { (weight, frame) } else { *found };
    }
    for (role, (_, frame)) in most {
        text.push_str(&format!("{role} stands in {frame}\n"));
    }
    text
}

#[test]
fn who_holds_the_lock_and_where_threads_stand() {
    let Some(engine) = Engine::start(&["busy"]) else { return };
    let capture = recorded(&engine, true);
    expect_test::expect![[r#"
        the engine waits for its lock never
        busy holds the lock nearly always
        api_server/MainThread stands in Condition.wait (threading.py:327)
        api_server/busy stands in spin (<string>:6)
        api_server/sleeper stands in rest (<string>:9)
    "#]]
    .assert_eq(&learned(&capture));
    // Rows have the time at which they were seen, and of a path only its last name.
    let first_ns = capture.tables.stacks.t_ns.iter().min().unwrap();
    assert!(*first_ns > 1_700_000_000_000_000_000, "{first_ns}");
    let all = capture.tables.stacks.folded.iter().map(|name| capture.text(*name));
    assert!(all.clone().all(|folded| !folded.contains('/')), "{:?}", all.collect::<Vec<_>>());
}

#[test]
fn two_threads_that_want_the_lock_wait_for_each_other() {
    let Some(engine) = Engine::start(&["first", "second"]) else { return };
    expect_test::expect![[r#"
        the engine waits for its lock about half of the time
        first holds the lock about half of the time
        second holds the lock about half of the time
        api_server/MainThread stands in Condition.wait (threading.py:327)
        api_server/first stands in spin (<string>:6)
        api_server/second stands in spin (<string>:6)
        api_server/sleeper stands in rest (<string>:9)
    "#]]
    .assert_eq(&learned(&recorded(&engine, true)));
}

#[test]
fn nothing_is_looked_at_unasked() {
    let Some(engine) = Engine::start(&["busy"]) else { return };
    assert_eq!(learned(&recorded(&engine, false)), "");
}
