//! The bytes of a connection, plain or through TLS, on a socket that waits or one that does not.
//!
//! In: a socket, which may still be connecting. Out: `Read` and `Write`, with the manners of the socket:
//! `WouldBlock` where that would say it. The TLS handshake has no step of its own: it happens inside the
//! first writes and reads, so that many connections can go through it side by side.

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
    /// A connection through TLS to this peer.
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

    /// The same connection on another form of its socket.
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

    /// A read that leaves room has taken all there was. Through TLS a read gives what one record holds,
    /// and there may be more.
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
            // What the other side waits for, before we wait for the other side.
            tolerate_full(self.send_sealed())?;
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            if let Err(error) = self.session.process_new_packets() {
                // The alert tells the other side what was wrong.
                let _ = self.send_sealed();
                return Err(io::Error::new(ErrorKind::InvalidData, describe_failure(&error)));
            }
        }
    }

    /// Takes bytes only when earlier ones are with the socket. During the handshake they are kept.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_sealed()?;
        let taken = self.session.writer().write(bytes)?;
        tolerate_full(self.send_sealed())?;
        Ok(taken)
    }

    /// Gives the socket what is encrypted.
    fn send_sealed(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

/// A socket that takes no more now will be asked again.
fn tolerate_full(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        other => other,
    }
}
