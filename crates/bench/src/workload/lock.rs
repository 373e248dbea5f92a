//! `lock`: contenders for one lock, as the recipe says: a sequential ephemeral znode each, a watch on the one
//! before. Who holds the lock releases it at once and queues up again. An operation is a hand-over: from the
//! moment the release is sent to the moment the next holder has read that it is first.

use std::time::Instant;

use herdsman_proto::{ErrorCode, EventType, JuteReader, ReadRequest, Request};

use crate::load::{Checked, Load, Outcome, Reply, Ticket, Wrong};
use crate::template::append_frame;
use crate::workload::create::{EPHEMERAL_SEQUENTIAL, create_request};
use crate::workload::delete::delete_request;

/// Begins every contender's name; the server appends the number.
const PREFIX: &str = "contender-";

/// Where a contender stands. What is asked is answered in the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stand {
    /// It creates its znode.
    Joining,
    /// It lists the contenders, to see whether it is first.
    Looking,
    /// It sets a watch on the one before it.
    Watching(String),
    /// It waits for that one to go.
    Waiting(String),
    /// It is first, and deletes its znode.
    Leaving,
}

struct Contender {
    stand: Stand,
    /// The name of its znode, once it has one.
    name: String,
    is_asking: bool,
}

/// Hands a lock on.
pub(crate) struct Lock {
    top: String,
    contenders: Vec<Contender>,
    holder: Option<usize>,
    released_at: Option<Instant>,
}

impl Lock {
    pub(crate) fn new(top: String, lanes: usize) -> Self {
        let contender =
            || Contender { stand: Stand::Joining, name: String::new(), is_asking: false };
        let contenders = (0..lanes).map(|_| contender()).collect();
        Lock { top, contenders, holder: None, released_at: None }
    }

    fn take_reply(&mut self, lane: usize, reply: &Reply<'_>) -> Checked<Outcome> {
        let stand = self.contenders[lane].stand.clone();
        let (stand, outcome) = match stand {
            Stand::Joining => {
                self.contenders[lane].name = created_name(reply, &self.top)?;
                (Stand::Looking, Outcome::Step)
            }
            Stand::Looking => self.look(lane, reply)?,
            Stand::Watching(_) if reply.error == ErrorCode::NoNode.code() => {
                (Stand::Looking, Outcome::Step)
            }
            Stand::Watching(before) => {
                reply.must_succeed()?;
                (Stand::Waiting(before), Outcome::Step)
            }
            Stand::Leaving => {
                reply.must_succeed()?;
                (Stand::Joining, Outcome::Step)
            }
            Stand::Waiting(_) => return Err(Wrong::new("a reply to a lane that asked nothing")),
        };
        self.contenders[lane].stand = stand;
        Ok(outcome)
    }

    /// Reads the list: first, or behind whom?
    fn look(&mut self, lane: usize, reply: &Reply<'_>) -> Checked<(Stand, Outcome)> {
        reply.must_succeed()?;
        let own = self.contenders[lane].name.as_str();
        let names = JuteReader::new(reply.body).vector(JuteReader::required_string)?;
        if !names.iter().any(|name| name == own) {
            return Err(Wrong::new(format!("{own} is missing in the list of contenders")));
        }
        if let Some(before) = names.iter().filter(|name| ***name < *own).max() {
            return Ok((Stand::Watching(before.to_string()), Outcome::Step));
        }
        if let Some(holder) = self.holder.replace(lane) {
            return Err(Wrong::new(format!("contenders {holder} and {lane} both hold the lock")));
        }
        let outcome = self.released_at.take().map_or(Outcome::Step, Outcome::DoneSince);
        Ok((Stand::Leaving, outcome))
    }
}

/// The name at the end of a create's answer.
fn created_name(reply: &Reply<'_>, top: &str) -> Checked<String> {
    reply.must_succeed()?;
    let path = JuteReader::new(reply.body).required_string()?;
    path.strip_prefix(top)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|name| name.starts_with(PREFIX))
        .map(str::to_owned)
        .ok_or_else(|| Wrong::new(format!("create is answered with {path}")))
}

impl Load for Lock {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket> {
        let (top, contender) = (&self.top, &mut self.contenders[lane]);
        if contender.is_asking {
            return None;
        }
        match &contender.stand {
            Stand::Joining => {
                let path = format!("{top}/{PREFIX}");
                append_frame(xid, &create_request(&path, &[], EPHEMERAL_SEQUENTIAL), out);
            }
            Stand::Looking => {
                let (path, watch) = (top.as_str().into(), false);
                let list = ReadRequest::GetChildren { path, watch, with_stat: false };
                append_frame(xid, &Request::Read(list), out);
            }
            Stand::Watching(before) => {
                let path = format!("{top}/{before}").into();
                append_frame(xid, &Request::Read(ReadRequest::GetData { path, watch: true }), out);
            }
            Stand::Waiting(_) => return None,
            Stand::Leaving => {
                append_frame(xid, &delete_request(&format!("{top}/{}", contender.name)), out);
                // From here on another one may hold it.
                self.holder = None;
                self.released_at = Some(Instant::now());
            }
        }
        contender.is_asking = true;
        Some(Ticket(0))
    }

    fn check_reply(&mut self, lane: usize, _ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome> {
        self.contenders[lane].is_asking = false;
        self.take_reply(lane, reply).map_err(|wrong| {
            wrong.during(format_args!("contender {lane}, {:?}", self.contenders[lane].stand))
        })
    }

    fn take_event(&mut self, lane: usize, kind: EventType, path: &str) -> Checked<Outcome> {
        let contender = &mut self.contenders[lane];
        match &contender.stand {
            Stand::Waiting(before)
                if kind == EventType::NodeDeleted && path == format!("{}/{before}", self.top) =>
            {
                contender.stand = Stand::Looking;
                Ok(Outcome::Step)
            }
            stand => Err(Wrong::new(format!("contender {lane}, {stand:?}: {kind:?} of {path}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::JuteWrite;

    fn answer(lock: &mut Lock, lane: usize, body: &[u8]) -> Checked<Outcome> {
        assert!(lock.next_request(lane, 1, &mut Vec::new()).is_some());
        lock.check_reply(lane, Ticket(0), &Reply { error: 0, body })
    }

    fn name(number: u32) -> String {
        format!("{PREFIX}{number:010}")
    }

    fn list(numbers: &[u32]) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_vector(numbers, |out, number| out.put_string(&name(*number)));
        body
    }

    fn joined(lanes: usize) -> Lock {
        let mut lock = Lock::new("/lock".to_owned(), lanes);
        for lane in 0..lanes {
            let mut body = Vec::new();
            body.put_string(&format!("/lock/{}", name(lane as u32)));
            assert_eq!(answer(&mut lock, lane, &body), Ok(Outcome::Step));
        }
        lock
    }

    #[test]
    fn a_hand_over_is_from_the_release_to_the_next_holder() {
        let mut lock = joined(2);
        assert_eq!(answer(&mut lock, 1, &list(&[1, 0])), Ok(Outcome::Step));
        assert_eq!(answer(&mut lock, 1, &[]), Ok(Outcome::Step), "the watch is set");
        assert_eq!(lock.next_request(1, 1, &mut Vec::new()), None, "it waits");
        assert_eq!(answer(&mut lock, 0, &list(&[1, 0])), Ok(Outcome::Step), "nobody released yet");
        assert_eq!(answer(&mut lock, 0, &[]), Ok(Outcome::Step));
        let gone = format!("/lock/{}", name(0));
        lock.take_event(1, EventType::NodeDeleted, &gone).unwrap();
        assert!(matches!(answer(&mut lock, 1, &list(&[1])), Ok(Outcome::DoneSince(_))));
    }

    #[test]
    fn two_holders_and_a_lost_contender_are_noticed() {
        let mut lock = joined(2);
        answer(&mut lock, 0, &list(&[0, 1])).unwrap();
        assert!(answer(&mut lock, 1, &list(&[1])).is_err(), "the other one has not released");
        assert!(answer(&mut joined(1), 0, &list(&[7])).is_err(), "it is not in the list");
    }
}
