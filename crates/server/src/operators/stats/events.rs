//! Counts watch events in the core's output. Apache: `WatchManager.triggerWatch`,
//! `NIOServerCnxn.process`.

use herdsman_node::{Output, Outputs};
use herdsman_proto::EventType;

use super::ServerStats;

/// Counts the events of one delivery.
pub fn count_events(stats: &ServerStats, out: &Outputs) {
    for output in &out.list {
        let Output::Event { kind, frame, watchers } = output else { continue };
        let series = match kind {
            EventType::NodeCreated => &stats.watchers_of_created,
            EventType::NodeDeleted => &stats.watchers_of_deleted,
            EventType::NodeDataChanged => &stats.watchers_of_changed,
            _ => &stats.watchers_of_children,
        };
        series.add(watchers.len() as u64);
        stats.sent_events(frame.len() as u64, watchers.len() as u64);
    }
}
