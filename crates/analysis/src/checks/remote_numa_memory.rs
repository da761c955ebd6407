//! Weights or buffers on the far socket's memory, on a path that every token takes.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::decode_bound::DecodeBound;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, is_cpu, step_s};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::record_device::{PAGES, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, faster_arm};
use crate::words::{digits, percent};

check! {
    /// Memory that every token reads lies on the other socket.
    ///
    /// ## Why it costs time
    /// A socket reads its own memory at full speed and the other's over a link that is several times slower. Pages stay
    /// where they were first touched, or where the page cache put the file at some earlier time: one node may hold all
    /// weights while the threads of both sockets read them.
    ///
    /// ## How to confirm
    /// `numastat -p` shows the pages of the process on one node, or far from its threads, and the bytes a token needs over
    /// its time stay at one socket's share of the memory bandwidth.
    ///
    /// ## Fix
    /// Bind threads and memory together (`numactl`), or drop the page cache and load the weights so that they spread over
    /// the nodes (`--numa distribute` on a cold cache).
    ///
    /// ## When this is wrong
    /// The device holds all weights: then the host's pages are on no token's path, and the same warning is harmless.
    id: "remote_numa_memory", layer: Hardware, rank: 13, phases: [Decode], bound: "memory", validated_on: "report", run: find,
}

/// Pages on the node of their threads below this share are remote enough to matter.
const LOCAL: f64 = 0.75;
/// A remote read takes about this many times a local one over current socket links.
const REMOTE_FACTOR: f64 = 2.0;

/// Where the pages are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pages {
    local: f64,
}

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    let sockets = figure_of(&arm.figures, "host.sockets");
    if sockets.is_some_and(|sockets| sockets < 2.0) {
        return clear(vec![("sockets", 1.0)], "one socket: all memory is local");
    }
    let pages = pages(arm);
    let on_path = is_cpu(situation) || figure_of(&arm.figures, "model.device_share").is_some_and(|share| share < 0.98);
    let reads = on_path.then(|| one_socket(situation, arm, sockets.unwrap_or(2.0))).flatten();
    let bound = faster_arm(situation, |here, there| change_names(here, there, &WORDS) || more_local(here, there));
    if let Some(faster) = bound.filter(|_| pages.is_none_or(|pages| pages.local < LOCAL)) {
        let mut rows = vec![
            figure(faster.signal, faster.mine_s, "s", "this arm"),
            figure(faster.signal, faster.theirs_s, "s", &format!("arm `{}`", faster.other.run_name)),
        ];
        rows.extend(pages.map(|pages| figure("proc.numa_local_share", pages.local, "ratio", "numastat")));
        let words =
            format!("with its pages placed otherwise the same token takes {} of the time", percent(faster.theirs_s / faster.mine_s));
        return Answer::Found(Box::new(found(situation, faster.ends(), Basis::Typed, rows, &words)));
    }
    match (pages, reads) {
        (Some(pages), _) if pages.local >= LOCAL => {
            clear(vec![("local_share", pages.local)], format!("{} of the pages are local", percent(pages.local)))
        }
        (Some(pages), _) if !on_path => Answer::Found(Box::new(harmless(pages))),
        (Some(pages), reads) => Answer::Found(Box::new(by_pages(situation, pages, reads.as_ref()))),
        (None, Some(reads)) if sockets.is_some() && reads.is_short => Answer::Found(Box::new(by_bandwidth(situation, &reads))),
        (None, Some(reads)) if sockets.is_some() => clear(
            vec![("of_all_sockets_bandwidth", reads.share)],
            format!("a token reads at {} of the bandwidth of all sockets: more than one node delivers", percent(reads.share)),
        ),
        _ => undecided(situation, &["proc.numa_local_share", "host.sockets"], "where the pages of the process lie is not known", PAGES),
    }
}

/// Words in which people tell arms apart that differ in placement.
const WORDS: [&str; 5] = ["numa", "membind", "cpunodebind", "interleave", "one socket"];

fn more_local(here: &Arm, there: &Arm) -> bool {
    pages(here).zip(pages(there)).is_some_and(|(mine, theirs)| theirs.local > mine.local + 0.1)
}

/// Share of pages on the node that uses them.
fn pages(arm: &Arm) -> Option<Pages> {
    let figures = &arm.figures;
    if let Some(local) = figure_of(figures, "proc.numa_local_share").or_else(|| figures.lowest("proc.numa_local_share")) {
        return Some(Pages { local });
    }
    let rows = figures.points().filter_map(|point| {
        Some((point.typical("proc.numa_node0_bytes")?, point.typical("proc.numa_node1_bytes")?, point.typical("proc.numa_expected_node")?))
    });
    let whole = figures
        .typical("proc.numa_node0_bytes")
        .zip(figures.typical("proc.numa_node1_bytes"))
        .zip(figures.typical("proc.numa_expected_node"));
    let (mut on_own, mut all) = (0.0, 0.0);
    for (first, second, expected) in rows.chain(whole.map(|((first, second), expected)| (first, second, expected))) {
        on_own += if expected < 0.5 { first } else { second };
        all += first + second;
    }
    (all > 0.0).then(|| Pages { local: on_own / all })
}

/// What a token reads per second against what all sockets deliver.
#[derive(Clone, Debug, PartialEq)]
struct Reads {
    share: f64,
    sockets: f64,
    /// True when one socket's memory alone would explain it.
    is_short: bool,
    from: String,
}

fn one_socket(situation: &Situation<'_>, arm: &Arm, sockets: f64) -> Option<Reads> {
    arm.figures.typical("host.dram_bandwidth")?;
    let bound = DecodeBound::read(situation.subject, arm)?;
    let (step, _) = step_s(arm)?;
    let share = bound.least_s() / step;
    // One node's memory delivers its part of the bandwidth at most. Below a third of that the threads, not the memory,
    // are the limit.
    let part = 1.0 / sockets.max(2.0);
    Some(Reads { share, sockets, is_short: share <= part && share >= part / 3.0, from: bound.from })
}

fn ends_by_pages(local: f64) -> [f64; 3] {
    // Remote bytes at half the speed: t = local + 2 x remote against t = 1.
    let remote = 1.0 - local;
    let slower = |factor: f64| 1.0 - 1.0 / (local + factor * remote);
    [slower(1.3), slower(REMOTE_FACTOR), slower(4.0)]
}

fn by_pages(situation: &Situation<'_>, pages: Pages, reads: Option<&Reads>) -> Found {
    let (ends, basis) = match reads {
        Some(reads) if reads.is_short => (ends_by_bandwidth(reads), Basis::Counterfactual),
        _ => (ends_by_pages(pages.local), Basis::Bound),
    };
    let rows = vec![figure("proc.numa_local_share", pages.local, "ratio", "numastat")];
    found(situation, ends, basis, rows, &format!("{} of the pages are on the node that uses them", percent(pages.local)))
}

fn ends_by_bandwidth(reads: &Reads) -> [f64; 3] {
    // What spread pages reach: a good part of all sockets' bandwidth.
    let gain = |reachable: f64| 1.0 - reads.share / reachable;
    [gain(0.6).max(0.05), gain(0.75), gain(0.85)]
}

fn by_bandwidth(situation: &Situation<'_>, reads: &Reads) -> Found {
    let rows = vec![
        figure("share of all sockets' bandwidth", reads.share, "ratio", &reads.from),
        figure("host.sockets", reads.sockets, "count", "typed"),
    ];
    let words = format!(
        "a token reads at {} of the bandwidth of {} sockets, what one of them delivers alone",
        percent(reads.share),
        digits(reads.sockets)
    );
    found(situation, ends_by_bandwidth(reads), Basis::Bound, rows, &words)
}

fn found(situation: &Situation<'_>, ends: [f64; 3], basis: Basis, rows: Vec<Evidence>, words: &str) -> Found {
    let spread = hypothesis(
        outside(
            "numactl and page placement",
            "pages beside their threads",
            "restart",
            "bind threads and memory together, or drop the page cache and load the weights spread over the nodes",
        ),
        "loading from disk once more; a cache bound to one node is smaller",
        "pages spread and tokens no faster",
        vec![
            token_falls(situation, ends, "bytes of a token over the bandwidth of all sockets, 0.6 to 0.85 of it reached"),
            moves(
                "proc.numa_local_share",
                "local pages",
                "ratio",
                Direction::Up,
                figure_of(&situation.evidence.figures, "proc.numa_local_share"),
                Some([0.9, 1.0]),
                "bound",
            ),
            first_token_kept(situation),
        ],
    );
    Found {
        summary: words.to_string(),
        sentence: format!("Tokens read host memory, and {words}: the far socket's memory is on their path."),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![spread],
        falsified_by: "pages of the weights spread evenly over the nodes while tokens are as slow".into(),
        context_only: false,
        limit: false,
    }
}

/// Remote pages of a process whose tokens are made on the device.
fn harmless(pages: Pages) -> Found {
    Found {
        summary: format!("only {} of the host's pages are local, but tokens are made on the device", percent(pages.local)),
        sentence: "Pages of the workers lie on the far socket; no token's path reads them.".into(),
        evidence: vec![figure("proc.numa_local_share", pages.local, "ratio", "numastat")],
        falsified_by: "link traffic near its rate while tokens are made".into(),
        context_only: true,
        ..Found::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_far_cost_half_at_twice_the_time() {
        let [lo, mid, hi] = ends_by_pages(0.0);
        assert!((mid - 0.5).abs() < 1e-9 && lo < mid && mid < hi);
        assert!(ends_by_pages(1.0)[2].abs() < 1e-9, "local pages cost nothing");
    }
}
