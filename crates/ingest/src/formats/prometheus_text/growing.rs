//! Answers of one endpoint, read one by one as they come: each becomes a capture of its own, and its series are not parsed again.

use capture::{Names, Subject};

use super::{Answer, Parser, answer};
use crate::Options;
use crate::builder::Builder;
use crate::input::Finished;
use crate::read::Scrape;

/// Answers after which series are parsed anew, so that what is told once (settings, the engine) is told again.
const RENEWED_AFTER: u32 = 60;

/// What is known of the endpoint.
#[derive(Default)]
pub(crate) struct Growing {
    parser: Option<Parser>,
    /// Names of the parser's rows.
    names: Names,
    subject: Subject,
    answer_count: u32,
}

impl Growing {
    /// Reads the next answer into an empty builder.
    pub(crate) fn read(&mut self, scrape: &Scrape<'_>, options: &Options<'_>, builder: &mut Builder<'_>) -> Finished {
        self.answer_count += 1;
        let known = self.parser.take().filter(|_| self.answer_count <= RENEWED_AFTER);
        let mut parser = if let Some(parser) = known {
            builder.capture.names = std::mem::take(&mut self.names);
            builder.capture.manifest.subject = self.subject.clone();
            parser
        } else {
            self.answer_count = 1;
            Parser::new(builder)
        };
        let read = answer(&mut parser, scrape, 1, options, builder);
        // An answer is whole, however many series it lost since the one before.
        parser.close(builder);
        parser.finish(false, builder);
        let mut finished = Finished { byte_count: scrape.body.len() as u64, ..Finished::default() };
        if let Answer::Metrics { long_lines } = read {
            finished.long_lines = long_lines;
            self.names = builder.capture.names.clone();
            self.subject = builder.capture.manifest.subject.clone();
            self.parser = Some(parser);
        }
        finished
    }
}
