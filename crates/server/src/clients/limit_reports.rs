//! What is said in the log when a limit has its effect on somebody: a line with the address, and so few of
//! each kind that a flood does not fill the disk. Metrics count all of it.

use crate::reports::Reports;

/// The kinds.
#[derive(Debug)]
pub(crate) struct LimitReports {
    /// Connections that are not let in.
    pub refusals: Reports,
    /// Connections that cannot even be looked at, most often for want of file descriptors.
    pub accepts: Reports,
    /// Connections that asked for no session in time.
    pub sessionless: Reports,
    /// Frames that are too long, and bytes that are no request.
    pub frames: Reports,
    /// Requests that are known by their type and make no sense otherwise.
    pub malformed: Reports,
    /// Four-letter words that are not answered.
    pub words: Reports,
    /// Large requests above `largeRequestMaxBytes`.
    pub large_requests: Reports,
    /// Reads whose replies would be larger than `herdsman.replyBytesMax`.
    pub large_replies: Reports,
    /// Requests that waited longer than `throttled_op_wait_time`.
    pub throttled: Reports,
    /// Sessions that somebody wants to take up with a wrong password.
    pub passwords: Reports,
    /// Clients that do not read.
    pub slow_readers: Reports,
    /// Sessions with too many watches.
    pub watches: Reports,
    /// Connections that are not read for a while. That is no mistake of theirs, only a busy server.
    pub held_back: Reports,
}

impl Default for LimitReports {
    fn default() -> Self {
        LimitReports {
            refusals: Reports::default(),
            accepts: Reports::once_a_minute(),
            sessionless: Reports::default(),
            frames: Reports::default(),
            malformed: Reports::default(),
            words: Reports::default(),
            large_requests: Reports::default(),
            large_replies: Reports::default(),
            throttled: Reports::default(),
            passwords: Reports::default(),
            slow_readers: Reports::default(),
            watches: Reports::default(),
            held_back: Reports::once_a_minute(),
        }
    }
}
