//! Several files, ranks and devices of one run.

use super::recording::Recording;

#[test]
fn a_gap_in_one_file_is_filled_by_its_sibling() {
    let mut recording = Recording::new();
    recording.rank(0, "B200").launched("nvjet_a", 0, (0, 100), 1).launched("nvjet_a", 250, (300, 400), 2);
    recording.next_file("two.json");
    recording.rank(0, "B200").launched("nvjet_b", 50, (100, 300), 1);
    let view = recording.view();
    assert_eq!(view.lanes.len(), 1);
    assert_eq!((view.lanes[0].label.as_str(), view.lanes[0].account.idle_ns), ("0", 0));
    assert_eq!((view.lanes[0].name.as_str(), view.lanes[0].rank, view.lanes[0].world_size), ("B200", Some(0), 8));
}

#[test]
fn ranks_that_use_one_number_are_told_apart() {
    let mut recording = Recording::new();
    recording.rank(3, "H100").launched("nvjet_a", 0, (0, 100), 1);
    recording.next_file("other.json");
    recording.rank(1, "H100").launched("nvjet_a", 0, (50, 150), 1);
    let labels: Vec<String> = recording.view().lanes.into_iter().map(|lane| lane.label).collect();
    assert_eq!(labels, ["rank1/0", "rank3/0"]);
}

#[test]
fn files_without_ranks_are_named() {
    let mut recording = Recording::new();
    recording.launched("nvjet_a", 0, (0, 100), 1);
    recording.next_file("traces/other.json");
    recording.launched("nvjet_a", 0, (50, 150), 1);
    let labels: Vec<String> = recording.view().lanes.into_iter().map(|lane| lane.label).collect();
    assert_eq!(labels, ["one.json/0", "other.json/0"]);
}

#[test]
fn waiting_is_told_from_the_transfer() {
    let mut recording = Recording::new();
    for (rank, late) in [(0, 0), (1, 900), (2, 100)] {
        recording.next_file(&format!("rank{rank}.json"));
        recording.rank(rank, "H100");
        for at in 0..10i64 {
            let span = (at * 10_000 + late, at * 10_000 + 2_000);
            recording.kernel("ncclDevKernel_AllReduce_Sum_bf16", span, 0).collective("allreduce", at, span, 1_100, 3);
        }
    }
    let collectives = recording.view().collectives.unwrap();
    assert_eq!((collectives.matched, collectives.unmatched, collectives.matched_by), (10, 0, "sequence"));
    let waits: Vec<(&str, i64, u64)> = collectives.ranks.iter().map(|rank| (rank.lane.as_str(), rank.wait_ns, rank.last)).collect();
    assert_eq!(waits, [("rank0/0", 9_000, 0), ("rank1/0", 0, 10), ("rank2/0", 8_000, 0)]);
    assert_eq!(collectives.straggler, Some(("rank1/0".to_string(), 1.0)));
    let op = &collectives.ops[0];
    assert_eq!((op.op.as_str(), op.group_size, op.count, op.transfer_ns), ("allreduce", 3, 10, 11_000));
    // 11,000 bytes in 11 us, 2 x 2/3 of them on the bus.
    assert!((op.bus_bytes_per_s.unwrap() - 4e9 / 3.0).abs() < 1.0);
}

#[test]
fn kernels_of_two_devices_are_matched_by_overlap() {
    let mut recording = Recording::new();
    for device in [0, 1] {
        recording.device = device;
        for at in 0..6i64 {
            let start = at * 1_000 + i64::from(device) * 40 * (at % 2);
            recording.kernel("ncclDevKernel_SendRecv(args)", (start, at * 1_000 + 100), 0);
        }
    }
    let collectives = recording.view().collectives.unwrap();
    assert_eq!((collectives.matched, collectives.matched_by, collectives.ops[0].op.as_str()), (6, "overlap", "sendrecv"));
    assert_eq!((collectives.ranks[0].wait_ns, collectives.ranks[1].wait_ns), (120, 0));
    // Three of six together, three late: chance.
    assert_eq!((collectives.ranks[1].last, collectives.straggler), (3, None));
}
