//! The address of a metrics endpoint. Credentials in it are used for the request and never shown.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// What is wrong with an address. No variant shows credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme.
    #[error("expected an address that starts with `http://` or `https://`, found `{0}://`")]
    Scheme(String),
    /// Not an address.
    #[error("expected an address like `http://host:8000/metrics`, found one that cannot be parsed")]
    Malformed,
}

/// An `http://` or `https://` address. Ordered and shown by what may be shown: scheme, host, port, path and query, values of
/// secret-looking query parameters redacted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    is_tls: bool,
    host: String,
    port: u16,
    path_and_query: String,
    credentials: Option<String>,
}

impl Address {
    /// Host name or address, without brackets.
    pub(crate) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// True where the server is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What the `Host` header says.
    pub(crate) fn authority(&self) -> String {
        if self.port == default_port(self.is_tls) { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// Path and query as sent.
    pub(crate) fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// Reads the base address of a server with an HTTP API: the path, if any, is a prefix of all its paths.
    ///
    /// # Errors
    /// See [`AddressError`]; a query is refused.
    pub fn base(text: &str) -> Result<Self, AddressError> {
        let mut address: Self = text.parse()?;
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.find('/').map_or("", |at| &rest[at..]).trim_end_matches('/');
        if rest.contains(['?', '#']) {
            return Err(AddressError::Malformed);
        }
        path.clone_into(&mut address.path_and_query);
        Ok(address)
    }

    /// The server itself: the same address without path and query.
    #[must_use]
    pub fn server(&self) -> Self {
        Self { path_and_query: String::new(), ..self.clone() }
    }

    /// The address of a path of the API, query included.
    pub(crate) fn at(&self, path_and_query: &str) -> Self {
        Self { path_and_query: format!("{}{path_and_query}", self.path_and_query), ..self.clone() }
    }

    /// The metrics page of a server at this base address.
    #[must_use]
    pub fn metrics(&self) -> Self {
        self.at("/metrics")
    }

    /// True when the address itself holds a user and a password.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// What the `Authorization` header says.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.credentials.as_ref().map(|credentials| format!("Basic {}", base64(percent_decoded(credentials).as_slice())))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads an address; `/metrics` is added where there is no path.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, _) = text.split_once("://").ok_or(AddressError::Malformed)?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => {}
            _ if scheme.chars().all(char::is_alphanumeric) => return Err(AddressError::Scheme(scheme.to_string())),
            _ => return Err(AddressError::Malformed),
        }
        let is_tls = scheme.eq_ignore_ascii_case("https");
        let uri: Uri = text.parse().map_err(|_| AddressError::Malformed)?;
        let authority = uri.authority().ok_or(AddressError::Malformed)?;
        let (credentials, host_and_port) = match authority.as_str().rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials.to_string()), rest),
            None => (None, authority.as_str()),
        };
        let port_is_bad = host_and_port.len() > authority.host().len() && authority.port_u16().is_none();
        if authority.host().is_empty() || port_is_bad {
            return Err(AddressError::Malformed);
        }
        let path_and_query = match (uri.path(), uri.query()) {
            ("" | "/", None) => "/metrics".to_string(),
            ("" | "/", Some(query)) => format!("/metrics?{query}"),
            (path, None) => path.to_string(),
            (path, Some(query)) => format!("{path}?{query}"),
        };
        let port = authority.port_u16().unwrap_or_else(|| default_port(is_tls));
        Ok(Self { is_tls, host: authority.host().to_string(), port, path_and_query, credentials })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())?;
        let Some((path, query)) = self.path_and_query.split_once('?') else {
            return f.write_str(&self.path_and_query);
        };
        f.write_str(path)?;
        for (at, pair) in query.split('&').enumerate() {
            f.write_str(if at == 0 { "?" } else { "&" })?;
            match pair.split_once('=') {
                Some((key, _)) if capture::settings::is_secret(key) => write!(f, "{key}={}", capture::settings::REDACTED)?,
                _ => f.write_str(pair)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

fn default_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

/// `%41` to `A`; what is no such escape stays.
fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let value = escape.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    decoded
}

/// Base64 with padding (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { digit as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match text.parse::<Address>() {
            Ok(address) => address.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_address_without_path_means_metrics() {
        assert_eq!(shown("http://localhost:8000"), "http://localhost:8000/metrics");
        assert_eq!(shown("http://localhost:8000/"), "http://localhost:8000/metrics");
        assert_eq!(shown("HTTP://gpu-7/custom"), "http://gpu-7/custom");
        assert_eq!(shown("http://[::1]:9400"), "http://[::1]:9400/metrics");
        assert_eq!("http://[::1]:9400".parse::<Address>().unwrap().host(), "::1");
    }

    #[test]
    fn credentials_are_used_and_never_shown() {
        let address: Address = "http://ada:l%40ce@host:8000/m?token=abc&x=1".parse().unwrap();
        assert_eq!(address.to_string(), "http://host:8000/m?token=<redacted>&x=1");
        assert_eq!(format!("{address:?}"), "Address(http://host:8000/m?token=<redacted>&x=1)");
        assert_eq!(address.authorization().as_deref(), Some("Basic YWRhOmxAY2U="));
        assert_eq!(address.path_and_query(), "/m?token=abc&x=1");
        assert!(!shown("http://ada:lace@host:port/").contains("lace"));
    }

    #[test]
    fn a_base_keeps_its_prefix() {
        let base = |text: &str| Address::base(text).map(|address| address.at("/api/v1/query?x=1").to_string());
        assert_eq!(base("http://ada:lace@prom:9090").as_deref(), Ok("http://prom:9090/api/v1/query?x=1"));
        assert_eq!(base("http://prom:9090/").as_deref(), Ok("http://prom:9090/api/v1/query?x=1"));
        assert_eq!(base("http://prom/deep/er/").as_deref(), Ok("http://prom/deep/er/api/v1/query?x=1"));
        assert_eq!(Address::base("http://ada:lace@prom").unwrap().at("/x").authorization().as_deref(), Some("Basic YWRhOmxhY2U="));
        assert_eq!(base("https://prom/deep").as_deref(), Ok("https://prom/deep/api/v1/query?x=1"));
        assert!(base("http://prom?query=1").is_err() && base("prom:9090").is_err());
    }

    #[test]
    fn other_schemes_are_named() {
        assert_eq!(shown("https://host"), "https://host/metrics");
        assert_eq!(shown("HTTPS://host:443/m"), "https://host/m");
        assert_eq!(shown("https://host:80/m"), "https://host:80/m");
        assert_eq!(shown("ftp://host"), "expected an address that starts with `http://` or `https://`, found `ftp://`");
        for text in ["http://", "http://:80", "host:8000", "http://h:99999/", "://", "http:// host", "http://\u{1}"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn base64_matches_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
