//! `mntr`: a line for each metric. Apache: `MonitorCommand`.

use std::fmt::Write;

use herdsman_node::ServesAs;
use herdsman_proto::ServerId;
use herdsman_zab::Zab;

use super::{java, role, role_name, version};
use crate::clients::io_threads::ServerContext;
use crate::operators::metrics::{self, Number};

pub(super) fn mntr(shared: &ServerContext) -> String {
    let mut text = String::new();
    for (name, value) in texts(shared) {
        let _ = writeln!(text, "zk_{name}\t{value}");
    }
    for (name, value) in metrics::flat(&metrics::apache_families(shared)) {
        let _ = match value {
            Number::Whole(number) => writeln!(text, "zk_{name}\t{number}"),
            Number::Fraction(number) => writeln!(text, "zk_{name}\t{}", java::double(number)),
        };
    }
    text
}

/// The lines before the numbers.
pub(super) fn texts(shared: &ServerContext) -> Vec<(&'static str, String)> {
    let mut texts = vec![("version", version::full_version())];
    let role = role(shared);
    texts.push(("server_state", role_name(shared).to_owned()));
    if let Some(state) = peer_state(role) {
        texts.push(("peer_state", format!("{state} - broadcast")));
    }
    if role == Some(ServesAs::Observer)
        && let Some(master) = shared.core.with_node(|node| node.zab().and_then(learns_from))
    {
        texts.push(("observer_master_id", master.to_string()));
    }
    texts
}

/// The server from which an observer gets its txns: a follower or the leader.
fn learns_from(zab: &Zab) -> Option<ServerId> {
    zab.observer_master().or_else(|| zab.leader())
}

/// Apache's word for a member's state. While words are answered, its phase is always broadcast.
fn peer_state(role: Option<ServesAs>) -> Option<&'static str> {
    match role? {
        ServesAs::Standalone | ServesAs::ReadOnly => None,
        ServesAs::Leader => Some("leading"),
        ServesAs::Follower => Some("following"),
        ServesAs::Observer => Some("observing"),
    }
}
