//! The log of slow requests: who asked for what, and where the time went. Apache has none.
//!
//! In: requests that are done, or given up. Out: a warning for each that took longer than
//! `herdsman.slowRequestMs`, but at most [`LINES_MAX`] in [`WINDOW`]: when everything is slow, more
//! lines say no more. How many were left out is told by the first line afterwards.

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
/// Letters of a path that are shown.
const PATH_LETTERS_MAX: usize = 256;

/// What is too slow, and what was told about it lately.
#[derive(Debug)]
pub(crate) struct SlowRequests {
    threshold_us: u64,
    lines: Mutex<LineLimit>,
}

/// A request that took long.
pub(crate) struct SlowRequest<'a> {
    pub op: OpCode,
    /// As it came, without its header; the end may be missing.
    pub body: &'a [u8],
    /// The length of all of it.
    pub bytes: usize,
    pub session: SessionId,
    pub peer: SocketAddr,
    pub took_us: u64,
    /// What it spent its time with.
    pub stages: &'a [(&'static str, u64)],
}

impl Default for SlowRequests {
    fn default() -> Self {
        Self::above(None)
    }
}

impl SlowRequests {
    /// Tells of requests that take longer; of none without a threshold.
    pub fn above(threshold_ms: Option<NonZeroU32>) -> Self {
        let threshold_us = threshold_ms.map_or(u64::MAX, |ms| u64::from(ms.get()) * 1000);
        SlowRequests { threshold_us, lines: Mutex::new(LineLimit::new(LINES_MAX, WINDOW)) }
    }

    /// Whether anything is ever told.
    pub fn is_on(&self) -> bool {
        self.threshold_us != u64::MAX
    }

    /// Whether a request that took so long is one of them.
    pub fn is_slow(&self, took_us: u64) -> bool {
        took_us > self.threshold_us
    }

    /// Tells of a request.
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

/// As much of a request's path as a line of the log has; empty if it has none.
pub(crate) fn shown_path(op: OpCode, body: &[u8]) -> String {
    path_of(op, body).map(|path| shortened(&path).into_owned()).unwrap_or_default()
}

/// The path that a request begins with, if it is of that kind.
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
