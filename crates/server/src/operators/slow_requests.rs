//! The log of slow requests: the client, the request, and how the time was spent. Apache has none.
//!
//! In: requests that are answered or abandoned. Out: a warning for each that took longer than
//! `herdsman.slowRequestMs`, but at most [`LINES_MAX`] in [`WINDOW`]: when everything is slow, more
//! lines add nothing. The first line afterwards says how many were suppressed.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use herdsman_proto::{JuteReader, OpCode, SessionId};
use parking_lot::Mutex;
use tracing::warn;

use herdsman_runtime::LineLimit;

/// Lines in one window.
const LINES_MAX: u32 = 10;
/// Length of a window.
const WINDOW: Duration = Duration::from_secs(10);
/// Characters of a path that are shown.
const PATH_LETTERS_MAX: usize = 256;

/// The threshold and the rate limiter of the slow-request log.
#[derive(Debug)]
pub(crate) struct SlowRequests {
    threshold_us: u64,
    lines: Mutex<LineLimit>,
}

/// A slow request.
pub(crate) struct SlowRequest<'a> {
    pub op: OpCode,
    /// The payload without its header; may be truncated.
    pub body: &'a [u8],
    /// The full length.
    pub bytes: usize,
    pub session: SessionId,
    pub peer: SocketAddr,
    pub took_us: u64,
    /// The durations of its stages.
    pub stages: &'a [(&'static str, u64)],
}

impl Default for SlowRequests {
    fn default() -> Self {
        Self::above(None)
    }
}

impl SlowRequests {
    /// Logs requests above this threshold; `None` disables the log.
    pub fn above(threshold_ms: Option<NonZeroU32>) -> Self {
        let threshold_us = threshold_ms.map_or(u64::MAX, |ms| u64::from(ms.get()) * 1000);
        SlowRequests { threshold_us, lines: Mutex::new(LineLimit::new(LINES_MAX, WINDOW)) }
    }

    /// Whether the log is enabled.
    pub fn is_on(&self) -> bool {
        self.threshold_us != u64::MAX
    }

    /// Whether a duration is above the threshold.
    pub fn is_slow(&self, took_us: u64) -> bool {
        took_us > self.threshold_us
    }

    /// Logs a request.
    pub fn log(&self, now_us: u64, slow: &SlowRequest<'_>) {
        let now = Duration::from_micros(now_us);
        let Some(left_out) = self.lines.lock().admit(now) else { return };
        let path = shown_path(slow.op, slow.body);
        let stages: Vec<_> =
            slow.stages.iter().map(|(name, us)| format!("{name} {} ms", us / 1000)).collect();
        warn!(
            op = slow.op.name(),
            path = %path.escape_debug(),
            session = %slow.session,
            peer = %slow.peer,
            bytes = slow.bytes,
            took_ms = slow.took_us / 1000,
            stages = %stages.join(", "),
            left_out,
            "slow request"
        );
    }
}

/// The part of a request's path that is logged; empty if it has none.
pub(crate) fn shown_path(op: OpCode, body: &[u8]) -> String {
    path_of(op, body).map(|path| shortened(&path).into_owned()).unwrap_or_default()
}

/// The path at the beginning of a request, if it is of such a kind.
fn path_of(op: OpCode, body: &[u8]) -> Option<Cow<'_, str>> {
    match op {
        OpCode::Multi
        | OpCode::MultiRead
        | OpCode::Reconfig
        | OpCode::CloseSession
        | OpCode::Ping
        | OpCode::SetWatches
        | OpCode::SetWatches2
        | OpCode::WhoAmI => None,
        _ => JuteReader::new(body).string().ok()?,
    }
}

fn shortened(path: &str) -> Cow<'_, str> {
    match path.char_indices().nth(PATH_LETTERS_MAX) {
        None => Cow::Borrowed(path),
        Some((end, _)) => Cow::Owned(format!("{}…", &path[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::JuteWrite;

    #[test]
    fn nothing_is_slow_without_a_threshold() {
        let off = SlowRequests::above(None);
        assert!(!off.is_on() && !off.is_slow(u64::MAX - 1));
        let on = SlowRequests::above(NonZeroU32::new(5));
        assert!(on.is_on() && on.is_slow(5001) && !on.is_slow(5000));
    }

    #[test]
    fn paths_are_found_where_there_are_any() {
        let mut body = Vec::new();
        body.put_string("/a/b");
        assert_eq!(path_of(OpCode::SetData, &body).as_deref(), Some("/a/b"));
        assert_eq!(path_of(OpCode::Multi, &body), None);
        assert_eq!(path_of(OpCode::Create, &body[..5]), None);
        assert_eq!(shortened(&"x".repeat(300)).chars().count(), 257);
        assert_eq!(shortened("/short"), "/short");
    }
}
