//! Counts watch events in the core's output. Apache: `WatchManager.triggerWatch`,
//! `NIOServerCnxn.process`.
//!
//! The node encodes an event once and sends the same bytes to each of its watchers in sequence,
//! by which the watchers of one event are recognised here.

use herdsman_node::{Output, Outputs};
use herdsman_proto::Xid;

use super::ServerStats;

/// Counts the events of one delivery.
pub fn count_events(stats: &ServerStats, out: &Outputs) {
    for group in out.list.chunk_by(same_frames) {
        let Output::Send { frames, answers: None, .. } = &group[0] else { continue };
        let Some(kind) = kind_of(&out.bytes[frames.clone()]) else { continue };
        let watchers = group.len() as u64;
        let series = match kind {
            1 => &stats.watchers_of_created,
            2 => &stats.watchers_of_deleted,
            3 => &stats.watchers_of_changed,
            _ => &stats.watchers_of_children,
        };
        series.add(watchers);
        stats.sent_events(frames.len() as u64, watchers);
    }
}

/// Whether a frame that answers no request is an event. A connect response is not.
pub fn is_event(frame: &[u8]) -> bool {
    kind_of(frame).is_some()
}

fn same_frames(one: &Output, other: &Output) -> bool {
    let frames = |output: &Output| match output {
        Output::Send { frames, answers: None, .. } => Some(frames.clone()),
        _ => None,
    };
    frames(one).is_some_and(|one| Some(one) == frames(other))
}

/// The kind of an event; `None` if the frame is something else (a connect response).
fn kind_of(frame: &[u8]) -> Option<i32> {
    (int_at(frame, 4)? == Xid::NOTIFICATION.0).then(|| int_at(frame, 20)).flatten()
}

fn int_at(frame: &[u8], at: usize) -> Option<i32> {
    let bytes = frame.get(at..at + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::{ErrorCode, EventType, WatchedEvent, Zxid, reply};

    #[test]
    fn frames_are_told_apart() {
        let mut event = Vec::new();
        let deleted = EventType::NodeDeleted;
        WatchedEvent { kind: deleted, path: "/a" }.encode_frame(Zxid(7), &mut event);
        let mut fine = Vec::new();
        reply::header_only(&mut fine, Xid(1), Zxid(7), None);
        let mut failed = Vec::new();
        reply::header_only(&mut failed, Xid(1), Zxid(7), Some(ErrorCode::NoNode));
        assert_eq!([&event, &fine, &failed].map(|f| kind_of(f)), [Some(2), None, None]);
    }
}
