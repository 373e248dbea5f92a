//! A connection to another server, plain or through TLS: read by one thread, written by another, and cut
//! by anybody.
//!
//! Nobody holds the TLS session while the socket is waited for, so a peer that does not read does not keep
//! us from reading, nor the other way round.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::net::SendFlags;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Asked of the socket at a time.
const RECEIVED_BYTES: usize = 16 * 1024;
/// Encrypted at a time.
const SEALED_BYTES: usize = 64 * 1024;

/// The connection.
pub(crate) struct PeerStream {
    socket: Arc<TcpStream>,
    tls: Option<TlsLayer>,
    /// As whom the other side has logged in, if it has.
    login: OnceLock<String>,
}

struct TlsLayer {
    session: Mutex<Connection>,
    /// Of the thread that reads: bytes from the socket that the session has not taken yet.
    received: Mutex<Received>,
    /// Of the thread that writes: encrypted bytes that the socket has not taken yet.
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

    /// Answers a handshake, until then.
    pub fn accept(
        socket: Arc<TcpStream>,
        config: Arc<ServerConfig>,
        by: Instant,
    ) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::shake_hands(socket, session.into(), by)
    }

    /// Begins a handshake, to be done until then.
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
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake stalls"));
            }
            socket.set_read_timeout(Some(rest))?;
            socket.set_write_timeout(Some(rest))?;
            if session.wants_write() {
                session.write_tls(&mut &*socket)?;
            } else if session.read_tls(&mut &*socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if let Err(error) = session.process_new_packets() {
                // The alert tells the other side what was wrong.
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

    /// What lies below: its addresses, options and timeouts, which hold for reading and writing here.
    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// The certificate that the other side has shown.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        let session = self.tls.as_ref()?.session.lock();
        Some(session.peer_certificates()?.first()?.clone())
    }

    /// Whether the other side has proven anything.
    pub fn is_proven(&self) -> bool {
        self.login.get().is_some() || self.certificate().is_some()
    }

    /// As whom the other side has logged in.
    pub fn login(&self) -> Option<&str> {
        self.login.get().map(String::as_str)
    }

    /// The other side has logged in, which it does once.
    pub fn set_login(&self, name: String) {
        _ = self.login.set(name);
    }

    /// Waits for bytes; 0 is the end.
    pub fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => (&*self.socket).read(out),
            Some(tls) => tls.read(&self.socket, out),
        }
    }

    /// Waits until the socket takes some of the bytes, and says how many. Through TLS they may be on their
    /// way only after [`PeerStream::flush`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => (&*self.socket).write(bytes),
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    /// Waits until the socket has taken all that was written.
    pub fn flush(&self) -> io::Result<()> {
        match &self.tls {
            None => Ok(()),
            Some(tls) => tls.send_sealed(&self.socket, &mut tls.sealed.lock()),
        }
    }

    /// All of it, and flushed.
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

    /// Writes what the socket takes at once, and says how much; nothing through TLS, which has to be
    /// waited for.
    pub fn try_write(&self, bytes: &[u8]) -> usize {
        if self.tls.is_some() {
            return 0;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // What is wrong with the socket, the next write finds out.
        rustix::net::send(&*self.socket, bytes, flags).unwrap_or(0)
    }

    /// Nothing more will be written.
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
                // The end came without a goodbye; the protocol above knows whether it was the end.
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

    /// Encrypts, together with what the session itself has to say.
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

/// The socket took nothing within its timeout.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
