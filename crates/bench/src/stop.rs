//! Ctrl-C and SIGTERM: the first one ends the measurement in order, the second one the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What a process says that was interrupted.
pub(crate) const EXIT_CODE_INTERRUPTED: u8 = 130;

/// Whether somebody wants it to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Never asked, except by [`Stop::ask`].
    #[must_use]
    pub fn never() -> Self {
        Stop::default()
    }

    /// Asked by the first Ctrl-C or SIGTERM.
    pub(crate) fn on_signals() -> Result<Self> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal sets the flag, the second one finds it set.
            flag::register_conditional_shutdown(
                signal,
                i32::from(EXIT_CODE_INTERRUPTED),
                Arc::clone(&stop.0),
            )
            .and_then(|_| flag::register(signal, Arc::clone(&stop.0)))
            .context("listening for Ctrl-C")?;
        }
        Ok(stop)
    }

    /// Asks for the end.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Somebody asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
