//! Log lines about clients that have reached a limit: each has the client's address, and each kind is
//! rate-limited so that a flood does not fill the disk. Metrics count all cases.

use herdsman_runtime::LimitedLog;

/// One rate limit for each kind of line.
#[derive(Debug)]
pub(crate) struct LimitReports {
    /// Connections rejected by a limit.
    pub refusals: LimitedLog,
    /// Connections that cannot be accepted, most often because there are no file descriptors left.
    pub accepts: LimitedLog,
    /// Accepted connections that cannot be set up, most often because they have been reset since.
    pub set_up: LimitedLog,
    /// Connections that requested no session in time.
    pub sessionless: LimitedLog,
    /// Frames that are too long, and bytes that are not a request.
    pub frames: LimitedLog,
    /// Requests of a known type that cannot be decoded.
    pub malformed: LimitedLog,
    /// Four-letter words that are not answered.
    pub words: LimitedLog,
    /// Large requests above `largeRequestMaxBytes`.
    pub large_requests: LimitedLog,
    /// Reads whose replies would be larger than `herdsman.replyBytesMax`.
    pub large_replies: LimitedLog,
    /// Requests that waited longer than `throttled_op_wait_time`.
    pub throttled: LimitedLog,
    /// Attempts to resume a session with a wrong password.
    pub passwords: LimitedLog,
    /// Clients that do not read their replies.
    pub slow_readers: LimitedLog,
    /// Sessions with too many watches.
    pub watches: LimitedLog,
    /// Connections from which reading is paused. That is not a mistake of the client, the server is busy.
    pub read_pauses: LimitedLog,
}

impl Default for LimitReports {
    fn default() -> Self {
        LimitReports {
            refusals: LimitedLog::default(),
            accepts: LimitedLog::once_a_minute(),
            set_up: LimitedLog::default(),
            sessionless: LimitedLog::default(),
            frames: LimitedLog::default(),
            malformed: LimitedLog::default(),
            words: LimitedLog::default(),
            large_requests: LimitedLog::default(),
            large_replies: LimitedLog::default(),
            throttled: LimitedLog::default(),
            passwords: LimitedLog::default(),
            slow_readers: LimitedLog::default(),
            watches: LimitedLog::default(),
            read_pauses: LimitedLog::once_a_minute(),
        }
    }
}
