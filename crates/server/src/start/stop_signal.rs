//! A request to give up a start that waits for other servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Ends a start that waits for other servers. Clones are one signal.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    /// Gives the signal, for good.
    pub fn stop(&self) {
        *self.0.is_stopped.lock() = true;
        self.0.changed.notify_all();
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.is_stopped.lock()
    }

    /// Waits until the signal is given, or for this time. Returns whether it was given.
    pub fn wait(&self, duration: Duration) -> bool {
        let until = Instant::now() + duration;
        let mut is_stopped = self.0.is_stopped.lock();
        while !*is_stopped {
            if self.0.changed.wait_until(&mut is_stopped, until).timed_out() {
                break;
            }
        }
        *is_stopped
    }
}
