//! What answers at the address: its model and its dialect, from the model list that all OpenAI-compatible servers have.

use std::time::Duration;

use serde_json::Value;

use super::body::Dialect;
use crate::address::Address;
use crate::authorization::Authorization;
use crate::fetch::{Fetch, FetchError};
use crate::window::runtime;

/// The owner that our own simulated engine names.
pub(crate) const SIMULATED_OWNER: &str = "inferoscope-simulated";

/// What the server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// First model of its list.
    pub model: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Whether it is this program's simulated engine.
    pub is_simulated: bool,
}

/// Why the server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The runtime could not be built.
    #[error("could not set up network I/O")]
    Runtime(#[source] std::io::Error),
    /// An answer without a model.
    #[error("expected a model list with an `id` from `{0}`, found none; name the model and the dialect")]
    NoModel(Address),
}

/// Asks `/v1/models`. TGI names the model's owner and no engine there; it is taken for plain OpenAI.
///
/// # Errors
/// See [`TargetError`].
pub fn ask(server: &Address, authorization: Option<&Authorization>) -> Result<Target, TargetError> {
    let address = server.at("/v1/models");
    let limits = Fetch::new(address.clone());
    let fetch = Fetch { total_timeout: Duration::from_secs(10), max_body_bytes: 4 << 20, authorization: authorization.cloned(), ..limits };
    let body = runtime().map_err(TargetError::Runtime)?.block_on(fetch.get())?;
    read(&body).ok_or(TargetError::NoModel(address))
}

fn read(body: &[u8]) -> Option<Target> {
    let list: Value = serde_json::from_slice(body).ok()?;
    let first = list["data"].get(0)?;
    let owner = first["owned_by"].as_str().unwrap_or_default();
    Some(Target { model: first["id"].as_str()?.to_string(), dialect: Dialect::of_owner(owner), is_simulated: owner == SIMULATED_OWNER })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_the_first_model_tells_the_dialect() {
        let dialect = |owner: &str| {
            let body = format!(r#"{{"object":"list","data":[{{"id":"m","owned_by":"{owner}"}},{{"id":"adapter"}}]}}"#);
            read(body.as_bytes()).map(|target| (target.dialect, target.is_simulated))
        };
        assert_eq!(dialect("vllm"), Some((Dialect::Vllm, false)));
        assert_eq!(dialect("sglang"), Some((Dialect::Sglang, false)));
        assert_eq!(dialect("llamacpp"), Some((Dialect::LlamaCpp, false)));
        assert_eq!(dialect("meta-llama"), Some((Dialect::OpenAi, false)));
        assert_eq!(dialect(SIMULATED_OWNER), Some((Dialect::Vllm, true)));
        assert_eq!(read(b"{\"data\":[]}"), None);
        assert_eq!(read(b"<html>"), None);
    }
}
