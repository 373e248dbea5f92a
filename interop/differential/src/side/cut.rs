//! A connection that is cut while writes are in flight.
//!
//! How many of them are applied is random, so both sides are compared by what must hold on each: the
//! applied ones are the first ones, and once the session has a request answered on its next connection, no
//! other one is applied. Their effects are then removed, and zxids are counted as if there had been a fixed
//! number.

use std::time::Duration;

use anyhow::{Result, ensure};
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{Acl, JuteReader, OpCode, Perms, Xid};

use super::{Observation, Side};
use crate::action::Cut;
use crate::call::{Call, Create};
use crate::link::Incoming;

/// The zxids of a script up to and including a cut; more than are used.
const TXNS: i64 = 100_000;
/// How long zxids must be stable before writes that have not been applied count as lost.
const QUIET: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);

impl Side {
    pub(super) fn cut(&mut self, slot: usize, cut: &Cut, said: &mut Observation) -> Result<()> {
        if self.slots[slot].link.is_none() {
            said.lines.push("not attached".into());
            return Ok(());
        }
        let before = self.newest_zxid.0;
        self.write_and_drop(slot, cut);
        self.hello(slot, &cut.hello, said)?;
        if self.slots[slot].link.is_none() {
            // A local session that cannot move; its writes stay.
            return self.end_cut(cut, before + cut.writes as i64);
        }
        let first = self.applied(slot, cut)?;
        said.lines.push(describe_order(&first));
        self.ask(slot, &Call::set_data(Some(cut.folder.as_bytes()), None, -1))?;
        let later = self.applied(slot, cut)?;
        said.lines.push(describe_end(&first, &later));
        self.end_cut(cut, before + cut.writes as i64 + 1)
    }

    fn write_and_drop(&mut self, slot: usize, cut: &Cut) {
        let open = [Acl::world(Perms::ALL)];
        let mut bytes = Vec::new();
        for number in 0..cut.writes {
            let path = format!("{}/{}", cut.folder, name(number));
            let create = Call::create(&Create {
                op: OpCode::Create,
                path: Some(path.as_bytes()),
                data: None,
                acl: Some(&open),
                flags: 0,
                ttl_ms: None,
            });
            create.encode_frame(self.next_xid(slot), None, &mut bytes);
        }
        let Some(mut link) = self.slots[slot].link.take() else { return };
        link.send(&bytes);
        if cut.after_first_reply {
            link.receive();
        }
    }

    /// The writes that this session's server has applied.
    fn applied(&mut self, slot: usize, cut: &Cut) -> Result<Vec<String>> {
        let folder = Some(cut.folder.as_bytes());
        self.ask(slot, &Call::path_only(OpCode::Sync, folder))?;
        let reply = self.ask(slot, &Call::read(OpCode::GetChildren, folder, false))?;
        let mut reader = JuteReader::new(&reply);
        ReplyHeader::decode(&mut reader)?;
        let names = reader.vector(JuteReader::required_string)?;
        let mut names: Vec<String> = names.into_iter().map(|name| name.into_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// Sends a request whose reply is not compared.
    fn ask(&mut self, slot: usize, call: &Call) -> Result<Vec<u8>> {
        let xid = self.next_xid(slot);
        let mut bytes = Vec::new();
        call.encode_frame(xid, None, &mut bytes);
        let link = self.slots[slot].link.as_mut().expect("the caller has a connection");
        link.send(&bytes);
        loop {
            let Incoming::Frame(payload) = link.receive() else {
                anyhow::bail!("no answer to {call} after a cut");
            };
            let (got, _, error) = ReplyHeader::decode(&mut JuteReader::new(&payload))?;
            if got == Xid::NOTIFICATION {
                continue;
            }
            ensure!(got == xid && error == 0, "{call} after a cut: xid {}, error {error}", got.0);
            return Ok(payload);
        }
    }

    /// Waits until all writes have ended, the last one at `last` if none is lost; removes their effects.
    fn end_cut(&mut self, cut: &Cut, last: i64) -> Result<()> {
        self.await_servers()?;
        let mut quiet = Duration::ZERO;
        while self.newest_zxid.0 < last && quiet < QUIET {
            let before = self.newest_zxid;
            std::thread::sleep(POLL);
            self.await_servers()?;
            quiet = if self.newest_zxid == before { quiet + POLL } else { Duration::ZERO };
        }
        for number in 0..cut.writes {
            let path = format!("{}/{}", cut.folder, name(number));
            self.probes[0].ask(&Call::numbered(OpCode::Delete, Some(path.as_bytes()), -1))?;
        }
        self.await_servers()?;
        self.canon.jump(self.newest_zxid, TXNS);
        Ok(())
    }
}

fn describe_order(applied: &[String]) -> String {
    match applied.iter().enumerate().all(|(index, applied)| *applied == name(index)) {
        true => "cut: the first writes exist, or none".into(),
        false => format!("cut: only these exist: {applied:?}"),
    }
}

fn describe_end(first: &[String], later: &[String]) -> String {
    match first == later {
        true => "cut: no other one was applied later".into(),
        false => format!("cut: first {first:?}, later {later:?}"),
    }
}

/// The name of a write, such that the order of names is that of the writes.
fn name(number: usize) -> String {
    format!("w{number:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[usize]) -> Vec<String> {
        numbers.iter().copied().map(name).collect()
    }

    #[test]
    fn what_is_applied_must_be_the_first_writes() {
        let fine = describe_order(&[]);
        assert_eq!(describe_order(&names(&[0, 1, 2])), fine);
        assert_ne!(describe_order(&names(&[1])), fine);
        assert_ne!(describe_order(&names(&[0, 2])), fine);
    }

    #[test]
    fn nothing_may_be_applied_after_the_next_connection_is_served() {
        assert_eq!(describe_end(&names(&[0]), &names(&[0])), describe_end(&[], &[]));
        assert_ne!(describe_end(&names(&[0]), &names(&[0, 1])), describe_end(&[], &[]));
    }
}
