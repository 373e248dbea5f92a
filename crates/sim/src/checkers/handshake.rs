//! Handshake: a client that reconnects gets its session back, and the id of a new session was never used before. The
//! timeout is the requested one, and a read-only server answers only clients that accept one.
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

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
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
