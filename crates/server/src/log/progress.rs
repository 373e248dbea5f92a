//! How far the log is durable, for threads that read its files beside the one that writes them.
//!
//! In: the log, from the thread that owns it, after each sync and around each change of another kind. Out: a
//! [`LogState`], for a scrub. Invariant: while there is a state, everything up to it is in the files and stays there,
//! unless [`LogState::changes`] grows.

use herdsman_store::{LogName, LogState, LogWriter};
use parking_lot::Mutex;

/// The state of the log, as its thread has last published it.
#[derive(Debug, Default)]
pub struct LogProgress(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    state: Option<LogState>,
    changes: u64,
    has_failed: bool,
}

impl LogProgress {
    /// Publishes the state of the log.
    pub fn publish(&self, log: &LogWriter) {
        let open = log.current_file().and_then(|(path, end)| {
            let name = path.file_name().and_then(|name| name.to_str());
            Some((name.and_then(LogName::parse)?, end))
        });
        let progress = &mut *self.0.lock();
        let Progress { changes, .. } = *progress;
        progress.state = Some(LogState { changes, last_zxid: log.last_zxid(), open });
    }

    /// The log is about to be cut or replaced: until the next publication there is no state.
    pub fn begin_change(&self) {
        let progress = &mut *self.0.lock();
        progress.state = None;
        progress.changes += 1;
    }

    /// The disk has failed, for good.
    pub fn fail(&self) {
        let progress = &mut *self.0.lock();
        progress.state = None;
        progress.has_failed = true;
    }

    /// The state; `None` while the log is being cut or replaced, and after a failure.
    #[must_use]
    pub fn state(&self) -> Option<LogState> {
        self.0.lock().state
    }

    /// How often the log was cut or replaced.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Whether the disk has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }
}
