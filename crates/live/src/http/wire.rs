//! The way to a server: a socket, or TLS over one.
//!
//! Servers are trusted by the certificates of this system; `SSL_CERT_FILE` or `SSL_CERT_DIR` name others, as with curl and OpenSSL.
//! Protocols are TLS 1.2 and 1.3 with HTTP/1.1: one request at a time is on a connection, so that HTTP/2 would change nothing.

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

use crate::address::Address;

/// A socket, or TLS over one.
pub(crate) enum Wire<S> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

/// Opens a socket to the server, name look-up included.
pub(crate) async fn dial(server: &Address) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((server.host(), server.port())).await?;
    // A request must not wait for the acknowledgment of the one before.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Speaks TLS over the socket where the address says so.
pub(crate) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(server: &Address, stream: S) -> io::Result<Wire<S>> {
    if !server.is_tls() {
        return Ok(Wire::Plain(stream));
    }
    let name = ServerName::try_from(server.host().to_string()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let config = config().as_ref().map_err(|reason| io::Error::other(reason.clone()))?;
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
    Ok(Wire::Tls(Box::new(stream)))
}

/// How servers are trusted, read once.
fn config() -> &'static Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(|| {
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
        Ok(Arc::new(config))
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
