//! Ctrl-C and SIGTERM. The handlers are installed at the start, so that no signal is missed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Receives the signals that interrupt a command or end the shell.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    foreground: Foreground,
}

/// Whether another program has the terminal. Ctrl-C is meant for that program then: it reaches the shell as well, and
/// must not end the command that waits for the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreground(Arc<AtomicBool>);

/// While this exists, another program has the terminal.
pub(crate) struct ForegroundGuard(Foreground);

impl Foreground {
    pub(crate) fn give_away(&self) -> ForegroundGuard {
        self.0.store(true, Ordering::SeqCst);
        ForegroundGuard(self.clone())
    }

    fn ignores(&self, interrupt: Interrupt) -> bool {
        interrupt == Interrupt::CtrlC && self.0.load(Ordering::SeqCst)
    }
}

impl Drop for ForegroundGuard {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::SeqCst);
    }
}

/// Which signal arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C: cancel the running command.
    CtrlC,
    /// SIGTERM: end the shell.
    Terminate,
}

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            foreground: Foreground::default(),
        })
    }

    /// The flag to set while another program has the terminal.
    pub(crate) fn foreground(&self) -> Foreground {
        self.foreground.clone()
    }

    /// Waits for the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Interrupt {
        loop {
            let interrupt = tokio::select! {
                _ = self.interrupt.recv() => Interrupt::CtrlC,
                _ = self.terminate.recv() => Interrupt::Terminate,
            };
            if !self.foreground.ignores(interrupt) {
                return interrupt;
            }
        }
    }

    /// Returns the result of `work`. If a signal arrives first, `work` is dropped where it is.
    pub(crate) async fn or<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            interrupt = self.next() => Err(Failure::Interrupted(interrupt)),
        }
    }
}
