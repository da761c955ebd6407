//! Requests of a capture as a workload: when they came, how long they were, how fast they were answered.

use capture::Capture;
use simulate::{Request, Workload};

use crate::evidence::{Evidence, RequestRow};

/// What a capture's request rows say.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequests {
    /// The requests that were answered.
    pub workload: Workload,
    /// Mean time per output token after the first, seconds, where the rows have it.
    pub tpot_s: Option<f64>,
    /// Rows without lengths or without an answer, left out.
    pub left_out: usize,
}

/// The answered requests of the first arm that has any, as the client saw them, else the gateway, else the engine.
pub fn recorded_requests(capture: &Capture) -> Option<RecordedRequests> {
    Evidence::arms(capture).into_iter().map(|arm| Evidence::read(capture, arm)).find_map(|evidence| {
        [&evidence.client, &evidence.gateway, &evidence.server]
            .into_iter()
            .map(|rows| of(rows))
            .find(|found| !found.workload.requests().is_empty())
    })
}

fn of(rows: &[RequestRow]) -> RecordedRequests {
    let (mut requests, mut decode_ns, mut gaps) = (Vec::new(), 0i128, 0i128);
    for row in rows {
        let length = |tokens: Option<i64>| tokens.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
        let (Some(prompt), Some(output), true) = (length(row.tokens_in), length(row.tokens_out), row.ok) else { continue };
        requests.push(Request::new(row.t_sent_ns, prompt, output));
        if let (Some(first), Some(done)) = (row.t_first_ns, row.t_done_ns)
            && output > 1
            && done > first
        {
            decode_ns += i128::from(done) - i128::from(first);
            gaps += i128::from(output) - 1;
        }
    }
    let left_out = rows.len() - requests.len();
    let tpot_s = (gaps > 0).then(|| decode_ns as f64 / gaps as f64 / 1e9);
    RecordedRequests { workload: Workload::new(requests), tpot_s, left_out }
}
