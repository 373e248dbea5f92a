//! A connection through TLS: exchanges records with the socket, never waiting.

use std::io::{self, BufRead, Read, Write};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;

/// Limit of encrypted bytes that the socket has not accepted yet. The rest stays in the connection's
/// output, which has limits.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// A socket and the TLS session on it.
pub(crate) struct TlsWire {
    stream: TcpStream,
    session: Box<ServerConnection>,
}

impl TlsWire {
    pub fn new(stream: TcpStream, mut session: Box<ServerConnection>) -> Self {
        session.set_buffer_limit(Some(AHEAD_BYTES_MAX));
        TlsWire { stream, session }
    }

    pub fn into_parts(self) -> (TcpStream, Box<ServerConnection>) {
        (self.stream, self.session)
    }

    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Runs the handshake to completion.
    pub async fn handshake(&mut self) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.flush_all().await?;
            if !self.session.is_handshaking() {
                break;
            }
            self.stream.readable().await?;
            match self.receive() {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // The alert says what was wrong.
                    _ = self.flush();
                    return Err(error);
                }
            }
        }
        self.flush_all().await
    }

    async fn flush_all(&mut self) -> io::Result<()> {
        while let Err(error) = self.flush() {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            self.stream.writable().await?;
        }
        Ok(())
    }

    /// The peer's certificate, if it has presented one.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.session.peer_certificates()?.first()
    }

    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.take_decrypted(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
            ready!(self.stream.poll_read_ready(context))?;
            match self.receive() {
                // The end, with or without close_notify: nothing follows the decrypted bytes.
                Ok(0) => return Poll::Ready(self.take_decrypted(room).or(Ok(0))),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Copies decrypted bytes into the free space of `room`; `WouldBlock` if there are none.
    fn take_decrypted(&mut self, room: &mut BytesMut) -> io::Result<usize> {
        let mut reader = self.session.reader();
        let before = room.len();
        while room.len() < room.capacity() {
            let bytes = match reader.fill_buf() {
                Ok(bytes) => bytes,
                Err(_) if room.len() > before => break,
                Err(error) => return Err(error),
            };
            let count = bytes.len().min(room.capacity() - room.len());
            if count == 0 {
                break;
            }
            room.extend_from_slice(&bytes[..count]);
            reader.consume(count);
        }
        Ok(room.len() - before)
    }

    /// Receives bytes from the socket and decrypts them.
    fn receive(&mut self) -> io::Result<usize> {
        let count = self.session.read_tls(&mut Socket(&self.stream))?;
        self.session.process_new_packets().map_err(io::Error::other)?;
        Ok(count)
    }

    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let count = self.session.writer().write(bytes)?;
        match self.flush() {
            // It is encrypted, and is sent when the socket accepts more.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(count),
            other => other.map(|()| count),
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut Socket(&self.stream))?;
        }
        Ok(())
    }

    pub fn is_flushed(&self) -> bool {
        !self.session.wants_write()
    }

    /// Sends close_notify.
    pub fn shut_down(&mut self) {
        self.session.send_close_notify();
        _ = self.flush();
    }
}

/// A socket that returns `WouldBlock` instead of waiting.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(room)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
