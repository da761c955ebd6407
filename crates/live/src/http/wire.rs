//! The way to a server: a socket, or TLS over one.
//!
//! Servers are trusted by the certificates of this system; `SSL_CERT_FILE` or `SSL_CERT_DIR` name others, as with curl and OpenSSL.
//! Protocols are TLS 1.2 and 1.3. HTTP/1.1 is offered alone unless HTTP/2 is asked for: then both are, so that a server that
//! knows only the older one says so.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::HttpVersion;
use crate::address::Address;

/// A socket, or TLS over one.
pub(crate) enum Wire<S> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

impl<S> Wire<S> {
    /// Whether the server was asked over TLS and chose something else.
    pub(super) fn has_refused_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() != Some(b"h2"),
        }
    }
}

/// Opens a socket to the server, name look-up included.
pub(crate) async fn dial(server: &Address) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((server.host(), server.port())).await?;
    // A request must not wait for the acknowledgment of the one before.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Speaks TLS over the socket where the address says so.
pub(crate) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(server: &Address, version: HttpVersion, stream: S) -> io::Result<Wire<S>> {
    if !server.is_tls() {
        return Ok(Wire::Plain(stream));
    }
    let name = ServerName::try_from(server.host().to_string()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let [http1, http2] = configs().as_ref().map_err(|reason| io::Error::other(reason.clone()))?;
    let config = if version == HttpVersion::Http2 { http2 } else { http1 };
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
    Ok(Wire::Tls(Box::new(stream)))
}

/// How servers are trusted, read once; for HTTP/1.1 and for HTTP/2.
fn configs() -> &'static Result<[Arc<ClientConfig>; 2], String> {
    static CONFIGS: OnceLock<Result<[Arc<ClientConfig>; 2], String>> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(found.certs);
        if taken == 0 {
            let why = found.errors.first().map_or_else(|| "none is installed".to_string(), ToString::to_string);
            return Err(format!("expected certificates to trust servers by, found none ({why}); name a file of them in SSL_CERT_FILE"));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut newer = config.clone();
        newer.alpn_protocols.insert(0, b"h2".to_vec());
        Ok([Arc::new(config), Arc::new(newer)])
    })
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
