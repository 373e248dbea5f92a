//! Byte streams to a server. TLS belongs here: another way to fill a [`Transport`].

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connect_string::HostPort;

/// An open connection, both directions.
pub(super) struct Transport {
    pub(super) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Connects to the first address of the host that answers. The name is resolved anew each time, so
/// a server that has moved is found.
pub(super) async fn dial(host: &HostPort) -> io::Result<Transport> {
    let stream = TcpStream::connect((host.host(), host.port())).await?;
    // Requests are small and already gathered; waiting for more only adds latency.
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok(Transport { read: Box::new(read), write: Box::new(write) })
}
