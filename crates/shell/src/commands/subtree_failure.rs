//! Failures of operations on subtrees, and what their commands share.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use indicatif::{ProgressBar, ProgressFinish};

use crate::failure::Failure;
use crate::output::Output;
use crate::subtree::lifetime::TypeHints;
use crate::subtree::{SubtreeError, SystemZnodes};

impl From<SubtreeError> for Failure {
    fn from(error: SubtreeError) -> Self {
        match error {
            SubtreeError::Client(error) => Failure::Server(error),
            SubtreeError::Mistake(text) => Failure::Usage(text),
            error if error.is_broken_pipe() => Failure::ReaderGone,
            error => Failure::failed(error.to_string()),
        }
    }
}

/// The flag to include the service's own znodes in a walk.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SystemFlag {
    /// Include /zookeeper, where the service keeps quotas and its configuration.
    #[arg(long)]
    all: bool,
}

impl SystemFlag {
    pub(crate) fn system(self) -> SystemZnodes {
        if self.all { SystemZnodes::Include } else { SystemZnodes::Skip }
    }
}

/// The flags for types of znodes, which the client protocol does not include.
#[derive(Args, Debug)]
pub(crate) struct HintFlags {
    /// Treat these znodes as containers: a glob of paths below PATH, as `locks/*`. Servers do not tell clients.
    #[arg(long = "container", value_name = "GLOB")]
    containers: Vec<String>,
    /// Give these znodes a time to live, as `jobs/*=10m`. Servers do not tell clients.
    #[arg(long = "ttl", value_name = "GLOB=DURATION")]
    ttls: Vec<String>,
}

impl HintFlags {
    pub(crate) fn hints(&self) -> Result<TypeHints, Failure> {
        Ok(TypeHints::parse(&self.containers, &self.ttls)?)
    }
}

/// A progress bar for work that writes. After Ctrl-C it stays and shows the progress.
pub(crate) fn writing_bar(output: &Output, total: u64) -> ProgressBar {
    output.progress("znodes", total).with_finish(ProgressFinish::Abandon)
}

/// A count that a command keeps up to date, to be reported if it is interrupted.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU64>);

impl Count {
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Standard output as a writer of whole lines.
pub(crate) struct Lines<'o> {
    output: &'o mut Output,
    pending: Vec<u8>,
}

/// How much is collected before it is written.
const PENDING_BYTES_MAX: usize = 64 << 10;

impl<'o> Lines<'o> {
    pub(crate) fn new(output: &'o mut Output) -> Self {
        Lines { output, pending: Vec::new() }
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PENDING_BYTES_MAX && self.pending.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(lines) = self.pending.strip_suffix(b"\n") else {
            return Ok(());
        };
        let said = self.output.say_bytes(lines);
        self.pending.clear();
        said.map_err(|failure| match failure {
            Failure::ReaderGone => io::ErrorKind::BrokenPipe.into(),
            other => io::Error::other(other.to_string()),
        })
    }
}
