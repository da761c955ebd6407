//! A load on the simulated engine in simulated time: a minute of serving in a moment, as the capture that a load client, its
//! readings of `/metrics` and the log would have made.
//!
//! The same books as those of the server say what leaves when, and the same writers make page, log and capture of it. Left
//! out is what takes real time: sockets (a token arrives when it leaves) and the client itself, which is never late.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use capture::Capture;
use simulate::config::ConfigError;
use simulate::{Request, Workload};

use super::books::{Books, Form, Piece};
use super::fault::Setup;
use super::log;
use super::prompt::Asked;
use crate::Address;
use crate::load::{self, Api, Attempt, Counting, Dialect, Ending, Health, HttpVersion, LoadRun, Plan, Schedule};

/// Name of the server that is nowhere.
const PLACE: &str = "http://simulated:8000";
/// Between two readings of the metrics.
const SCRAPE_NS: i64 = 1_000_000_000;
/// Before the load and after it.
const AROUND_NS: i64 = 2_000_000_000;

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// The system.
    pub setup: Setup,
    /// The requests.
    pub workload: Workload,
    /// When they are sent.
    pub schedule: Schedule,
    /// Nothing is sent after this; answers are waited for.
    pub duration: Duration,
    /// When the server starts, nanoseconds since the epoch.
    pub start_ns: i64,
}

impl Rehearsal {
    /// Runs it.
    ///
    /// # Errors
    /// A system that cannot be simulated.
    ///
    /// # Panics
    /// Never: the place is an address.
    pub fn capture(&self) -> Result<Capture, ConfigError> {
        let plan = self.plan();
        let mut stage = Stage::new(self, &plan)?;
        stage.run();
        let run = stage.load_run();
        let mut whole = load::into_capture(&plan, &[(0.0, &run)], None, true);
        let scrapes: Vec<ingest::Scrape<'_>> =
            stage.scrapes.iter().map(|(t_ns, body)| ingest::Scrape { t_ns: *t_ns, body: body.as_bytes() }).collect();
        let options = ingest::Options::default();
        whole.merge(ingest::read_scrapes(&plan.server.metrics().to_string(), &scrapes, &options));
        let lines = stage.lines.join("\n") + "\n";
        let replica = Some("simulated:8000");
        let log = ingest::LogLines { head: lines.as_bytes(), lines: lines.as_bytes(), written_ns: stage.logged_ns, replica };
        if let Some(log) = ingest::read_log_lines("server.log", &log, &options) {
            whole.merge(log);
        }
        whole.canonicalize();
        Ok(whole)
    }

    fn plan(&self) -> Plan {
        Plan {
            server: Address::base(PLACE).expect("the place is an address"),
            authorization: None,
            http: HttpVersion::Http1,
            tokenizer: None,
            api: Api::Completions,
            dialect: Dialect::Vllm,
            model: "simulated-8b".into(),
            is_streamed: true,
            may_end_early: false,
            workload: self.workload.clone(),
            schedule: self.schedule,
            warmup: 0,
            duration: Some(self.duration),
            timeout: Duration::MAX,
            drain: Duration::MAX,
            most_in_flight: u32::MAX,
            seed: 0,
        }
    }
}

/// The run under way.
struct Stage<'a> {
    rehearsal: &'a Rehearsal,
    model: &'a str,
    books: Books,
    /// When who sends next: the number of an open loop's request, or a user.
    due: BinaryHeap<Reverse<(i64, u32)>>,
    attempts: Vec<Attempt>,
    /// User of each attempt in a closed loop.
    users: Vec<u32>,
    load_start_ns: i64,
    load_end_ns: i64,
    now_ns: i64,
    scrapes: Vec<(i64, String)>,
    lines: Vec<String>,
    logged_ns: i64,
}

impl<'a> Stage<'a> {
    fn new(rehearsal: &'a Rehearsal, plan: &'a Plan) -> Result<Self, ConfigError> {
        let load_start_ns = rehearsal.start_ns + AROUND_NS;
        let duration_ns = i64::try_from(rehearsal.duration.as_nanos()).unwrap_or(i64::MAX / 4);
        let due = match rehearsal.schedule {
            Schedule::Open => {
                let requests = rehearsal.workload.requests().iter().enumerate();
                requests.map(|(at, request)| Reverse((load_start_ns + request.arrival_ns, at as u32))).collect()
            }
            Schedule::Closed { users, ramp, .. } => {
                let from = |user: u32| ramp.mul_f64(f64::from(user) / f64::from(users.max(1))).as_nanos() as i64;
                (0..users).map(|user| Reverse((load_start_ns + from(user), user))).collect()
            }
        };
        Ok(Self {
            rehearsal,
            model: &plan.model,
            books: Books::new(&rehearsal.setup)?,
            due,
            attempts: Vec::new(),
            users: Vec::new(),
            load_start_ns,
            load_end_ns: load_start_ns + duration_ns,
            now_ns: rehearsal.start_ns,
            scrapes: Vec::new(),
            lines: log::start(rehearsal.start_ns, &plan.model, &rehearsal.setup),
            logged_ns: rehearsal.start_ns,
        })
    }

    fn run(&mut self) {
        let mut totals = Vec::new();
        let mut scrape_ns = self.rehearsal.start_ns;
        let mut end_ns = None;
        while end_ns.is_none_or(|end| scrape_ns <= end) {
            self.advance(scrape_ns);
            self.scrapes.push((scrape_ns, self.books.page(self.model, self.rehearsal.start_ns)));
            if scrape_ns - self.logged_ns >= log::INTERVAL_NS {
                let span_s = (scrape_ns - self.logged_ns) as f64 / 1e9;
                self.lines.extend(self.books.log(scrape_ns, span_s, &mut totals));
                self.logged_ns = scrape_ns;
            }
            let is_over = scrape_ns >= self.load_end_ns && self.attempts.iter().all(|attempt| attempt.ending != Ending::Cut);
            if is_over && end_ns.is_none() {
                end_ns = Some(scrape_ns + AROUND_NS);
            }
            scrape_ns += SCRAPE_NS;
        }
    }

    /// Lets everything happen that is due by `until_ns`, requests and answers in the order of their times.
    fn advance(&mut self, until_ns: i64) {
        loop {
            let send_ns = self.due.peek().map_or(i64::MAX, |Reverse((due, _))| *due);
            let next_ns = send_ns.min(self.books.next_ns().unwrap_or(i64::MAX));
            if next_ns > until_ns {
                break;
            }
            self.now_ns = next_ns;
            let mut pieces = Vec::new();
            self.books.advance(next_ns, &mut |piece| pieces.push(piece));
            for piece in &pieces {
                self.receive(piece);
            }
            while let Some(&Reverse((due, who))) = self.due.peek().filter(|Reverse((due, _))| *due <= next_ns) {
                self.due.pop();
                if due < self.load_end_ns {
                    self.send(due, who);
                }
            }
        }
        self.now_ns = until_ns;
    }

    fn send(&mut self, due_ns: i64, who: u32) {
        let index = self.attempts.len();
        let at = if self.rehearsal.schedule == Schedule::Open { who as usize } else { index };
        let Some(request) = self.rehearsal.workload.requests().get(at) else { return };
        let asked = asked(&self.rehearsal.workload, request);
        let form = Form { api: Api::Completions, model: self.model, asked: &asked };
        if self.books.submit(self.now_ns, &form).is_none() {
            return;
        }
        self.users.push(who);
        self.attempts.push(Attempt {
            index,
            intended_ns: due_ns,
            started_ns: self.now_ns,
            connected_ns: Some(self.now_ns),
            sent_ns: Some(self.now_ns),
            headers_ns: Some(self.now_ns),
            status: Some(200),
            counting: Counting::PerChunk,
            prompt_tokens: Some(u64::from(request.prompt_tokens)),
            ..Attempt::default()
        });
    }

    fn receive(&mut self, piece: &Piece) {
        let attempt = &mut self.attempts[piece.request as usize];
        attempt.pieces.extend(piece.chunks.iter().map(|&tokens| load::Piece { t_ns: piece.at_ns, tokens }));
        attempt.body_bytes += piece.bytes.len() as u64;
        for slot in [&mut attempt.first_event_ns, &mut attempt.first_content_ns] {
            *slot = slot.or(Some(piece.at_ns));
        }
        if !piece.is_last {
            return;
        }
        attempt.done_ns = Some(piece.at_ns);
        attempt.ending = if piece.is_refused { Ending::Refused } else { Ending::Done };
        attempt.finish = Some("length");
        attempt.output_tokens = Some(attempt.pieces.iter().map(|piece| u64::from(piece.tokens)).sum());
        attempt.cached_tokens = Some(u64::from(piece.cached_tokens));
        if let Schedule::Closed { think, .. } = self.rehearsal.schedule {
            self.due.push(Reverse((piece.at_ns + think.as_nanos() as i64, self.users[piece.request as usize])));
        }
    }

    fn load_run(&mut self) -> LoadRun {
        let attempts = std::mem::take(&mut self.attempts);
        LoadRun { attempts, health: Health::default(), start_ns: self.load_start_ns, end_ns: self.now_ns }
    }
}

/// A request as its text would be read.
fn asked(workload: &Workload, request: &Request) -> Asked {
    Asked {
        prompt_tokens: request.prompt_tokens,
        output_tokens: request.output_tokens,
        // Ids of blocks are dense and of whole prefixes already.
        blocks: workload.blocks(request).iter().map(|block| u64::from(*block)).collect(),
        is_streamed: true,
        has_usage: true,
        has_usage_per_chunk: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulate::workload::{Arrivals, Generator, Lengths};

    fn rehearsal(schedule: Schedule) -> Rehearsal {
        let generator = Generator {
            count: 2000,
            arrivals: Arrivals::Poisson { per_s: 10.0 },
            prompts: Lengths::Fixed(200),
            outputs: Lengths::Fixed(20),
            prefix: None,
            seed: 3,
        };
        let setup = Setup::default();
        Rehearsal {
            setup,
            workload: generator.generate(),
            schedule,
            duration: Duration::from_secs(20),
            start_ns: 1_796_036_992_000_000_000,
        }
    }

    #[test]
    fn a_rehearsal_is_the_capture_of_a_load() {
        for (schedule, expected) in
            [(Schedule::Open, 150..250), (Schedule::Closed { users: 4, think: Duration::ZERO, ramp: Duration::from_secs(1) }, 200..600)]
        {
            let capture = rehearsal(schedule).capture().unwrap();
            assert!(expected.contains(&capture.tables.requests.t_sent_ns.len()), "{}", capture.tables.requests.t_sent_ns.len());
            assert_eq!(capture.manifest.subject.provenance, "simulated");
            assert_eq!(capture.manifest.subject.engine, "vllm");
            let signals: Vec<&str> = capture.tables.samples.signal.iter().map(|name| capture.text(*name)).collect();
            assert!(signals.contains(&"engine.running") && signals.contains(&"client.completed"));
            let settings: Vec<&str> = capture.tables.settings.key.iter().map(|name| capture.text(*name)).collect();
            assert!(settings.contains(&"config.max_num_seqs"), "{settings:?}");
        }
        assert_eq!(rehearsal(Schedule::Open).capture().unwrap(), rehearsal(Schedule::Open).capture().unwrap());
    }
}
