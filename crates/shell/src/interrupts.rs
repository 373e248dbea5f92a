//! Ctrl-C and SIGTERM, listened to from the start so that none is missed.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What the user or the system sends to end what is running.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

/// Which of them came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C: give up the running command.
    CtrlC,
    /// SIGTERM: end the shell.
    Terminate,
}

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Resolves at the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupt::CtrlC,
            _ = self.terminate.recv() => Interrupt::Terminate,
        }
    }

    /// What `work` gives, unless one of them comes first; then `work` is dropped where it is.
    pub(crate) async fn or<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            _ = self.next() => Err(Failure::Interrupted),
        }
    }
}
