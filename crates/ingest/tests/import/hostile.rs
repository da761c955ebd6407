//! Inputs that try: loops, missing things, limits.

use std::fs;
use std::path::PathBuf;

use expect_test::expect;
use ingest::{IngestError, Options};

use crate::shown::{check, data, import};

#[test]
fn folders_that_contain_themselves_end() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::copy(data("vllm-cpu/command.txt"), folder.path().join("inner/command.txt")).unwrap();
    fs::write(folder.path().join(".hidden.prom"), "vllm:num_requests_running 1\n").unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path(), folder.path().join("inner/again")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", folder.path().join("dangling")).unwrap();
        check(
            &import(&[folder.path().to_path_buf()]),
            &["sources"],
            expect![[r#"
            source inner/command.txt command_txt rows=10 unmapped=0
            ! error unreadable_file dangling [] x1 cannot read it: No such file or directory (os error 2)
            ! note folder_loop inner/again [] x1 expected folders without loops, found one that was entered already or lies too deep; it is not entered again
        "#]],
        );
    }
}

#[test]
fn a_missing_input_is_an_error_that_names_it() {
    let error = ingest::read(&[PathBuf::from("/nowhere/metrics.prom")], &Options::default()).unwrap_err();
    assert!(matches!(&error, IngestError::Missing { path } if path.ends_with("metrics.prom")), "{error}");
    assert_eq!(error.to_string(), "cannot read `/nowhere/metrics.prom`: no such file or folder");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(ingest::read(&[empty.path().to_path_buf()], &Options::default()), Err(IngestError::Empty { .. })));
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_told_and_stops_nothing_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data("vllm-cpu/command.txt"), folder.path().join("command.txt")).unwrap();
    let locked = folder.path().join("locked.prom");
    fs::write(&locked, "vllm:num_requests_running 1\n").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let capture = import(&[folder.path().to_path_buf()]);
    let told =
        capture.tables.issues.rows().any(|row| capture.text(row.code) == "unreadable_file" && capture.text(row.source) == "locked.prom");
    // The superuser may read everything: then the file must have been read.
    let read = capture.manifest.sources.iter().any(|source| source.name == "locked.prom" && source.row_count > 0);
    assert_eq!(told, fs::File::open(&locked).is_err());
    assert_ne!(told, read);
}

#[test]
fn limits_cut_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("vllm:num_requests_running{{x=\"{}\"}} 1\nvllm:num_requests_waiting 2\n", "y".repeat(3000));
    fs::write(folder.path().join("a.prom"), long).unwrap();
    fs::write(folder.path().join("b.prom"), "vllm:num_requests_running 1\n".repeat(500)).unwrap();
    fs::write(folder.path().join("c.prom"), "vllm:num_requests_running 1\n").unwrap();
    let options = Options { max_line_bytes: 1000, max_source_bytes: 4000, max_files: 2, ..Options::default() };
    let capture = ingest::read(&[folder.path().to_path_buf()], &options).unwrap();
    check(
        &capture,
        &["sources", "samples"],
        expect![[r#"
        source a.prom prometheus_text rows=2 unmapped=0
        source b.prom prometheus_text rows=1 unmapped=0 damaged
        0 0 engine.running{engine="0",replica="0"} 1
        0 0 engine.running{engine="0",replica="0"} 1
        0 0 engine.waiting{engine="0",replica="0"} 2
        ! warning duplicate_series b.prom [] x141 expected each series once per scrape, found some again; the last value counts
        ! warning line_cut b.prom [last line] x1 expected a line end, found the end of the text; the last line is left out
        ! warning source_too_large b.prom [byte 4000] x1 expected at most 4000 bytes, found more; the rest is left out
        ! warning too_many_files  [] x1 expected at most 2 files, found 1 more; they are left out
    "#]],
    );
}

#[test]
fn progress_reaches_the_number_of_sources() {
    let seen = std::cell::Cell::new((0, 0));
    let note = |progress: ingest::Progress| seen.set((progress.sources_done, progress.sources_total));
    ingest::read(&[data("vllm-cpu")], &Options { progress: Some(&note), ..Options::default() }).unwrap();
    assert_eq!(seen.get(), (6, 6));
}

#[test]
fn a_capture_of_a_newer_schema_is_refused_alone_and_told_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("newer.capture");
    fs::create_dir(&capture).unwrap();
    let manifest =
        r#"{"kind": "inferoscope.capture", "schema_version": 4000, "subject": {}, "sources": [], "clocks": [], "row_counts": {}}"#;
    fs::write(capture.join("manifest.json"), manifest).unwrap();
    let error = ingest::read(std::slice::from_ref(&capture), &Options::default()).unwrap_err();
    assert!(matches!(&error, IngestError::Capture { path, .. } if *path == capture), "{error}");
    fs::copy(data("vllm-cpu/command.txt"), folder.path().join("command.txt")).unwrap();
    let both = import(&[folder.path().to_path_buf()]);
    let codes: Vec<&str> = both.tables.issues.code.iter().map(|name| both.text(*name)).collect();
    assert_eq!((codes, both.manifest.sources.len()), (vec!["unreadable_capture"], 1));
}
