//! Accepts connections and gives them to the workers in turn.
//!
//! A worker is not woken for that: the connection is registered with the worker's own poll from here, and the
//! first request wakes it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::worker::Seat;

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);

/// The listening socket and those who serve what it accepts.
pub(super) struct Acceptor {
    poll: Poll,
    listener: TcpListener,
    seats: Vec<Seat>,
    next: usize,
    stopped: Arc<AtomicBool>,
}

impl Acceptor {
    pub(super) fn bind(
        address: SocketAddr,
        seats: Vec<Seat>,
        stopped: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Acceptor { poll, listener, seats, next: 0, stopped })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), STOP)
    }

    /// Accepts until the server is stopped.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(2);
        while !self.stopped.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => other?,
            }
            self.accept_all()?;
        }
        Ok(())
    }

    fn accept_all(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // Replies leave in one write: nothing is gained by waiting for more.
                    stream.set_nodelay(true)?;
                    self.seats[self.next].take(stream)?;
                    self.next = (self.next + 1) % self.seats.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client went away while it waited.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
