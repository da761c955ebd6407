//! Where a setting's value was read, in order of trust, and which settings must be redacted.

/// Source of a setting's value, most trusted first. A start-up dump says what is in effect; a default is only what
/// that version would do if nobody said otherwise.
pub const SOURCES: &[&str] = &["start-up dump", "metrics", "command line", "environment", "typed", "default"];

/// Rank of a setting source; lower wins. Unknown sources come last.
pub fn source_rank(source: &str) -> usize {
    SOURCES.iter().position(|known| source.starts_with(known)).unwrap_or(SOURCES.len())
}

/// What stands in place of a redacted value.
pub const REDACTED: &str = "<redacted>";

/// True when a setting or flag of this name may hold a secret: key, token, secret, password, credential and the like.
/// Names that only count tokens (`max_num_batched_tokens`, `token_budget`) are not secrets.
pub fn is_secret(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    let words: Vec<&str> = name.split(['_', '.', ' ']).collect();
    words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        match *word {
            "pass" => !matches!(next, "config" | "manager" | "through"),
            "tokens" => {
                next.is_empty() && matches!(before, "" | "api" | "access" | "auth" | "bearer" | "hf" | "refresh" | "session" | "user")
            }
            // `NGC_API=...` is how some name a key.
            "api" => next.is_empty() && !matches!(before, "" | "config" | "env" | "use" | "enable" | "disable"),
            "key" => !matches!(next, "value" | "head" | "heads" | "dim"),
            "token" => !matches!(next, "threshold" | "budget" | "limit" | "count" | "id" | "ids" | "size"),
            "keys" | "apikey" | "auth" | "authorization" | "bearer" | "passwd" | "passphrase" | "passcode" | "pwd" | "pw" | "cookie"
            | "cookies" | "sig" | "signature" => true,
            _ => ["secret", "password", "credential", "apitoken", "apikey"].iter().any(|part| word.contains(part)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_token_counts() {
        for name in [
            "--api-key",
            "HF_TOKEN",
            "hf_token",
            "client.secret",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "ssl-keyfile-password",
            "credentials_path",
            "DB_PASS",
            "DB_PWD",
            "NGC_API",
            "env.NGC_API",
            "pw",
            "tokens",
            "access_tokens",
            "Cookie",
            "X-Amz-Signature",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "max_num_batched_tokens",
            "num_speculative_tokens",
            "kv_cache_dtype",
            "tokenizer",
            "served_model_name",
            "num_key_value_heads",
            "long_prefill_token_threshold",
            "pass_config",
            "num_tokens",
            "api_server_count",
            "disable_api",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
