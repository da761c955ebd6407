//! The way of a replica's tokens to the caller: the API process that sends them, chunks of several tokens, a proxy that
//! holds answers back; and the gaps between what arrives.

use crate::config::Delivery;
use crate::histogram::Histogram;

/// Sends the tokens of one replica.
#[derive(Debug)]
pub(crate) struct Stream {
    token_ns: f64,
    burst: u64,
    is_held_back: bool,
    /// When the API process is free again.
    free_ns: i64,
    /// When the tokens of the last `burst` steps left, by step.
    sent_ns: Vec<i64>,
    /// Sequences that send a chunk in steps of each residue.
    senders: Vec<u64>,
    /// Gaps between chunks at the caller.
    pub(crate) gaps: Histogram,
}

impl Stream {
    pub(crate) fn new(delivery: &Delivery) -> Self {
        let burst = delivery.burst_tokens.max(1) as usize;
        Self {
            token_ns: delivery.api_token_ns / f64::from(delivery.api_servers.max(1)),
            burst: burst as u64,
            is_held_back: delivery.buffering_proxy,
            free_ns: 0,
            sent_ns: vec![0; burst],
            senders: vec![0; burst],
            gaps: Histogram::default(),
        }
    }

    /// Whether callers see nothing before the end.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Step number `step` ended at `end_ns` with `tokens` tokens. Says when they left.
    pub(crate) fn step(&mut self, step: u64, end_ns: i64, tokens: u64) -> i64 {
        let sent_ns = if self.token_ns > 0.0 {
            let work_ns = (tokens as f64 * self.token_ns).round() as i64;
            self.free_ns = self.free_ns.max(end_ns).saturating_add(work_ns);
            self.free_ns
        } else {
            end_ns
        };
        let residue = (step % self.burst) as usize;
        let senders = self.senders[residue];
        if senders > 0 && !self.is_held_back {
            self.gaps.add(sent_ns - self.sent_ns[residue], senders);
        }
        self.sent_ns[residue] = sent_ns;
        sent_ns
    }

    /// A sequence whose latest token left in step `step` decodes from now on.
    pub(crate) fn join(&mut self, step: u64) {
        self.senders[(step % self.burst) as usize] += 1;
    }

    /// It stops after step `step`, preempted or done; it had joined in step `joined`. The tokens of a chunk that is not
    /// full leave now.
    pub(crate) fn leave(&mut self, joined: u64, step: u64) {
        let residue = (joined % self.burst) as usize;
        self.senders[residue] -= 1;
        let is_partial = !(step - joined).is_multiple_of(self.burst);
        if is_partial && !self.is_held_back {
            let last_ns = self.sent_ns[(step % self.burst) as usize];
            self.gaps.add(last_ns - self.sent_ns[residue], 1);
        }
    }

    /// A gap that is not one between two steps: after a preemption or a transfer.
    pub(crate) fn pause(&mut self, since_ns: i64, until_ns: i64) {
        if !self.is_held_back {
            self.gaps.add(until_ns - since_ns, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_four_tokens() {
        let mut stream = Stream::new(&Delivery { burst_tokens: 4, ..Delivery::default() });
        assert_eq!(stream.step(0, 10, 1), 10);
        stream.join(0);
        for step in 1..=9u8 {
            stream.step(u64::from(step), 10 + 10 * i64::from(step), 1);
        }
        stream.leave(0, 9);
        // Ten tokens: the first, two chunks of four, and one left over.
        assert_eq!((stream.gaps.count(), stream.gaps.max_ns(), stream.gaps.mean_ns()), (3, 40, 30));
    }

    #[test]
    fn a_slow_sender_falls_behind() {
        let mut stream = Stream::new(&Delivery { api_token_ns: 4.0, api_servers: 2, ..Delivery::default() });
        assert_eq!(stream.step(0, 10, 10), 30);
        assert_eq!(stream.step(1, 20, 10), 50);
        assert_eq!(stream.step(2, 100, 10), 120);
    }
}
