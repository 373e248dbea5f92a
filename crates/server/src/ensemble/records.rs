//! Records of this server's log for members that lack them, read from its files in any role and without one.

use std::ops::ControlFlow;
use std::sync::Arc;

use herdsman_node::{Node, ServesAs};
use herdsman_proto::Zxid;
use herdsman_proto::quorum::fetch::{Chain, MemberState};
use herdsman_quorum::SendRecord;
use herdsman_runtime::LimitedLog;
use herdsman_store::{Dirs, Disk, RangeError, read_records};
use herdsman_zab::Voting;

/// Passes the valid records of a part of the log to `send`, until that breaks or nobody waits for them. The end of a
/// log that is being written is treated like an incomplete record.
pub(crate) fn send_records(
    disk: &Arc<dyn Disk>,
    dirs: &Dirs,
    (after, before): (Zxid, Zxid),
    is_wanted: &dyn Fn() -> bool,
    failures: &LimitedLog,
    send: &mut SendRecord<'_>,
) -> Chain {
    let report = |failure: &dyn std::fmt::Display| {
        failures
            .warn(format_args!("cannot read log records requested by another member: {failure}"));
        Chain::Broken
    };
    let mut records = match read_records(Arc::clone(disk), dirs, after, before) {
        Ok(records) => records,
        Err(failure) => return report(&failure),
    };
    loop {
        match records.next_wanted(is_wanted) {
            Ok(Some((zxid, payload))) => {
                if send(zxid, payload) == ControlFlow::Break(()) {
                    return Chain::Broken;
                }
            }
            Ok(None) if records.is_unbroken() => return Chain::Unbroken,
            Ok(None) | Err(RangeError::Stopped) => return Chain::Broken,
            Err(failure) => return report(&failure),
        }
    }
}

/// The state of this server that is reported to other members.
pub(crate) fn member_state(node: &Node) -> MemberState {
    let is_suspended = node.zab().is_some_and(|zab| zab.voting() == Voting::Suspended);
    match node.serves_as() {
        Some(ServesAs::Leader) => MemberState::LeadingQuorum,
        Some(ServesAs::Follower | ServesAs::Observer) => MemberState::FollowingQuorum,
        _ if is_suspended => MemberState::Suspended,
        _ => MemberState::Looking,
    }
}
