//! The same files give the same capture, byte for byte, however they are handed over.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::shown::{data, import};

const FILES: [&str; 6] = ["bench.json", "command.txt", "host.jsonl", "metrics.prom.gz", "proxy.jsonl", "server.log"];

fn paths(order: &[usize]) -> Vec<PathBuf> {
    order.iter().map(|&at| data("vllm-cpu").join(FILES[at])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn order_and_repetition_do_not_matter(order in Just((0..FILES.len()).collect::<Vec<_>>()).prop_shuffle(), again in 0..FILES.len()) {
        let folder = import(&[data("vllm-cpu")]);
        let mut files = paths(&order);
        files.push(files[again].clone());
        prop_assert_eq!(&import(&files), &folder);
        files.insert(0, data("vllm-cpu"));
        prop_assert_eq!(&import(&files), &folder);
    }

    #[test]
    fn any_part_of_the_set_imports(kept in proptest::collection::vec(any::<bool>(), FILES.len())) {
        let some: Vec<usize> = (0..FILES.len()).filter(|&at| kept[at]).collect();
        if !some.is_empty() {
            let capture = import(&paths(&some));
            prop_assert_eq!(capture.manifest.sources.len(), some.len());
        }
    }
}
