//! TLS connections: files that are read again when they change, the handshake, and descriptions of errors.

use std::io;
use std::sync::Arc;

use herdsman_tls::{Peer, Reload, Side, TlsContext, describe_failure, describe_io_failure, rustls};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Transport;
use crate::connect_string::HostPort;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;

/// Reads the files, if TLS is configured.
pub(super) fn load(options: &Options) -> Result<Option<Arc<TlsContext>>> {
    let load = |settings| TlsContext::load(settings, Side::Client);
    let tls = options.tls.clone().map(load).transpose();
    let tls = tls.map_err(|error| Error::not_applied(ErrorKind::Tls(error.to_string())))?;
    for warning in tls.iter().flat_map(TlsContext::warnings) {
        tracing::warn!("TLS: {warning}");
    }
    Ok(tls.map(Arc::new))
}

/// Reads files that have changed, on a thread that may block.
pub(super) async fn reload(tls: &Arc<TlsContext>) {
    let context = Arc::clone(tls);
    match tokio::task::spawn_blocking(move || context.reload_if_changed()).await {
        Ok(Ok(Reload::Reloaded)) => tracing::info!("TLS files have changed and were read again"),
        Ok(Err(error)) => {
            tracing::warn!(
                "TLS files have changed and cannot be used, the previous ones stay in use: {error}"
            );
        }
        // `Err` only occurs when the runtime shuts down.
        Ok(Ok(Reload::Unchanged)) | Err(_) => {}
    }
}

pub(super) async fn handshake(
    tls: &TlsContext,
    host: &HostPort,
    stream: TcpStream,
) -> io::Result<Transport> {
    let mut peer = Peer::dialled(host.host(), stream.peer_addr()?.ip());
    if tls.wants_reverse_lookup(&peer) {
        let address = peer.address();
        peer = tokio::task::spawn_blocking(move || herdsman_tls::reverse_lookup(address)).await?;
    }
    let config = tls.client_config(&peer).map_err(io::Error::other)?;
    let shaking = TlsConnector::from(config).connect(peer.server_name(), stream);
    let stream = shaking.await.map_err(|error| io::Error::other(describe(&error)))?;
    let (read, write) = tokio::io::split(stream);
    let (read, write, peer) = (Box::new(read), Box::new(write), Some(peer.address()));
    Ok(Transport { read, write, needs_flush: true, peer })
}

/// Describes why the handshake failed. A port without TLS closes the connection without a reply.
fn describe(error: &io::Error) -> String {
    let words = describe_io_failure(error);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{words}; is this its TLS port?"),
        _ => words,
    }
}

/// Describes the error if it is one of TLS. With TLS 1.3 the server reports that it rejects the client's certificate
/// after the handshake, with the first bytes that are read.
pub(super) fn describe_tls_failure(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(describe_failure(inner))
}
