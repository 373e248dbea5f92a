//! Byte streams to a server. TLS belongs here: another way to fill a [`Transport`].

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::connect_string::HostPort;
use crate::dial::Dial;

/// An open connection, both directions.
pub(super) struct Transport {
    pub(super) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Opens a connection to the host.
pub(super) async fn dial(dial: &dyn Dial, host: &HostPort) -> io::Result<Transport> {
    let stream = dial.dial(host.host(), host.port()).await?;
    // Requests are small and already gathered; waiting for more only adds latency.
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok(Transport { read: Box::new(read), write: Box::new(write) })
}
