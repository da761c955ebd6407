//! What a trace is made of, whatever file it is written to.

use std::io;

/// Tracks shown together: a device, a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    /// Number of the group; where a process has this number it is that process.
    pub(super) pid: u32,
    /// Title.
    pub(super) name: &'a str,
}

/// A row of slices in a group: a stream, a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<'a> {
    /// Number of the track within the trace.
    pub(super) track: u64,
    /// Its group.
    pub(super) pid: u32,
    /// Number within the group.
    pub(super) tid: u32,
    /// Title.
    pub(super) name: &'a str,
}

/// A curve in a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve<'a> {
    /// Number of the track within the trace.
    pub(super) track: u64,
    /// Its group.
    pub(super) pid: u32,
    /// Title.
    pub(super) name: &'a str,
    /// Unit of its values.
    pub(super) unit: &'a str,
}

/// Text of a slice; what comes again and again has a number and is written once where the file allows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// Number of the text, `None` where it comes once.
    pub(super) id: Option<u32>,
    /// The text.
    pub(super) text: &'a str,
}

impl<'a> Text<'a> {
    /// Text that comes once.
    pub(super) fn once(text: &'a str) -> Self {
        Self { id: None, text }
    }
}

/// A detail of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Detail<'a> {
    /// Words.
    Text(Text<'a>),
    /// A whole number.
    Count(i64),
    /// A number.
    Number(f64),
}

/// The beginning of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice<'a> {
    /// Name.
    pub(super) name: Text<'a>,
    /// Category, empty for none.
    pub(super) category: &'static str,
    /// Details, shown when the slice is selected.
    pub(super) details: &'a [(&'static str, Detail<'a>)],
    /// Arrow that begins here, 0 for none.
    pub(super) flow_out: u64,
    /// Arrow that ends here, 0 for none.
    pub(super) flow_in: u64,
}

/// A file that takes a trace. Times are not negative and, per lane, in order; of slices in one lane the inner ends first.
pub(super) trait Sink {
    /// Announces a group.
    fn group(&mut self, group: Group<'_>) -> io::Result<()>;
    /// Announces a lane; its group is announced.
    fn lane(&mut self, lane: Lane<'_>) -> io::Result<()>;
    /// Announces a curve; its group is announced.
    fn curve(&mut self, curve: Curve<'_>) -> io::Result<()>;
    /// A slice begins.
    fn begin(&mut self, track: u64, t_ns: u64, slice: &Slice<'_>) -> io::Result<()>;
    /// The innermost slice of the lane ends.
    fn end(&mut self, track: u64, t_ns: u64) -> io::Result<()>;
    /// A value of a curve.
    fn value(&mut self, track: u64, t_ns: u64, value: f64) -> io::Result<()>;
    /// Writes what a file needs at its end.
    fn finish(&mut self) -> io::Result<()>;
}
