//! One reader, several parsers: the reader unpacks, hashes and cuts blocks, each parser fills columns of its own.
//!
//! Blocks in flight and their memory are bounded by the number of threads. The rows of different parsers are in no order;
//! a capture is sorted later, and issues name the first place of all.

use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::input::Input;

use super::blocks::{Block, Blocks};
use super::columns::{Columns, Settings};
use super::enclosing::MAX_CANDIDATES;
use super::event::{self, Layout, Leave, Whole};
use super::keys::Keys;
use super::parse::{Ended, Piece, events};
use super::recovery::next_start;
use super::scan::Cursor;

/// Most threads: more parsers than unpacking can feed.
const MAX_THREADS: usize = 5;

/// How an array is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) settings: Settings,
    /// Threads, the reader's own among them; 0 for as many as there are cores.
    pub(super) threads: usize,
    pub(super) block_bytes: usize,
    /// Where the array starts in the unpacked text.
    pub(super) offset: u64,
}

/// Reads the array behind its `[`, up to its `]` or the end of the text; returns the bytes consumed.
pub(super) fn run(input: &mut Input<'_>, plan: Plan, into: &mut Vec<Columns>) -> u64 {
    let threads = match plan.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let threads = threads.min(MAX_THREADS);
    let settings = Settings { max_candidates: MAX_CANDIDATES, ..plan.settings };
    let mut own = Columns::new(settings);
    let mut blocks = Blocks::new(input, plan.block_bytes);
    let first = blocks.next(Vec::new());
    let layout = first.as_ref().and_then(layout_of);
    if let Some(first) = first {
        let buffer = parse_here(first, &mut blocks, layout.as_ref(), plan.offset, &mut own);
        if threads == 1 || blocks.is_over {
            parse_all_here(buffer, &mut blocks, layout.as_ref(), plan.offset, &mut own);
        } else {
            let team = Team { settings, layout: layout.as_ref(), offset: plan.offset, parsers: threads - 1 };
            into.extend(team.run(buffer, &mut blocks, &mut own));
        }
    }
    into.push(own);
    blocks.consumed()
}

/// What stands between events, by the first one.
fn layout_of(first: &Block) -> Option<Layout> {
    let bytes = first.bytes();
    let mut cursor = Cursor::new(bytes, next_start(bytes, 0)?);
    let mut whole = Whole::default();
    event::read(&mut cursor, &mut Keys::default(), Leave::default(), &mut whole).ok().filter(|()| whole.event.ph != 0)?;
    Layout::behind(bytes, cursor.at)
}

fn parse_all_here(mut buffer: Vec<u8>, blocks: &mut Blocks<'_, '_>, layout: Option<&Layout>, offset: u64, own: &mut Columns) {
    while let Some(block) = blocks.next(buffer) {
        buffer = parse_here(block, blocks, layout, offset, own);
    }
}

/// Parses a block in the reader's own thread; one that is not cut says how to go on.
fn parse_here(block: Block, blocks: &mut Blocks<'_, '_>, layout: Option<&Layout>, offset: u64, own: &mut Columns) -> Vec<u8> {
    let offset = offset + block.offset;
    // A jump could leave the array where it is not known to end behind the block.
    let layout = layout.filter(|_| block.is_cut);
    match events(Piece { bytes: block.bytes(), offset, is_cut: block.is_cut, may_end: true, layout }, own) {
        Ended::Whole => {}
        Ended::Array(at) => blocks.end_at(&block, at),
        Ended::Incomplete(at) => {
            if !blocks.go_on_at(&block, at) {
                own.losses.damaged.add(offset + at as u64);
                own.losses.damaged_bytes += (block.bytes().len() - at) as u64;
            }
        }
    }
    block.into_buffer()
}

/// The parsers of one array.
#[derive(Clone, Copy)]
struct Team<'l> {
    settings: Settings,
    layout: Option<&'l Layout>,
    offset: u64,
    parsers: usize,
}

impl Team<'_> {
    fn run(self, buffer: Vec<u8>, blocks: &mut Blocks<'_, '_>, own: &mut Columns) -> Vec<Columns> {
        let (to_parsers, queue) = mpsc::sync_channel::<Block>(self.parsers);
        let (give_back, free) = mpsc::channel::<Vec<u8>>();
        let queue = Mutex::new(queue);
        thread::scope(|scope| {
            let parsers: Vec<_> = (0..self.parsers)
                .map(|_| {
                    let (queue, give_back) = (&queue, give_back.clone());
                    scope.spawn(move || self.parse(queue, &give_back))
                })
                .collect();
            drop(give_back);
            self.read(buffer, blocks, &to_parsers, &free, own);
            drop(to_parsers);
            parsers.into_iter().map(|parser| parser.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    /// Feeds the parsers. Memory for blocks: one in hand of each parser, one waiting for it, one in the reader's hand.
    fn read(
        self,
        buffer: Vec<u8>,
        blocks: &mut Blocks<'_, '_>,
        to_parsers: &SyncSender<Block>,
        free: &Receiver<Vec<u8>>,
        own: &mut Columns,
    ) {
        let mut made = 1;
        let mut buffer = Some(buffer);
        loop {
            let memory = match buffer.take().or_else(|| free.try_recv().ok()) {
                Some(memory) => memory,
                None if made < 2 * self.parsers + 1 => {
                    made += 1;
                    Vec::new()
                }
                None => free.recv().unwrap_or_default(),
            };
            let Some(block) = blocks.next(memory) else { return };
            if !block.is_cut {
                buffer = Some(parse_here(block, blocks, self.layout, self.offset, own));
            } else if to_parsers.send(block).is_err() {
                return;
            }
        }
    }

    fn parse(self, queue: &Mutex<Receiver<Block>>, give_back: &Sender<Vec<u8>>) -> Columns {
        let mut columns = Columns::new(self.settings);
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(block) = next else { return columns };
            let offset = self.offset + block.offset;
            events(Piece { bytes: block.bytes(), offset, is_cut: true, may_end: false, layout: self.layout }, &mut columns);
            // The reader may be done already.
            let _ = give_back.send(block.into_buffer());
        }
    }
}
