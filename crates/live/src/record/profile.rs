//! Starting and stopping an engine's own profiler over its HTTP endpoints: `POST /start_profile` and `POST /stop_profile`,
//! as vLLM and SGLang have them. The engine writes the trace where it was told to when it was started.

use std::time::Duration;

use super::outbox::{Outbox, Piece};
use crate::address::Address;
use crate::fetch::Fetch;

/// Writing the trace can take long.
const ANSWER: Duration = Duration::from_secs(120);

/// Profiles for `length`, and tells what came of it.
pub(super) async fn run(engine: Address, length: Duration, outbox: Outbox) {
    let ask = |path: &str| Fetch { posts: true, total_timeout: ANSWER, ..Fetch::new(engine.at(path)) };
    let tell = |sentence: String| outbox.put(Piece::Profiler { sentence });
    if let Err(error) = ask("/start_profile").get().await {
        tell(format!("the engine's profiler could not be started: {error}"));
        return;
    }
    tell("the engine's profiler was started; its requests are slower until it has written its trace".to_string());
    tokio::time::sleep(length).await;
    match ask("/stop_profile").get().await {
        Ok(_) => tell(format!("the engine's profiler was stopped after {} s", length.as_secs_f64())),
        Err(error) => tell(format!("the engine's profiler could not be stopped: {error}")),
    }
}
