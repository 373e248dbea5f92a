//! One thread of the server: its poll, and the connections assigned to it.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token, Waker};

use super::connection::{Connection, SharedBuffers, State};
use super::replies::Replies;

const STOP: Token = Token(usize::MAX);
/// The maximum number of events of one poll.
const EVENTS_MAX: usize = 1024;

/// Serves its share of the connections.
pub(super) struct Worker {
    poll: Poll,
    replies: Arc<Replies>,
    stopped: Arc<AtomicBool>,
    /// By token.
    connections: Vec<Option<Connection>>,
    arrivals: Arc<Mutex<NewConnections>>,
}

/// The acceptor's handle of a worker.
pub(super) struct WorkerHandle {
    registry: Registry,
    arrivals: Arc<Mutex<NewConnections>>,
}

/// Connections that their worker has not seen yet, and free tokens. Limited by the process's limit of open files.
#[derive(Default)]
struct NewConnections {
    streams: Vec<(Token, TcpStream)>,
    free: Vec<Token>,
    tokens: usize,
}

impl WorkerHandle {
    /// Assigns a connection to the worker. It is registered while the lock is held, so that a worker that gets an
    /// event with an unknown token finds the connection here.
    pub(super) fn take(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let token = arrivals.free.pop().unwrap_or_else(|| {
            arrivals.tokens += 1;
            Token(arrivals.tokens - 1)
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, token, interest)?;
        arrivals.streams.push((token, stream));
        Ok(())
    }
}

impl Worker {
    pub(super) fn new(replies: Arc<Replies>, stopped: Arc<AtomicBool>) -> io::Result<Self> {
        Ok(Worker {
            poll: Poll::new()?,
            replies,
            stopped,
            connections: Vec::new(),
            arrivals: Arc::default(),
        })
    }

    pub(super) fn handle(&self) -> io::Result<WorkerHandle> {
        let registry = self.poll.registry().try_clone()?;
        Ok(WorkerHandle { registry, arrivals: Arc::clone(&self.arrivals) })
    }

    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), STOP)
    }

    /// Serves until the server is stopped.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut buffers = SharedBuffers::new();
        while !self.stopped.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in events.iter().filter(|event| event.token() != STOP) {
                self.serve(event.token(), &mut buffers);
            }
        }
        Ok(())
    }

    fn serve(&mut self, token: Token, buffers: &mut SharedBuffers) {
        if self.connections.get(token.0).is_none_or(Option::is_none) {
            self.register_arrivals();
        }
        let Some(Some(connection)) = self.connections.get_mut(token.0) else { return };
        // A reset, an invalid frame and a closed session all end the connection here.
        if let Ok(State::Open) = connection.serve(&self.replies, buffers) {
            return;
        }
        self.connections[token.0] = None;
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).free.push(token);
    }

    fn register_arrivals(&mut self) {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        if self.connections.len() < arrivals.tokens {
            self.connections.resize_with(arrivals.tokens, || None);
        }
        for (Token(index), stream) in arrivals.streams.drain(..) {
            self.connections[index] = Some(Connection::new(stream));
        }
    }
}
