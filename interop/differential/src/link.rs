//! One TCP connection to a server: frames out, frames in, with a time limit for each read. Deliberately not
//! a client library: this test must see every byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// Time limit for a server's answer. Generous, because two servers and this program may share one busy
/// core; a hang is an answer too, but one that takes long to compare.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for closing a connection after the last answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Above any frame that a correct server sends here.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A frame's payload.
    Frame(Vec<u8>),
    /// The server closed the connection, cleanly or by reset.
    Closed,
    /// Nothing within the time limit.
    Silence,
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
}

impl Link {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Link { stream })
    }

    /// Sends bytes. A failure is not reported here: the next read finds the connection closed, or what the
    /// server sent before it closed.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// From now on expects only that the server closes the connection, and soon.
    pub fn expect_close(&mut self) {
        let _ = self.stream.set_read_timeout(Some(CLOSE_TIMEOUT));
    }

    /// Shuts down the sending direction.
    pub fn finish_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads one frame.
    pub fn receive(&mut self) -> Incoming {
        let mut length = [0; 4];
        if let Err(error) = self.stream.read_exact(&mut length) {
            return broken(&error);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Incoming::Closed;
        }
        let mut payload = vec![0; length];
        match self.stream.read_exact(&mut payload) {
            Ok(()) => Incoming::Frame(payload),
            Err(error) => broken(&error),
        }
    }

    /// Reads until the server closes.
    pub fn receive_all(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // What arrived before a reset still counts.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }
}

fn broken(error: &std::io::Error) -> Incoming {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Incoming::Silence,
        _ => Incoming::Closed,
    }
}
