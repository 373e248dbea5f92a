//! What the server and the network between servers share: threads, listening ports, and limits on log lines.

mod limited_log;
mod line_limit;
mod listen;
mod spawn;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use limited_log::LimitedLog;
pub use line_limit::LineLimit;
pub use listen::bind;
pub use spawn::spawn;

/// A duration in whole milliseconds.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
#[must_use]
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
