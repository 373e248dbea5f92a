//! Ctrl-C and SIGTERM: the first one ends the measurement cleanly, the second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code of an interrupted process.
pub(crate) const EXIT_CODE_INTERRUPTED: u8 = 130;

/// A flag that requests the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Creates a flag that only [`Stop::request`] sets.
    #[must_use]
    pub fn never() -> Self {
        Stop::default()
    }

    /// Creates a flag that the first Ctrl-C or SIGTERM sets.
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

    /// Requests the end.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
