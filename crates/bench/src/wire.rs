//! The byte stream of a connection, plain or with TLS, on a blocking or non-blocking socket.
//!
//! In: a socket, which may still be connecting. Out: `Read` and `Write` that behave like those of the socket and
//! return `WouldBlock` when it does. The TLS handshake is not a separate step: it happens within the first writes
//! and reads, so that many connections can do it in parallel.

use std::io::{self, ErrorKind, Read, Write};

use herdsman_tls::rustls::ClientConnection;
use herdsman_tls::{Peer, TlsContext, describe_failure};

/// A connection.
pub(crate) enum Wire<S> {
    Plain(S),
    Tls(Box<TlsWire<S>>),
}

/// A socket and the TLS session on it.
pub(crate) struct TlsWire<S> {
    socket: S,
    session: ClientConnection,
}

impl<S> Wire<S> {
    /// Creates a TLS connection to this peer.
    pub(crate) fn secured(socket: S, context: &TlsContext, peer: &Peer) -> io::Result<Self> {
        let config = context.client_config(peer).map_err(io::Error::other)?;
        let session =
            ClientConnection::new(config, peer.server_name()).map_err(io::Error::other)?;
        Ok(Wire::Tls(Box::new(TlsWire { socket, session })))
    }

    pub(crate) fn socket(&self) -> &S {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Tls(wire) => &wire.socket,
        }
    }

    pub(crate) fn socket_mut(&mut self) -> &mut S {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Tls(wire) => &mut wire.socket,
        }
    }

    /// Converts the socket of the connection.
    pub(crate) fn with_socket<T>(
        self,
        change: impl FnOnce(S) -> io::Result<T>,
    ) -> io::Result<Wire<T>> {
        Ok(match self {
            Wire::Plain(socket) => Wire::Plain(change(socket)?),
            Wire::Tls(wire) => {
                let TlsWire { socket, session } = *wire;
                Wire::Tls(Box::new(TlsWire { socket: change(socket)?, session }))
            }
        })
    }

    /// Whether a read that does not fill the buffer has read everything available. With TLS a read returns the
    /// content of one record, and there may be more.
    pub(crate) fn is_emptied_by_short_read(&self) -> bool {
        matches!(self, Wire::Plain(_))
    }
}

impl<S: Read + Write> Read for Wire<S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.read(room),
            Wire::Tls(wire) => wire.read(room),
        }
    }
}

impl<S: Read + Write> Write for Wire<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.write(bytes),
            Wire::Tls(wire) => wire.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(_) => Ok(()),
            Wire::Tls(wire) => wire.send_sealed(),
        }
    }
}

impl<S: Read + Write> TlsWire<S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            // Send what the server may be waiting for before waiting for the server.
            tolerate_full(self.send_sealed())?;
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            if let Err(error) = self.session.process_new_packets() {
                // Sends the alert, which says what was wrong.
                let _ = self.send_sealed();
                return Err(io::Error::new(ErrorKind::InvalidData, describe_failure(&error)));
            }
        }
    }

    /// Accepts bytes only when the socket has taken all earlier ones. During the handshake they are buffered.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_sealed()?;
        let taken = self.session.writer().write(bytes)?;
        tolerate_full(self.send_sealed())?;
        Ok(taken)
    }

    /// Writes encrypted bytes to the socket.
    fn send_sealed(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

/// Ignores that the socket's buffer is full; the write is repeated later.
fn tolerate_full(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        other => other,
    }
}
