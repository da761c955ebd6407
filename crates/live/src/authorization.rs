//! Who asks: a bearer token, or a user with a password, taken from an environment variable or a file.
//!
//! The secret goes into the request and nowhere else: nothing here shows it.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use hyper::header::HeaderValue;

use crate::address::base64;

/// Longest secret that is sent.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// The value of an `Authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization(String);

/// Why there is no secret to send. No variant shows one.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// Neither `env:NAME` nor `file:PATH`.
    #[error("expected `env:NAME` or `file:PATH`, where the secret stands; found neither")]
    Place,
    /// The variable is not set, or is no text.
    #[error("expected the secret in the environment variable `{0}`, which is not set")]
    Variable(String),
    /// The file cannot be read.
    #[error("could not read the secret from `{path}`")]
    File {
        /// The file.
        path: String,
        /// Cause.
        source: std::io::Error,
    },
    /// Nothing there, or what no header may hold.
    #[error("expected one line of visible characters in `{0}`, found none or more")]
    Content(String),
    /// A user without a password.
    #[error("expected `user:password` in `{0}`, found no `:`")]
    NoPassword(String),
}

impl Authorization {
    /// A bearer token that stands in `env:NAME` or `file:PATH`.
    pub fn bearer(place: &str) -> Result<Self, AuthorizationError> {
        Self::checked(format!("Bearer {}", secret(place)?), place)
    }

    /// `user:password` that stands in `env:NAME` or `file:PATH`.
    pub fn basic(place: &str) -> Result<Self, AuthorizationError> {
        let secret = secret(place)?;
        if !secret.contains(':') {
            return Err(AuthorizationError::NoPassword(place.to_string()));
        }
        Self::checked(format!("Basic {}", base64(secret.as_bytes())), place)
    }

    fn checked(header: String, place: &str) -> Result<Self, AuthorizationError> {
        match HeaderValue::from_str(&header) {
            Ok(_) => Ok(Self(header)),
            Err(_) => Err(AuthorizationError::Content(place.to_string())),
        }
    }

    pub(crate) fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization(<redacted>)")
    }
}

/// The one line that stands in `env:NAME` or `file:PATH`.
pub fn secret(place: &str) -> Result<String, AuthorizationError> {
    let text = if let Some(name) = place.strip_prefix("env:") {
        std::env::var(name).map_err(|_| AuthorizationError::Variable(name.to_string()))?
    } else if let Some(path) = place.strip_prefix("file:") {
        let failed = |source| AuthorizationError::File { path: path.to_string(), source };
        let mut text = String::new();
        File::open(path).map_err(failed)?.take(MAX_SECRET_BYTES).read_to_string(&mut text).map_err(failed)?;
        text
    } else {
        return Err(AuthorizationError::Place);
    };
    let line = text.trim();
    if line.is_empty() || line.contains(['\n', '\r']) {
        return Err(AuthorizationError::Content(place.to_string()));
    }
    Ok(line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_where_it_stands_and_never_shown() {
        let folder = std::env::temp_dir().join(format!("inferoscope-secret-{}", std::process::id()));
        std::fs::write(&folder, "ada:lace\n").unwrap();
        let place = format!("file:{}", folder.display());
        assert_eq!(Authorization::basic(&place).unwrap().header(), "Basic YWRhOmxhY2U=");
        let bearer = Authorization::bearer(&place).unwrap();
        assert_eq!((bearer.header(), format!("{bearer:?}").as_str()), ("Bearer ada:lace", "Authorization(<redacted>)"));
        std::fs::write(&folder, "two\nlines").unwrap();
        assert!(matches!(Authorization::bearer(&place), Err(AuthorizationError::Content(_))));
        std::fs::write(&folder, "bell\u{7}").unwrap();
        assert!(matches!(Authorization::bearer(&place), Err(AuthorizationError::Content(_))));
        std::fs::remove_file(&folder).unwrap();
        assert!(matches!(Authorization::bearer(&place), Err(AuthorizationError::File { .. })));
        assert!(matches!(Authorization::bearer("hunter2"), Err(AuthorizationError::Place)));
        assert!(matches!(Authorization::basic("env:NOT_SET_ANYWHERE_HERE"), Err(AuthorizationError::Variable(_))));
    }
}
