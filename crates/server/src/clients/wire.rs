//! The bytes of a client's connection, plain or through TLS, as the connection's loop wants them: a read
//! that is polled, a write that takes what it can, and readiness.
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

/// What is read and dropped of a connection that ends: about as much as a client can have sent before it
/// hears of the end.
const DROPPED_BYTES_MAX: usize = 1 << 20;

/// An open connection.
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsWire>),
}

impl Wire {
    /// A plain connection, or with the TLS session that a handshake has made.
    pub fn new(stream: TcpStream, tls: Option<Box<ServerConnection>>) -> Self {
        match tls {
            None => Wire::Plain(stream),
            Some(session) => Wire::Tls(Box::new(TlsWire::new(stream, session))),
        }
    }

    /// Takes the connection off this thread's runtime, for another one.
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

    /// Reads what has arrived; 0 bytes are the end.
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

    /// Takes as many bytes as it can without waiting.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.try_write(bytes),
            Wire::Tls(wire) => wire.try_write(bytes),
        }
    }

    /// Gives the socket what was taken and waits to be sent, as far as it takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(_) => Ok(()),
            Wire::Tls(wire) => wire.flush(),
        }
    }

    /// All that was taken is with the socket.
    pub fn is_flushed(&self) -> bool {
        match self {
            Wire::Plain(_) => true,
            Wire::Tls(wire) => wire.is_flushed(),
        }
    }

    /// The socket takes more.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_write_ready(context)
    }

    /// Waits until the other side has closed. If it has sent something before, only a reset is noticed.
    pub async fn closed(&self) -> io::Result<()> {
        match self.socket().peek(&mut [0]).await? {
            0 => Ok(()),
            _ => self.gone().await,
        }
    }

    /// Waits until the other side has gone.
    pub async fn gone(&self) -> io::Result<()> {
        self.socket().ready(Interest::ERROR).await.map(|_| ())
    }

    /// Ends the stream in order. Bytes left unread would make the kernel reset the connection, and
    /// the client could lose the last reply; but one that goes on sending is not waited for.
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

    /// The subject of the certificate that the client has shown and that was found good.
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
