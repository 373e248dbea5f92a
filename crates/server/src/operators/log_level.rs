//! The log level, which can be changed while the server runs.
//!
//! This crate writes log lines, but does not know where they go: the program that starts the server decides that
//! and passes in the two functions. The admin server calls them.

use std::fmt;
use std::sync::Arc;

use crate::handle::ServerHandle;
use crate::server::Server;

/// Why a level cannot be set. The message describes valid levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadLogLevel(pub String);

type Get = dyn Fn() -> String + Send + Sync;
type Set = dyn Fn(&str) -> Result<(), BadLogLevel> + Send + Sync;

/// A handle to the log level of the process. Copies share the level.
#[derive(Clone)]
pub struct LogLevel {
    get: Arc<Get>,
    set: Arc<Set>,
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.get()).finish()
    }
}

impl LogLevel {
    /// A level that these functions read and change.
    pub fn new(
        get: impl Fn() -> String + Send + Sync + 'static,
        set: impl Fn(&str) -> Result<(), BadLogLevel> + Send + Sync + 'static,
    ) -> Self {
        LogLevel { get: Arc::new(get), set: Arc::new(set) }
    }

    /// A fixed level, for processes without a log.
    #[must_use]
    pub fn fixed(level: &'static str) -> Self {
        let refused = || BadLogLevel("the log level of this process cannot be changed".to_owned());
        Self::new(|| level.to_owned(), move |_| Err(refused()))
    }

    /// The current level, for example `info` or `info,herdsman_server::clients::connection=debug`.
    #[must_use]
    pub fn get(&self) -> String {
        (self.get)()
    }

    /// Changes the level, from the next line on.
    ///
    /// # Errors
    /// The text is not a level; nothing was changed.
    pub fn set(&self, level: &str) -> Result<(), BadLogLevel> {
        (self.set)(level)
    }
}

impl Server {
    /// Allows users of this handle to change the process's log level. Only the first call has an effect.
    pub fn use_log_level(&self, level: LogLevel) {
        if let Some(core) = self.core() {
            _ = core.log_level.set(level);
        }
    }
}

impl ServerHandle {
    /// The process's log level; a fixed one if the process has not set it.
    #[must_use]
    pub fn log_level(&self) -> LogLevel {
        self.core().log_level.get().cloned().unwrap_or_else(|| LogLevel::fixed("unknown"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_level_stays() {
        let level = LogLevel::fixed("off");
        assert!(level.set("debug").is_err());
        assert_eq!(level.get(), "off");
        assert_eq!(format!("{level:?}"), "LogLevel(\"off\")");
    }
}
