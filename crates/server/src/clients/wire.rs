//! A client's connection, plain or through TLS, with the operations that the connection's loop needs: a read
//! that is polled, a write that never waits, and readiness.
//!
//! A handshake is done before the loop begins, see [`handshake`].

pub(crate) mod handshake;
mod tls;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use rustix::net::Shutdown;
use rustls::ServerConnection;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

use tls::TlsWire;

/// Bytes that are read and dropped when a connection is closed: about as much as a client can have sent before it
/// is notified of the end.
const DROPPED_BYTES_MAX: usize = 1 << 20;

/// An open connection.
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsWire>),
}

impl Wire {
    /// Wraps a plain connection, or one with the TLS session of a completed handshake.
    pub fn new(stream: TcpStream, tls: Option<Box<ServerConnection>>) -> Self {
        match tls {
            None => Wire::Plain(stream),
            Some(session) => Wire::Tls(Box::new(TlsWire::new(stream, session))),
        }
    }

    /// Detaches the connection from this thread's runtime.
    pub fn into_parts(self) -> io::Result<(std::net::TcpStream, Option<Box<ServerConnection>>)> {
        let (stream, session) = match self {
            Wire::Plain(stream) => (stream, None),
            Wire::Tls(wire) => {
                let (stream, session) = wire.into_parts();
                (stream, Some(session))
            }
        };
        Ok((stream.into_std()?, session))
    }

    /// Reads what was received; 0 bytes are the end.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Wire::Plain(stream) => poll_read_buf(Pin::new(stream), context, room),
            Wire::Tls(wire) => wire.poll_read(context, room),
        }
    }

    /// Accepts as many bytes as it can without waiting.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.try_write(bytes),
            Wire::Tls(wire) => wire.try_write(bytes),
        }
    }

    /// Writes buffered bytes as far as the socket accepts them.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(_) => Ok(()),
            Wire::Tls(wire) => wire.flush(),
        }
    }

    /// Whether everything was written to the socket.
    pub fn is_flushed(&self) -> bool {
        match self {
            Wire::Plain(_) => true,
            Wire::Tls(wire) => wire.is_flushed(),
        }
    }

    /// Polls for the socket to accept more bytes.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_write_ready(context)
    }

    /// Waits until the peer has closed. If it has sent something before, only a reset is noticed.
    pub async fn closed(&self) -> io::Result<()> {
        match self.socket().peek(&mut [0]).await? {
            0 => Ok(()),
            _ => self.gone().await,
        }
    }

    /// Waits until the peer has disconnected.
    pub async fn gone(&self) -> io::Result<()> {
        self.socket().ready(Interest::ERROR).await.map(|_| ())
    }

    /// Shuts the stream down. Unread bytes would make the kernel reset the connection, and
    /// the client could lose the last reply; but a client that keeps sending is not waited for.
    pub fn shut_down(&mut self) {
        if let Wire::Tls(wire) = self {
            wire.shut_down();
        }
        let socket = self.socket();
        _ = rustix::net::shutdown(socket, Shutdown::Write);
        let mut unread = [0; 4096];
        let mut dropped = 0;
        while dropped < DROPPED_BYTES_MAX
            && let Ok(count @ 1..) = socket.try_read(&mut unread)
        {
            dropped += count;
        }
    }

    /// The subject of the client's verified certificate.
    pub fn peer_subject(&self) -> Option<String> {
        match self {
            Wire::Plain(_) => None,
            Wire::Tls(wire) => herdsman_tls::subject_name(wire.peer_certificate()?).ok(),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(wire) => wire.socket(),
        }
    }
}
