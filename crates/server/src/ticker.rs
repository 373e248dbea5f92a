//! The thread that drives the node's timers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use herdsman_node::Input;
use parking_lot::{Condvar, Mutex};
use tracing::warn;

use crate::core::Core;
use herdsman_runtime::spawn;

/// The longest sleep: sessions come and go, so the next deadline changes.
const STEP_MS_MAX: u64 = 100;
/// The longest sleep in an ensemble, where packets from other servers set new and short deadlines all the time.
const STEP_MS_MAX_WITH_PEERS: u64 = 5;
const STEP_MS_MIN: u64 = 1;
/// A longer gap between two wake-ups means that the whole process was paused.
pub(crate) const STANDSTILL_MS: u64 = 1000;

/// The running thread.
pub(crate) struct Ticker {
    stop: Arc<(Mutex<bool>, Condvar)>,
    handle: JoinHandle<()>,
}

impl Ticker {
    pub fn start(core: Arc<Core>) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let tick = move || {
            let (flag, signal) = &*stopped;
            let step_ms_max =
                if core.peers().is_some() { STEP_MS_MAX_WITH_PEERS } else { STEP_MS_MAX };
            let mut stopping = flag.lock();
            let mut looked_ms = core.clock.monotonic_ms();
            while !*stopping {
                let now_ms = core.clock.monotonic_ms();
                if now_ms - looked_ms > STANDSTILL_MS {
                    warn!(
                        "the process was paused for {} ms: all session timeouts were restarted",
                        now_ms - looked_ms
                    );
                    core.step(Input::ProcessPaused);
                }
                looked_ms = now_ms;
                core.clients.close_most_unread();
                let next = |node: &herdsman_node::Node| (node.next_deadline(), node.wants_tree());
                let (deadline_ms, has_backlog) = core.with_node(next);
                // What the last tick has left, if no other thread comes to it.
                if has_backlog || deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                    core.tick(now_ms);
                }
                let rest_ms =
                    deadline_ms.map_or(step_ms_max, |deadline| deadline.saturating_sub(now_ms));
                let rest = Duration::from_millis(rest_ms.clamp(STEP_MS_MIN, step_ms_max));
                signal.wait_for(&mut stopping, rest);
            }
        };
        let handle = spawn("ticker", tick)?;
        Ok(Ticker { stop, handle })
    }

    pub fn stop(self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_one();
        _ = self.handle.join();
    }
}
