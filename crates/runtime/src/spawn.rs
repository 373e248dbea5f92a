//! How a server starts its threads. Each carries on the tracing span of the thread that started it, so
//! that the lines of several servers in one process can be told apart.

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
