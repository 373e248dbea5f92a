//! A connection to another server, plain or through TLS: one thread reads it, another one writes, and any
//! thread can shut it down.
//!
//! The TLS session is not locked while waiting for the socket, so a peer that does not read does not prevent
//! us from reading, nor the other way round.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SendFlags;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Bytes requested from the socket at a time.
const RECEIVED_BYTES: usize = 16 * 1024;
/// Bytes encrypted at a time.
const SEALED_BYTES: usize = 64 * 1024;

/// A connection.
pub(crate) struct PeerStream {
    socket: Arc<TcpStream>,
    tls: Option<TlsLayer>,
    /// The login name of the peer, if it has logged in.
    login: OnceLock<String>,
}

struct TlsLayer {
    session: Mutex<Connection>,
    /// Used by the reading thread: bytes from the socket that the session has not accepted yet.
    received: Mutex<Received>,
    /// Used by the writing thread: encrypted bytes that the socket has not accepted yet.
    sealed: Mutex<Vec<u8>>,
}

struct Received {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl PeerStream {
    pub fn plain(socket: Arc<TcpStream>) -> Self {
        PeerStream { socket, tls: None, login: OnceLock::new() }
    }

    /// Does the server's side of the handshake, before the deadline `by`.
    pub fn accept(
        socket: Arc<TcpStream>,
        config: Arc<ServerConfig>,
        by: Instant,
    ) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::shake_hands(socket, session.into(), by)
    }

    /// Does the client's side of the handshake, before the deadline `by`.
    pub fn connect(
        socket: Arc<TcpStream>,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        by: Instant,
    ) -> io::Result<Self> {
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::shake_hands(socket, session.into(), by)
    }

    fn shake_hands(
        socket: Arc<TcpStream>,
        mut session: Connection,
        by: Instant,
    ) -> io::Result<Self> {
        session.set_buffer_limit(Some(SEALED_BYTES));
        while session.is_handshaking() || session.wants_write() {
            let rest = by.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake timed out"));
            }
            socket.set_read_timeout(Some(rest))?;
            socket.set_write_timeout(Some(rest))?;
            if session.wants_write() {
                session.write_tls(&mut &*socket)?;
            } else if session.read_tls(&mut &*socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if let Err(error) = session.process_new_packets() {
                // The alert says what was wrong.
                _ = session.write_tls(&mut &*socket);
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    herdsman_tls::describe_failure(&error),
                ));
            }
        }
        let received = Received { bytes: vec![0; RECEIVED_BYTES], start: 0, end: 0 };
        let tls = TlsLayer {
            session: Mutex::new(session),
            received: Mutex::new(received),
            sealed: Mutex::default(),
        };
        Ok(PeerStream { socket, tls: Some(tls), login: OnceLock::new() })
    }

    /// The underlying socket; its options and timeouts apply to reads and writes here.
    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// The certificate that the peer has presented.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        let session = self.tls.as_ref()?.session.lock();
        Some(session.peer_certificates()?.first()?.clone())
    }

    /// Whether the peer has authenticated itself.
    pub fn is_proven(&self) -> bool {
        self.login.get().is_some() || self.certificate().is_some()
    }

    /// The login name of the peer.
    pub fn login(&self) -> Option<&str> {
        self.login.get().map(String::as_str)
    }

    /// Records the login of the peer, which happens once.
    pub fn set_login(&self, name: String) {
        _ = self.login.set(name);
    }

    /// Waits for bytes; returns 0 at the end.
    pub fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => (&*self.socket).read(out),
            Some(tls) => tls.read(&self.socket, out),
        }
    }

    /// Waits until the socket accepts some of the bytes, and returns how many. Through TLS they may be sent
    /// only by [`PeerStream::flush`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => (&*self.socket).write(bytes),
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    /// Waits until the socket has accepted all that was written.
    pub fn flush(&self) -> io::Result<()> {
        match &self.tls {
            None => Ok(()),
            Some(tls) => tls.send_sealed(&self.socket, &mut tls.sealed.lock()),
        }
    }

    /// Writes and flushes all bytes.
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.flush()
    }

    /// Writes what the socket accepts without waiting, and returns the number of bytes; always 0 through TLS, which
    /// may have to wait.
    pub fn try_write(&self, bytes: &[u8]) -> usize {
        if self.tls.is_some() {
            return 0;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // The next write reports the error.
        rustix::net::send(&*self.socket, bytes, flags).unwrap_or(0)
    }

    /// Whether the peer has closed the connection or its sending direction, also if what it has sent before was not
    /// read.
    pub fn is_hung_up(&self) -> bool {
        let mut sockets = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        // Errors and hang-ups are always reported. If the poll fails, the next read or write reports why.
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut sockets, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Shuts down the sending direction.
    pub fn end_writing(&self) {
        if let Some(tls) = &self.tls {
            tls.session.lock().send_close_notify();
            _ = tls.seal(&[], &mut tls.sealed.lock());
            _ = self.flush();
        }
        _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

impl TlsLayer {
    fn read(&self, socket: &TcpStream, out: &mut [u8]) -> io::Result<usize> {
        let mut received = self.received.lock();
        loop {
            match self.session.lock().reader().read(out) {
                // Closed without close_notify; the protocol above knows whether the stream was complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if received.start == received.end {
                let count = { socket }.read(&mut received.bytes)?;
                if count == 0 {
                    return Ok(0);
                }
                (received.start, received.end) = (0, count);
            }
            self.decrypt(&mut received)?;
        }
    }

    fn decrypt(&self, received: &mut Received) -> io::Result<()> {
        let mut session = self.session.lock();
        let mut bytes = &received.bytes[received.start..received.end];
        let count = session.read_tls(&mut bytes)?;
        received.start += count;
        session.process_new_packets().map(|_| ()).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, herdsman_tls::describe_failure(&error))
        })
    }

    fn write(&self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let mut sealed = self.sealed.lock();
        self.send_sealed(socket, &mut sealed)?;
        let count = self.seal(bytes, &mut sealed)?;
        match self.send_sealed(socket, &mut sealed) {
            Err(error) if is_timeout(&error) => Ok(count),
            other => other.map(|()| count),
        }
    }

    /// Encrypts the bytes, together with pending TLS records.
    fn seal(&self, bytes: &[u8], sealed: &mut Vec<u8>) -> io::Result<usize> {
        let mut session = self.session.lock();
        let count = session.writer().write(&bytes[..bytes.len().min(SEALED_BYTES)])?;
        while session.wants_write() {
            session.write_tls(sealed)?;
        }
        Ok(count)
    }

    fn send_sealed(&self, socket: &TcpStream, sealed: &mut Vec<u8>) -> io::Result<()> {
        let mut sent = 0;
        let outcome = loop {
            if sent == sealed.len() {
                break Ok(());
            }
            match { socket }.write(&sealed[sent..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        sealed.drain(..sent);
        outcome
    }
}

/// Whether the socket's timeout has passed.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
