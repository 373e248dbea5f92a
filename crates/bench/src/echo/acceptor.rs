//! Accepts connections and assigns them to the workers in turn.
//!
//! This does not wake the worker: the acceptor registers the connection with the worker's poll, and the first request
//! wakes the worker.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::worker::WorkerHandle;

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);

/// The listening socket, and the workers.
pub(super) struct Acceptor {
    poll: Poll,
    listener: TcpListener,
    handles: Vec<WorkerHandle>,
    next: usize,
    stopped: Arc<AtomicBool>,
}

impl Acceptor {
    pub(super) fn bind(
        address: SocketAddr,
        handles: Vec<WorkerHandle>,
        stopped: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Acceptor { poll, listener, handles, next: 0, stopped })
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
                    // Replies are sent in one write: Nagle's algorithm would only add latency.
                    stream.set_nodelay(true)?;
                    self.handles[self.next].take(stream)?;
                    self.next = (self.next + 1) % self.handles.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client has closed the connection in the backlog.
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
