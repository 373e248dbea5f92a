//! `lock`: contenders for one lock, as in the recipe: each has a sequential ephemeral znode and a watch on the
//! preceding one. The holder releases the lock at once and queues again. An operation is a hand-over: from the
//! moment the release is sent to the moment the next holder has read that it is first.

use std::time::Instant;

use herdsman_proto::{ErrorCode, EventType, JuteReader, ReadRequest, Request};

use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply};
use crate::template::append_frame;
use crate::workload::create::{EPHEMERAL_SEQUENTIAL, create_request};
use crate::workload::delete::delete_request;

/// The prefix of every contender's name; the server appends the number.
const PREFIX: &str = "contender-";

/// The state of a contender: the request whose reply it waits for, or the event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ContenderState {
    /// It creates its znode.
    Joining,
    /// It lists the contenders, to see whether it is first.
    Looking,
    /// It sets a watch on the one before it.
    Watching(String),
    /// It waits for the deletion of that one.
    Waiting(String),
    /// It is first, and deletes its znode.
    Leaving,
}

struct Contender {
    state: ContenderState,
    /// The name of its znode, once it has one.
    name: String,
    is_asking: bool,
}

/// Passes a lock from one contender to the next.
pub(crate) struct Lock {
    top: String,
    contenders: Vec<Contender>,
    holder: Option<usize>,
    released_at: Option<Instant>,
}

impl Lock {
    pub(crate) fn new(top: String, lanes: usize) -> Self {
        let contender =
            || Contender { state: ContenderState::Joining, name: String::new(), is_asking: false };
        let contenders = (0..lanes).map(|_| contender()).collect();
        Lock { top, contenders, holder: None, released_at: None }
    }

    fn take_reply(&mut self, lane: usize, reply: &Reply<'_>) -> Checked<Outcome> {
        let state = self.contenders[lane].state.clone();
        let (state, outcome) = match state {
            ContenderState::Joining => {
                self.contenders[lane].name = created_name(reply, &self.top)?;
                (ContenderState::Looking, Outcome::Step)
            }
            ContenderState::Looking => self.look(lane, reply)?,
            ContenderState::Watching(_) if reply.error == ErrorCode::NoNode.code() => {
                (ContenderState::Looking, Outcome::Step)
            }
            ContenderState::Watching(before) => {
                reply.must_succeed()?;
                (ContenderState::Waiting(before), Outcome::Step)
            }
            ContenderState::Leaving => {
                reply.must_succeed()?;
                (ContenderState::Joining, Outcome::Step)
            }
            ContenderState::Waiting(_) => return Err(WrongReply::new("a reply without a request")),
        };
        self.contenders[lane].state = state;
        Ok(outcome)
    }

    /// Reads the list of contenders: either this one is first, or it must watch the preceding one.
    fn look(&mut self, lane: usize, reply: &Reply<'_>) -> Checked<(ContenderState, Outcome)> {
        reply.must_succeed()?;
        let own = self.contenders[lane].name.as_str();
        let names = JuteReader::new(reply.body).vector(JuteReader::required_string)?;
        if !names.iter().any(|name| name == own) {
            return Err(WrongReply::new(format!("{own} is missing in the list of contenders")));
        }
        if let Some(before) = names.iter().filter(|name| ***name < *own).max() {
            return Ok((ContenderState::Watching(before.to_string()), Outcome::Step));
        }
        if let Some(holder) = self.holder.replace(lane) {
            return Err(WrongReply::new(format!(
                "contenders {holder} and {lane} both hold the lock"
            )));
        }
        let outcome = self.released_at.take().map_or(Outcome::Step, Outcome::DoneSince);
        Ok((ContenderState::Leaving, outcome))
    }
}

/// Returns the name at the end of the path in the reply to a create.
fn created_name(reply: &Reply<'_>, top: &str) -> Checked<String> {
    reply.must_succeed()?;
    let path = JuteReader::new(reply.body).required_string()?;
    path.strip_prefix(top)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|name| name.starts_with(PREFIX))
        .map(str::to_owned)
        .ok_or_else(|| WrongReply::new(format!("the reply to create has the path {path}")))
}

impl Load for Lock {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let (top, contender) = (&self.top, &mut self.contenders[lane]);
        if contender.is_asking {
            return None;
        }
        match &contender.state {
            ContenderState::Joining => {
                let path = format!("{top}/{PREFIX}");
                append_frame(xid, &create_request(&path, &[], EPHEMERAL_SEQUENTIAL), out);
            }
            ContenderState::Looking => {
                let (path, watch) = (top.as_str().into(), false);
                let list = ReadRequest::GetChildren { path, watch, with_stat: false };
                append_frame(xid, &Request::Read(list), out);
            }
            ContenderState::Watching(before) => {
                let path = format!("{top}/{before}").into();
                append_frame(xid, &Request::Read(ReadRequest::GetData { path, watch: true }), out);
            }
            ContenderState::Waiting(_) => return None,
            ContenderState::Leaving => {
                append_frame(xid, &delete_request(&format!("{top}/{}", contender.name)), out);
                // From now on another contender may hold the lock.
                self.holder = None;
                self.released_at = Some(Instant::now());
            }
        }
        contender.is_asking = true;
        Some(RequestTag(0))
    }

    fn check_reply(
        &mut self,
        lane: usize,
        _ticket: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        self.contenders[lane].is_asking = false;
        self.take_reply(lane, reply).map_err(|wrong| {
            wrong.during(format_args!("contender {lane}, {:?}", self.contenders[lane].state))
        })
    }

    fn take_event(&mut self, lane: usize, kind: EventType, path: &str) -> Checked<Outcome> {
        let contender = &mut self.contenders[lane];
        match &contender.state {
            ContenderState::Waiting(before)
                if kind == EventType::NodeDeleted && path == format!("{}/{before}", self.top) =>
            {
                contender.state = ContenderState::Looking;
                Ok(Outcome::Step)
            }
            state => {
                Err(WrongReply::new(format!("contender {lane}, {state:?}: {kind:?} of {path}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::JuteWrite;

    fn answer(lock: &mut Lock, lane: usize, body: &[u8]) -> Checked<Outcome> {
        assert!(lock.next_request(lane, 1, &mut Vec::new()).is_some());
        lock.check_reply(lane, RequestTag(0), &Reply { error: 0, body })
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
        assert_eq!(lock.next_request(1, 1, &mut Vec::new()), None, "the contender waits");
        assert_eq!(
            answer(&mut lock, 0, &list(&[1, 0])),
            Ok(Outcome::Step),
            "the lock was not released yet"
        );
        assert_eq!(answer(&mut lock, 0, &[]), Ok(Outcome::Step));
        let deleted = format!("/lock/{}", name(0));
        lock.take_event(1, EventType::NodeDeleted, &deleted).unwrap();
        assert!(matches!(answer(&mut lock, 1, &list(&[1])), Ok(Outcome::DoneSince(_))));
    }

    #[test]
    fn two_holders_and_a_lost_contender_are_detected() {
        let mut lock = joined(2);
        answer(&mut lock, 0, &list(&[0, 1])).unwrap();
        assert!(
            answer(&mut lock, 1, &list(&[1])).is_err(),
            "the other contender still holds the lock"
        );
        assert!(
            answer(&mut joined(1), 0, &list(&[7])).is_err(),
            "the contender is not in the list"
        );
    }
}
