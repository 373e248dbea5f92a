//! A raw non-blocking connection: whole frames out, whole frames in.
//!
//! Tens of thousands of these are open at once, so an idle one has no buffer: data is read into a shared
//! buffer, and only an incomplete frame is kept.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use anyhow::{Context, Result};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

use crate::wire::{Encoder, Op};

/// Connections from one address of the loopback network; the system has about 28,000 ports for each.
const PER_SOURCE: usize = 5000;
const INPUT_BYTES: usize = 256 << 10;

/// Shared by all connections of a thread.
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// One buffer.
    pub fn new() -> Scratch {
        Scratch(vec![0; INPUT_BYTES])
    }
}

/// A connection.
pub struct Link {
    stream: TcpStream,
    /// The start of an incomplete frame.
    partial: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
}

impl Link {
    /// Connects the `index`-th client from the address of its group, and registers it with `poll` under
    /// that number.
    pub fn dial(address: SocketAddr, index: usize, poll: &Poll) -> Result<Link> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)
            .context("opening a socket (the limit on descriptors may be too low: ulimit -Hn)")?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&SocketAddrV4::new(source(index), 0).into())?;
        match socket.connect(&address.into()) {
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            result => result.with_context(|| format!("connecting to {address}"))?,
        }
        let mut stream = TcpStream::from_std(socket.into());
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(index), interest)?;
        Ok(Link { stream, partial: Vec::new(), unsent: Vec::new() })
    }

    /// Sends a record as one frame, or keeps what does not fit for [`Link::flush`].
    pub fn send(&mut self, record: &[u8]) -> io::Result<()> {
        let mut frame = Encoder::default();
        frame.buffer(Some(record));
        self.unsent.extend_from_slice(frame.bytes());
        self.flush()
    }

    /// Sends what was kept.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if is_not_ready(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if sent == self.unsent.len() {
            self.unsent = Vec::new();
        } else {
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Reads everything that has arrived; `take` gets every complete frame.
    pub fn receive(
        &mut self,
        scratch: &mut Scratch,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        loop {
            let count = match self.stream.read(&mut scratch.0) {
                Ok(0) => anyhow::bail!("the server closed the connection"),
                Ok(count) => count,
                Err(error) if is_not_ready(&error) => return Ok(()),
                Err(error) => return Err(error).context("reading a reply"),
            };
            let input = &scratch.0[..count];
            if self.partial.is_empty() {
                let rest = take_frames(input, &mut take)?;
                self.partial = rest.to_vec();
            } else {
                self.partial.extend_from_slice(input);
                let whole = std::mem::take(&mut self.partial);
                self.partial = take_frames(&whole, &mut take)?.to_vec();
            }
        }
    }
}

/// Takes the complete frames from the front; returns the rest.
fn take_frames<'a>(
    mut input: &'a [u8],
    take: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<&'a [u8]> {
    while let Some((length, rest)) = input.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).context("a negative length")?;
        let Some((frame, rest)) = rest.split_at_checked(length) else {
            break;
        };
        take(frame)?;
        input = rest;
    }
    Ok(input)
}

fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}

/// 127.0.1.1, 127.0.1.2 and so on, for a number of clients each.
fn source(index: usize) -> Ipv4Addr {
    let group = index / PER_SOURCE;
    let byte = |number: usize| u8::try_from(number % 250).expect("below 250");
    Ipv4Addr::new(127, 0, 1 + byte(group / 250), 1 + byte(group))
}

/// The first record of a connection: requests a new session.
pub fn connect_request(timeout_ms: i32) -> Vec<u8> {
    let mut request = Encoder::default();
    request.int(0).long(0).int(timeout_ms).long(0).buffer(Some(&[0; 16])).boolean(false);
    request.bytes().to_vec()
}

/// A request with its xid.
pub fn request(xid: i32, op: &Op) -> Vec<u8> {
    let mut request = Encoder::default();
    request.int(xid).int(op.kind() as i32);
    op.encode(&mut request);
    request.bytes().to_vec()
}

/// A ping.
pub fn ping() -> Vec<u8> {
    let mut request = Encoder::default();
    request.int(XID_PING).int(OP_PING);
    request.bytes().to_vec()
}

const XID_PING: i32 = -2;
const OP_PING: i32 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole() {
        let mut stream = Encoder::default();
        stream.string("one").string("").string("three");
        let bytes = stream.bytes();
        for cut in 0..=bytes.len() {
            let mut seen = Vec::new();
            let mut take = |frame: &[u8]| {
                seen.push(String::from_utf8_lossy(frame).into_owned());
                Ok(())
            };
            let mut joined = take_frames(&bytes[..cut], &mut take).unwrap().to_vec();
            joined.extend_from_slice(&bytes[cut..]);
            assert!(take_frames(&joined, &mut take).unwrap().is_empty());
            assert_eq!(seen, ["one", "", "three"], "cut at {cut}");
        }
        assert!(take_frames(&[255; 8], &mut |_| Ok(())).is_err());
    }

    #[test]
    fn clients_use_many_addresses() {
        assert_eq!(source(0), Ipv4Addr::new(127, 0, 1, 1));
        assert_eq!(source(PER_SOURCE), Ipv4Addr::new(127, 0, 1, 2));
        assert_eq!(source(PER_SOURCE * 250), Ipv4Addr::new(127, 0, 2, 1));
    }
}
