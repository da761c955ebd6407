//! Request rows at the client and at a gateway, and the gaps inside their streams.

use capture::Capture;

use super::Evidence;

/// One finished attempt as one vantage saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRow {
    /// Sent (client) or received (gateway), host clock, ns.
    pub t_sent_ns: i64,
    /// Due.
    pub t_intended_ns: Option<i64>,
    /// Connection in hand.
    pub t_connected_ns: Option<i64>,
    /// Passed on to the upstream.
    pub t_upstream_sent_ns: Option<i64>,
    /// First byte from the upstream.
    pub t_upstream_first_ns: Option<i64>,
    /// Entered the engine's queue.
    pub t_queued_ns: Option<i64>,
    /// First scheduled.
    pub t_scheduled_ns: Option<i64>,
    /// First token, or first byte passed on.
    pub t_first_ns: Option<i64>,
    /// Stream closed, or last token.
    pub t_done_ns: Option<i64>,
    /// Prompt tokens.
    pub tokens_in: Option<i64>,
    /// Output tokens.
    pub tokens_out: Option<i64>,
    /// True when it ended well.
    pub ok: bool,
    /// 0 for the first attempt.
    pub attempt: u32,
    /// True when it opened a connection of its own, false when it reused one.
    pub new_connection: Option<bool>,
}

impl RequestRow {
    /// Sent to first token, ns.
    pub fn ttft_ns(&self) -> Option<i64> {
        self.t_first_ns.map(|first| first - self.t_sent_ns)
    }

    /// Sent to a connection in hand, ns.
    pub fn connection_wait_ns(&self) -> Option<i64> {
        self.t_connected_ns.map(|connected| (connected - self.t_sent_ns).max(0))
    }

    /// Sent to done, ns.
    pub fn e2e_ns(&self) -> Option<i64> {
        self.t_done_ns.map(|done| done - self.t_sent_ns)
    }
}

/// One gap between delivered chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Arrival of the later chunk, host clock, ns.
    pub t_end_ns: i64,
    /// Length, ns.
    pub gap_ns: i64,
}

pub(super) fn read(capture: &Capture, evidence: &mut Evidence) {
    let table = &capture.tables.requests;
    let [client, gateway, server] = ["client", "gateway", "server"].map(|vantage| capture.names.find(vantage));
    for at in 0..table.t_sent_ns.len() {
        if !evidence.takes(table.run_idx[at], table.t_sent_ns[at]) {
            continue;
        }
        let status_ok = table.status[at].is_none_or(|status| (200..300).contains(&status));
        let failed = matches!(capture.text(table.finish[at]), "error" | "timeout" | "abort" | "aborted");
        let row = RequestRow {
            t_sent_ns: table.t_sent_ns[at],
            t_intended_ns: table.t_intended_ns[at],
            t_connected_ns: table.t_connected_ns[at],
            t_upstream_sent_ns: table.t_upstream_sent_ns[at],
            t_upstream_first_ns: table.t_upstream_first_ns[at],
            t_queued_ns: table.t_queued_ns[at],
            t_scheduled_ns: table.t_scheduled_ns[at],
            t_first_ns: table.t_first_content_ns[at].or(table.t_first_event_ns[at]),
            t_done_ns: table.t_done_ns[at].or(table.t_last_token_ns[at]),
            tokens_in: table.tokens_in[at],
            tokens_out: table.tokens_out[at],
            ok: status_ok && !failed,
            attempt: table.attempt[at],
            new_connection: table.new_connection[at].map(|opened| opened != 0),
        };
        if Some(table.vantage[at]) == client {
            evidence.client.push(row);
        } else if Some(table.vantage[at]) == gateway {
            evidence.gateway.push(row);
        } else if Some(table.vantage[at]) == server {
            evidence.server.push(row);
        }
    }
    let chunks = &capture.tables.chunks;
    for at in 0..chunks.t_ns.len() {
        if evidence.takes(chunks.run_idx[at], chunks.t_ns[at]) && Some(chunks.vantage[at]) == client && chunks.chunk_idx[at] > 0 {
            evidence.gaps.push(Gap { t_end_ns: chunks.t_ns[at], gap_ns: chunks.gap_ns[at] });
        }
    }
}
