//! The first screen of the shipped case `open_loop_32`, as an engineer reads it.

use expect_test::expect_file;

use crate::program;

#[test]
fn the_first_screen_of_the_shipped_case() {
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/batch_cap_reached/open_loop_32/artifacts");
    let run = program::run(["diagnose", case]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80));
    expect_file!["first_screen.txt"].assert_eq(&run.stdout);
}
