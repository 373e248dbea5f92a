//! Starts the threads of a server. Each inherits the tracing span of the thread that started it, so
//! that the log lines of several servers in one process can be distinguished.

use std::io;
use std::thread::{Builder, JoinHandle};

use tracing::Span;

/// Starts a named thread.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let span = Span::current();
    Builder::new().name(name.into()).spawn(move || span.in_scope(work))
}
