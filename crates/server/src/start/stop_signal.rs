//! A request to cancel a start that waits for other servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Cancels a start that waits for other servers. Clones share the signal.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<SignalState>);

#[derive(Debug, Default)]
struct SignalState {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    /// Sets the signal permanently.
    pub fn stop(&self) {
        *self.0.is_stopped.lock() = true;
        self.0.changed.notify_all();
    }

    /// Whether the signal is set.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.is_stopped.lock()
    }

    /// Waits until the signal is set, or for this time. Returns whether it is set.
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
