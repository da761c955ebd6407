//! What vLLM does when nobody says, by version.

use crate::engines::DefaultsQuery;

pub(super) fn defaults(_query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    Vec::new()
}
