//! KV blocks: which are free, which free ones still hold something, and who comes next to be overwritten.
//!
//! Free blocks form one queue in order of release, as in vLLM: the head is reused first, whatever it holds. Neighbors of
//! one owner are one run with a count, so that a request's release is one entry and not one per block. A run loses its
//! blocks from the end of the text backwards, so what is left of it is always its beginning.
//!
//! Shared blocks of a prompt come in groups: a hash of the trace covers `group` engine blocks.

use std::collections::{HashMap, VecDeque};

/// What the blocks of a run hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Nothing anybody will ask for.
    Nothing,
    /// A group of shared blocks.
    Group(u32),
    /// Private blocks of a preempted request, which will come back for them.
    Parked(u32),
}

/// Blocks in the free queue.
#[derive(Clone, Copy, Debug)]
struct Run {
    content: Content,
    /// 0 marks a run that was taken out.
    count: u32,
}

/// A group's whereabouts.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Requests that hold it.
    holders: u32,
    /// Blocks computed and not yet overwritten.
    present: u32,
    /// Place in the queue while nobody holds it.
    place: u64,
}

/// The blocks of one replica.
#[derive(Debug)]
pub(crate) struct Pool {
    free: u32,
    total: u32,
    queue: VecDeque<Run>,
    /// Place number of the queue's head.
    head: u64,
    /// Runs in the queue that were taken out.
    hollow: usize,
    groups: Vec<Group>,
    group_blocks: u32,
    /// Requests and the place of their parked run.
    parked: HashMap<u32, u64>,
}

/// What a waiting request finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Whole or partial groups found, in order.
    pub(crate) groups: u32,
    /// Blocks of the request's own parked run found.
    pub(crate) parked: u32,
    /// Blocks found in all.
    pub(crate) blocks: u32,
    /// Blocks that leave the free queue when the request takes what was found.
    pub(crate) blocks_in_queue: u32,
    /// Of those, blocks that it has no use for: the end of a group of which only the start may be used.
    pub(crate) surplus: u32,
}

impl Pool {
    /// `total` free blocks; `distinct` groups of `group_blocks` blocks may be asked for.
    pub(crate) fn new(total: u32, distinct: u32, group_blocks: u32) -> Self {
        let queue = VecDeque::from([Run { content: Content::Nothing, count: total }]);
        let groups = vec![Group::default(); distinct as usize];
        Self { free: total, total, queue, head: 0, hollow: 0, groups, group_blocks, parked: HashMap::new() }
    }

    /// From now on up to `distinct` groups may be asked for.
    pub(crate) fn grow(&mut self, distinct: u32) {
        if distinct as usize > self.groups.len() {
            self.groups.resize(distinct as usize, Group::default());
        }
    }

    /// Free blocks, those that hold something included.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// All blocks.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Blocks per group.
    pub(crate) fn group_blocks(&self) -> u32 {
        self.group_blocks
    }

    /// How much of a prompt's `groups` and of the parked blocks of `request` is there, at most `most` blocks. A request
    /// that was preempted was parked behind `own_groups` groups, which its private blocks follow; where others computed
    /// more of its prompt meanwhile, it uses that and not its own.
    pub(crate) fn find(&self, groups: &[u32], request: u32, own_groups: u32, most: u32) -> Hit {
        let mut hit = Hit::default();
        for &group in groups {
            let found = &self.groups[group as usize];
            let blocks = found.present.min(most - hit.blocks);
            if blocks == 0 {
                break;
            }
            hit.groups += 1;
            hit.blocks += blocks;
            // The whole group leaves the queue, even where only a part of it is used.
            if found.holders == 0 {
                hit.blocks_in_queue += found.present;
                hit.surplus += found.present - blocks;
            }
            if blocks < self.group_blocks {
                return hit;
            }
        }
        if hit.groups == own_groups
            && let Some(&place) = self.parked.get(&request)
        {
            hit.parked = self.queue[(place - self.head) as usize].count.min(most - hit.blocks);
            hit.blocks += hit.parked;
            hit.blocks_in_queue += hit.parked;
        }
        hit
    }

    /// Takes `count` blocks from the head of the queue, forgetting what they hold.
    ///
    /// The caller has checked that they are free.
    pub(crate) fn take(&mut self, count: u32) {
        debug_assert!(count <= self.free, "blocks taken that are not free");
        self.free -= count;
        let mut left = count;
        while left > 0 {
            let Some(run) = self.queue.front_mut() else { return };
            let taken = run.count.min(left);
            run.count -= taken;
            left -= taken;
            let (content, rest) = (run.content, run.count);
            match content {
                Content::Group(group) => self.groups[group as usize].present = rest,
                Content::Parked(request) if rest == 0 && taken > 0 => {
                    self.parked.remove(&request);
                }
                Content::Nothing | Content::Parked(_) => {}
            }
            if rest == 0 {
                self.hollow -= usize::from(taken == 0);
                self.queue.pop_front();
                self.head += 1;
            }
        }
    }

    /// Makes a request a holder of groups that were found, taking them out of the queue.
    pub(crate) fn hold(&mut self, groups: &[u32]) {
        for &group in groups {
            let entry = &mut self.groups[group as usize];
            if entry.holders == 0 {
                self.free -= entry.present;
                let place = entry.place;
                self.hollow_out(place);
            }
            self.groups[group as usize].holders += 1;
        }
        self.tidy();
    }

    /// Completes a group that a request just computed (its blocks were taken before), and makes it a holder. False when
    /// another request completed it meanwhile.
    pub(crate) fn register(&mut self, group: u32) -> bool {
        let entry = &mut self.groups[group as usize];
        if entry.present > 0 {
            return false;
        }
        *entry = Group { holders: 1, present: self.group_blocks, place: 0 };
        true
    }

    /// Completes a group of which the caller found and holds the beginning: its other blocks were taken just now. False
    /// when another holder did that already.
    pub(crate) fn complete(&mut self, group: u32) -> bool {
        let entry = &mut self.groups[group as usize];
        let was_partial = entry.present < self.group_blocks;
        entry.present = self.group_blocks;
        was_partial
    }

    /// Blocks of a group that are there.
    pub(crate) fn present(&self, group: u32) -> u32 {
        self.groups[group as usize].present
    }

    /// Takes the first `used` parked blocks of a request back and forgets the rest of the run.
    pub(crate) fn unpark(&mut self, request: u32, used: u32) {
        let Some(place) = self.parked.remove(&request) else { return };
        let run = &mut self.queue[(place - self.head) as usize];
        // What is not used stays free where it was, without a name.
        run.count -= used;
        run.content = Content::Nothing;
        self.hollow += usize::from(run.count == 0);
        self.free -= used;
        self.tidy();
    }

    /// Lets go of `groups`, last one first; what nobody holds becomes free.
    pub(crate) fn release(&mut self, groups: &[u32]) {
        for &group in groups.iter().rev() {
            let place = self.head + self.queue.len() as u64;
            let entry = &mut self.groups[group as usize];
            entry.holders -= 1;
            if entry.holders == 0 {
                entry.place = place;
                let count = entry.present;
                self.free += count;
                self.queue.push_back(Run { content: Content::Group(group), count });
            }
        }
    }

    /// Frees private blocks that nobody will ask for.
    pub(crate) fn free_private(&mut self, count: u32) {
        self.free += count;
        match self.queue.back_mut() {
            _ if count == 0 => {}
            Some(run) if run.content == Content::Nothing && run.count > 0 => run.count += count,
            _ => self.queue.push_back(Run { content: Content::Nothing, count }),
        }
    }

    /// Frees private blocks of a request that will come back for them.
    pub(crate) fn park(&mut self, request: u32, count: u32) {
        if count > 0 {
            self.free += count;
            self.parked.insert(request, self.head + self.queue.len() as u64);
            self.queue.push_back(Run { content: Content::Parked(request), count });
        }
    }

    fn hollow_out(&mut self, place: u64) {
        let run = &mut self.queue[(place - self.head) as usize];
        run.count = 0;
        run.content = Content::Nothing;
        self.hollow += 1;
    }

    /// Drops hollow runs once they are the larger part, so that the queue is bounded by the blocks.
    fn tidy(&mut self) {
        if self.hollow < 64 || self.hollow * 2 < self.queue.len() {
            return;
        }
        self.queue.retain(|run| run.count > 0);
        self.hollow = 0;
        for (at, run) in self.queue.iter().enumerate() {
            let place = self.head + at as u64;
            match run.content {
                Content::Nothing => {}
                Content::Group(group) => self.groups[group as usize].place = place,
                Content::Parked(request) => {
                    self.parked.insert(request, place);
                }
            }
        }
    }

    /// Blocks counted one by one: in the queue, in groups that are held. For audits.
    pub(crate) fn recount(&self) -> (u64, u64) {
        let queued = self.queue.iter().map(|run| u64::from(run.count)).sum();
        let held = self.groups.iter().filter(|group| group.holders > 0).map(|group| u64::from(group.present)).sum();
        (queued, held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn released_groups_are_found_until_overwritten() {
        let mut pool = Pool::new(10, 3, 2);
        pool.take(4);
        assert!(pool.register(0) && pool.register(1));
        assert!(!pool.register(1), "somebody computed it already");
        pool.release(&[0, 1]);
        assert_eq!(pool.free(), 10);
        assert_eq!(pool.find(&[0, 1, 2], 9, 0, 99), Hit { groups: 2, parked: 0, blocks: 4, blocks_in_queue: 4, surplus: 0 });
        // Six blocks were never used; the seventh is the end of the second group, which was released first.
        pool.take(7);
        assert_eq!(pool.find(&[0, 1], 9, 0, 99), Hit { groups: 2, parked: 0, blocks: 3, blocks_in_queue: 3, surplus: 0 });
        pool.take(1);
        assert_eq!(pool.find(&[0, 1], 9, 0, 99).blocks, 2);
        pool.hold(&[0]);
        assert_eq!((pool.free(), pool.recount()), (0, (0, 2)));
    }

    #[test]
    fn a_preempted_request_finds_the_start_of_its_blocks() {
        let mut pool = Pool::new(8, 0, 1);
        pool.take(8);
        pool.park(5, 6);
        pool.free_private(2);
        pool.take(2);
        assert_eq!(pool.find(&[], 5, 0, 99), Hit { groups: 0, parked: 4, blocks: 4, blocks_in_queue: 4, surplus: 0 });
        assert_eq!(pool.find(&[], 5, 0, 3).blocks, 3);
        assert_eq!(pool.find(&[], 6, 0, 99), Hit::default());
        pool.unpark(5, 3);
        assert_eq!((pool.free(), pool.recount().0), (3, 3));
        assert_eq!(pool.find(&[], 5, 0, 99), Hit::default());
    }

    /// The slow way: every free block for itself, with what it holds.
    #[derive(Default)]
    struct Slow {
        queue: Vec<Label>,
        groups: [(u32, u32); 4],
        private: u32,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Label {
        Nothing,
        Group(u32),
        Parked(u32),
    }

    impl Slow {
        fn queued(&self, label: Label) -> u32 {
            self.queue.iter().filter(|&&other| other == label).count() as u32
        }

        fn present(&self, group: u32) -> u32 {
            let (holders, present) = self.groups[group as usize];
            if holders > 0 { present } else { self.queued(Label::Group(group)) }
        }
    }

    /// One operation on both, as far as it is allowed; `which` is a group or request, `count` a number of blocks.
    fn operate(pool: &mut Pool, slow: &mut Slow, kind: u8, which: u32, count: u32) {
        let (holders, present) = slow.groups[which as usize];
        match kind {
            0 if count <= pool.free() => {
                pool.take(count);
                slow.queue.drain(..count as usize);
                slow.private += count;
            }
            1 if slow.private >= 3 && slow.present(which) == 0 => {
                assert!(pool.register(which));
                (slow.groups[which as usize], slow.private) = ((1, 3), slow.private - 3);
            }
            2 if slow.present(which) > 0 => {
                let present = slow.present(which);
                pool.hold(&[which]);
                slow.queue.retain(|&label| label != Label::Group(which));
                slow.groups[which as usize] = (holders + 1, present);
            }
            3 if holders > 0 && slow.private >= 3 - present => {
                assert_eq!(pool.complete(which), present < 3);
                (slow.groups[which as usize].1, slow.private) = (3, slow.private - (3 - present));
            }
            4 if holders > 0 => {
                pool.release(&[which]);
                slow.groups[which as usize].0 -= 1;
                if holders == 1 {
                    slow.queue.extend((0..present).map(|_| Label::Group(which)));
                }
            }
            5 if count <= slow.private => {
                pool.free_private(count);
                slow.private -= count;
                slow.queue.extend((0..count).map(|_| Label::Nothing));
            }
            6 if count <= slow.private && slow.queued(Label::Parked(which)) == 0 => {
                pool.park(which, count);
                slow.private -= count;
                slow.queue.extend((0..count).map(|_| Label::Parked(which)));
            }
            7 => {
                // The first blocks of the text were released last, so what is used are the last of the run.
                let used = count.min(slow.queued(Label::Parked(which)));
                pool.unpark(which, used);
                let mut rest = slow.queued(Label::Parked(which)) - used;
                slow.queue.retain_mut(|label| {
                    if *label == Label::Parked(which) {
                        if rest == 0 {
                            return false;
                        }
                        rest -= 1;
                        *label = Label::Nothing;
                    }
                    true
                });
                slow.private += used;
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn runs_are_blocks_one_by_one(operations in proptest::collection::vec((0u8..8, 0u32..4, 0u32..7), 0..300)) {
            let mut pool = Pool::new(24, 4, 3);
            let mut slow = Slow { queue: vec![Label::Nothing; 24], ..Slow::default() };
            for (kind, which, count) in operations {
                operate(&mut pool, &mut slow, kind, which, count);
                prop_assert_eq!(pool.free() as usize, slow.queue.len());
                for which in 0..4 {
                    prop_assert_eq!(pool.present(which), slow.present(which), "group {}", which);
                    prop_assert_eq!(pool.find(&[], which, 0, 99).parked, slow.queued(Label::Parked(which)), "request {}", which);
                    let hit = pool.find(&[which], 99, 0, 99);
                    prop_assert_eq!(hit.blocks_in_queue, slow.queued(Label::Group(which)));
                }
            }
            let held: u32 = slow.groups.iter().filter(|group| group.0 > 0).map(|group| group.1).sum();
            prop_assert_eq!(pool.recount(), (slow.queue.len() as u64, u64::from(held)));
        }
    }

    #[test]
    fn the_queue_stays_small() {
        let mut pool = Pool::new(1_000, 50, 1);
        pool.take(50);
        for group in 0..50 {
            pool.register(group);
        }
        for round in 0..10_000u32 {
            let group = [round % 50];
            pool.release(&group);
            pool.hold(&group);
        }
        assert!(pool.queue.len() < 200, "{}", pool.queue.len());
        assert_eq!(pool.recount(), (950, 50));
    }
}
