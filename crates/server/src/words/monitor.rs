//! `mntr`: a line for each metric. Apache: `MonitorCommand`.

use std::fmt::Write;

use herdsman_node::ServesAs;
use herdsman_proto::ServerId;
use herdsman_zab::Zab;

use super::metrics::{self, Value};
use super::{java, role, role_name, version};
use crate::io_threads::Shared;

pub(super) fn mntr(shared: &Shared) -> String {
    let mut text = format!("zk_version\t{}\n", version::full_version());
    let role = role(shared);
    let _ = writeln!(text, "zk_server_state\t{}", role_name(shared));
    if let Some(state) = peer_state(role) {
        let _ = writeln!(text, "zk_peer_state\t{state} - broadcast");
    }
    if role == Some(ServesAs::Observer)
        && let Some(master) = shared.core.with_node(|node| node.zab().and_then(learns_from))
    {
        let _ = writeln!(text, "zk_observer_master_id\t{master}");
    }
    for (name, value) in metrics::collect(shared) {
        let _ = match value {
            Value::Whole(number) => writeln!(text, "zk_{name}\t{number}"),
            Value::Fraction(number) => writeln!(text, "zk_{name}\t{}", java::double(number)),
        };
    }
    text
}

/// Where an observer gets its txns from: a follower or the leader.
fn learns_from(zab: &Zab) -> Option<ServerId> {
    zab.observer_master().or_else(|| zab.leader())
}

/// Apache's word for what a member does. While words are answered, its phase is always broadcast.
fn peer_state(role: Option<ServesAs>) -> Option<&'static str> {
    match role? {
        ServesAs::Standalone | ServesAs::ReadOnly => None,
        ServesAs::Leader => Some("leading"),
        ServesAs::Follower => Some("following"),
        ServesAs::Observer => Some("observing"),
    }
}
