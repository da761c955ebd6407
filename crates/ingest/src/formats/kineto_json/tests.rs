//! The parser against an independent reader of the same bytes, in every layout, cut into blocks of any size.

mod oracle;
mod written;

use capture::Capture;
use proptest::prelude::*;

use crate::builder::{Builder, Context};
use crate::input::Input;
use crate::options::Options;

/// Reads all, with blocks of a given size.
fn read(bytes: &[u8], block_bytes: usize, threads: usize) -> Capture {
    read_as(bytes, block_bytes, &Options { threads, host_frames: true, ..Options::default() })
}

fn read_as(bytes: &[u8], block_bytes: usize, options: &Options<'_>) -> Capture {
    let context = Context::default();
    let mut builder = Builder::new("trace.json", "kineto_json", &context).obey(options);
    let mut input = Input::new(Box::new(bytes), options);
    super::read_with(&mut input, &mut builder, block_bytes);
    let mut capture = builder.finish(&input.finish()).capture;
    capture.canonicalize();
    capture
}

fn issues(capture: &Capture) -> Vec<String> {
    let issues = &capture.tables.issues;
    (0..issues.count.len()).map(|at| format!("{} x{}", capture.text(issues.code[at]), issues.count[at])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_trace_in_any_layout_gives_what_serde_json_sees(
        trace in written::any_trace(),
        layout in written::any_layout(),
        block_bytes in 64usize..6_000,
        threads in 1usize..4,
    ) {
        let text = written::text(&trace, layout);
        let capture = read(text.as_bytes(), block_bytes, threads);
        prop_assert_eq!(oracle::rows_of(&capture), oracle::rows(&text), "{}", text);
        let damage = issues(&capture).into_iter().find(|issue| issue.starts_with("damaged"));
        prop_assert_eq!(damage, None, "{}", text);
        // Without the host's code most events are left early.
        let usual = read_as(text.as_bytes(), block_bytes, &Options { threads, ..Options::default() });
        let is_kept = |row: &String| !row.starts_with("op ") && !row.starts_with("frame ");
        let (mut kept, mut expected) = (oracle::rows_of(&usual), oracle::rows(&text));
        kept.retain(is_kept);
        expected.retain(is_kept);
        prop_assert_eq!(kept, expected, "{}", text);
    }

    #[test]
    fn a_trace_cut_anywhere_gives_the_events_before(
        trace in written::any_trace(),
        layout in written::any_layout(),
        part in 0.0f64..1.0,
        block_bytes in 64usize..2_000,
    ) {
        let text = written::text(&trace, layout);
        let mut cut = (text.len() as f64 * part) as usize;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let whole = oracle::rows(&text);
        let rows = oracle::rows_of(&read(&text.as_bytes()[..cut], block_bytes, 1));
        // Times stand without a base where the cut took it.
        prop_assert!(rows.len() <= whole.len());
        let again = oracle::rows_of(&read(&text.as_bytes()[..cut], 1 << 20, 1));
        prop_assert_eq!(rows, again, "blocks do not matter");
    }

    #[test]
    fn damage_of_any_kind_is_survived_alike_by_all_block_sizes(
        trace in written::any_trace(),
        layout in written::any_layout(),
        places in prop::collection::vec((0.0f64..1.0, any::<u8>()), 1..4),
        block_bytes in 64usize..2_000,
    ) {
        let mut bytes = written::text(&trace, layout).into_bytes();
        for (part, byte) in places {
            let at = (bytes.len() as f64 * part) as usize;
            bytes[at] = byte;
        }
        for threads in [1, 2] {
            read(&bytes, block_bytes, threads);
        }
    }
}

#[test]
fn every_sample_gives_what_serde_json_sees() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/traces");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        // Captures of other profilers lie beside them.
        if !path.to_string_lossy().ends_with(".json.gz") {
            continue;
        }
        let mut text = String::new();
        let packed = std::fs::File::open(&path).unwrap();
        std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(packed), &mut text).unwrap();
        for (block_bytes, threads) in [(1 << 20, 1), (1_000, 2), (3_333, 3)] {
            let capture = read(text.as_bytes(), block_bytes, threads);
            assert_eq!(oracle::rows_of(&capture), oracle::rows(&text), "{}", path.display());
        }
        count += 1;
    }
    assert!(count >= 8);
}
