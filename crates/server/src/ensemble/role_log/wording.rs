//! Formats reasons, lists and durations for log lines.

use std::borrow::Cow;

use herdsman_proto::{ServerId, Zxid};
use herdsman_zab::StepDownReason;
use herdsman_zab::io::CloseReason;

/// Why a role ended.
pub(super) fn reason_in_words(reason: StepDownReason) -> Cow<'static, str> {
    Cow::Borrowed(match reason {
        StepDownReason::NoQuorum => "lost contact with a quorum of voters",
        StepDownReason::NotSupported => "most voters support another server",
        StepDownReason::LeaderLost => "the connection to it is lost",
        StepDownReason::LeaderRefused => "it violates the protocol, or is not entitled to lead",
        StepDownReason::LeaderBehind { end, committed } => {
            return Cow::Owned(leader_behind(end, committed));
        }
        StepDownReason::LeaderSilent => "timed out: nothing was received from it",
        StepDownReason::StartOver => {
            "the log cannot be truncated where it says, so a full snapshot is needed"
        }
        StepDownReason::StorageLost => "the disk cannot be written",
        StepDownReason::EpochExhausted => "this epoch has no zxids left, so a new epoch begins",
        StepDownReason::NoEpochLeft => {
            "all epochs are used up; see docs/operating.md for the remedy"
        }
        StepDownReason::EpochOutbid => {
            "a voter has promised a later epoch, or too few voters can accept this one; starting a new epoch"
        }
        StepDownReason::Reconfigured { .. } => "the membership has changed",
        StepDownReason::VotingAllowed { .. } => "this server is up to date and may vote",
    })
}

/// An Apache leader may receive the missing txn a moment later. If not, only an operator can know which side is right.
fn leader_behind(end: Zxid, committed: Zxid) -> String {
    format!(
        "its history ends with {end}, but this server knows that txn {committed} was committed, and keeps \
         it. If this message is repeated: if the other servers have lost data, keep this server's version-2 \
         directories, stop the others and start them again with the data that they should have; if they were put \
         back to an earlier state on purpose, stop this server and move its version-2 directories away, so that it \
         takes everything from the leader"
    )
}

/// Why a server is rejected.
pub(super) fn close_reason_in_words(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::NotLeading => "this server does not lead",
        CloseReason::NotFollowing => "this server no longer follows it",
        CloseReason::UnexpectedPacket => "it sent an unexpected packet",
        CloseReason::NewerConfig => {
            "its membership is newer than this server's; compare the two configurations"
        }
        CloseReason::AheadOfLeader => {
            "it has txns that this server lacks, so it should lead itself"
        }
        CloseReason::ImplausibleEpoch => {
            "it claims to have promised an epoch that is implausibly far ahead of this server's. If it is a \
             member, its epoch files are damaged or another ensemble's: move both of its version-2 directories \
             aside and start it with -Dzookeeper.db.autocreate=false"
        }
        CloseReason::OldEpoch => "the epoch that it leads is over",
        CloseReason::TimedOut => "timed out (no packets, or catching up took too long)",
        CloseReason::Gap => "gap in its txns",
        CloseReason::Replaced => "it has reconnected",
        CloseReason::MembershipChanged => {
            "the membership changed while it was catching up; it must reconnect"
        }
        CloseReason::AlreadyConnected => "a server with the same number is already connected",
        CloseReason::TooMany => "too many servers are connected",
        CloseReason::TooManyPending => "too many of its requests are pending",
        CloseReason::NotObserverMaster => "this server does not follow, so it serves no observers",
        CloseReason::NotAnObserver => {
            "it is not an observer, and only observers are served on this port"
        }
    }
}

/// Formats a list of servers.
pub(super) fn servers(ids: &[ServerId]) -> String {
    let numbers: Vec<_> = ids.iter().map(ServerId::to_string).collect();
    match numbers.as_slice() {
        [] => "no server".to_owned(),
        [one] => format!("server {one}"),
        [most @ .., last] => format!("servers {} and {last}", most.join(", ")),
    }
}

/// Formats a number of txns.
pub(super) fn txns(count: usize) -> String {
    match count {
        0 => "no txns".to_owned(),
        1 => "1 txn".to_owned(),
        many => format!("{many} txns"),
    }
}

/// Formats a duration with one or two units.
pub(super) fn duration(ms: u64) -> String {
    const SECOND: u64 = 1000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match ms {
        0..SECOND => format!("{ms} ms"),
        SECOND..MINUTE => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{} min {} s", ms / MINUTE, ms % MINUTE / SECOND),
        HOUR..DAY => format!("{} h {} min", ms / HOUR, ms % HOUR / MINUTE),
        _ => format!("{} d {} h", ms / DAY, ms % DAY / HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_exact_as_one_wants_to_know() {
        let shown = [0, 999, 1000, 59_999, 61_000, 3_600_000, 7_260_000, 90_000_000].map(duration);
        let expected =
            ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s", "1 h 0 min", "2 h 1 min", "1 d 1 h"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn lists_read_like_sentences() {
        let list = |ids: &[i64]| servers(&ids.iter().copied().map(ServerId).collect::<Vec<_>>());
        assert_eq!(list(&[]), "no server");
        assert_eq!(list(&[3]), "server 3");
        assert_eq!(list(&[1, 2, 5]), "servers 1, 2 and 5");
    }
}
