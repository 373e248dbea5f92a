//! Handshake: who comes back with a session gets that session, and a new session's id belonged to nobody before; with
//! the timeout that was asked for, and from a server without a leader only if the client accepts such a one.
//! Source: `ZooKeeperServer.processConnectRequest` in Apache ZooKeeper.

use std::collections::BTreeSet;

use herdsman_proto::SessionId;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// The ids that were given out.
#[derive(Default)]
pub struct Handshake {
    issued: BTreeSet<SessionId>,
}

impl Checker for Handshake {
    fn name(&self) -> &'static str {
        "handshake"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        let Fact::Connected { client, asked, session, timeout_is_right, read_only_unasked } = fact
        else {
            return Ok(());
        };
        let wrong = if *asked == SessionId::NONE && !self.issued.insert(*session) {
            "an id that was given out before"
        } else if *asked != SessionId::NONE && asked != session {
            "another session"
        } else if !timeout_is_right {
            "another timeout"
        } else if *read_only_unasked {
            "a server without a leader"
        } else {
            return Ok(());
        };
        Err(format!("client {client} asked for session {asked} and got {session}: {wrong}"))
    }
}
