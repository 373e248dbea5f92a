//! What is said in the log when a limit has its effect on somebody: a line with the address, and so few of
//! each kind that a flood does not fill the disk. Metrics count all of it.

use herdsman_runtime::LimitedLog;

/// The kinds.
#[derive(Debug)]
pub(crate) struct LimitReports {
    /// Connections that are not let in.
    pub refusals: LimitedLog,
    /// Connections that cannot even be looked at, most often for want of file descriptors.
    pub accepts: LimitedLog,
    /// Connections that asked for no session in time.
    pub sessionless: LimitedLog,
    /// Frames that are too long, and bytes that are no request.
    pub frames: LimitedLog,
    /// Requests that are known by their type and make no sense otherwise.
    pub malformed: LimitedLog,
    /// Four-letter words that are not answered.
    pub words: LimitedLog,
    /// Large requests above `largeRequestMaxBytes`.
    pub large_requests: LimitedLog,
    /// Reads whose replies would be larger than `herdsman.replyBytesMax`.
    pub large_replies: LimitedLog,
    /// Requests that waited longer than `throttled_op_wait_time`.
    pub throttled: LimitedLog,
    /// Sessions that somebody wants to take up with a wrong password.
    pub passwords: LimitedLog,
    /// Clients that do not read.
    pub slow_readers: LimitedLog,
    /// Sessions with too many watches.
    pub watches: LimitedLog,
    /// Connections that are not read for a while. That is no mistake of theirs, only a busy server.
    pub read_pauses: LimitedLog,
}

impl Default for LimitReports {
    fn default() -> Self {
        LimitReports {
            refusals: LimitedLog::default(),
            accepts: LimitedLog::once_a_minute(),
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
