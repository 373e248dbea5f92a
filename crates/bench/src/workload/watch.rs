//! `watch`: one znode, many watchers. An operation begins when the change is sent and ends when the last watcher
//! has got its event. Only then all watchers set their watches again, which is therefore not measured; they must read
//! the new value.
//!
//! Lane 0 writes, all other lanes watch.

use std::ops::Range;
use std::time::Instant;

use herdsman_proto::{EventType, JuteReader, ReadRequest, Request, WriteRequest};

use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply};
use crate::template::append_frame;

/// The number of lanes that write.
pub(crate) const WRITERS: usize = 1;
const WRITER: usize = 0;

/// The state of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watcher {
    /// It has no watch.
    Unset,
    /// It has requested one.
    Asked,
    /// It waits for the event.
    Set,
}

/// Changes a znode that every other lane watches.
pub(crate) struct Watch {
    path: String,
    watchers: Vec<Watcher>,
    /// The number of watchers with a watch and without an event since.
    set: usize,
    changes: u64,
    changed_at: Instant,
    /// The change has no reply yet.
    is_writing: bool,
    /// The number of watchers that have not got the event yet.
    unaware: usize,
    wakes_writer: bool,
    /// The watchers that may set their watches again and have not been woken.
    to_wake: Range<usize>,
}

impl Watch {
    /// `lanes` includes the writer.
    pub(crate) fn new(path: String, lanes: usize) -> Self {
        Watch {
            path,
            watchers: vec![Watcher::Unset; lanes],
            set: 0,
            changes: 0,
            changed_at: Instant::now(),
            is_writing: false,
            unaware: 0,
            wakes_writer: false,
            to_wake: 0..0,
        }
    }

    fn count(&self) -> usize {
        self.watchers.len() - WRITERS
    }

    /// The previous change has reached all watchers, and all wait for the next one. The reply to a change
    /// may arrive before its events.
    fn may_change(&self) -> bool {
        !self.is_writing && self.unaware == 0 && self.set == self.count()
    }

    fn write(&mut self, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        if !self.may_change() {
            return None;
        }
        self.changes += 1;
        self.is_writing = true;
        self.unaware = self.count();
        let value = self.changes.to_be_bytes();
        let (path, data) = (self.path.as_str().into(), Some(&value[..]));
        let set = WriteRequest::SetData { path, data, version: -1 };
        append_frame(xid, &Request::Write(set), out);
        self.changed_at = Instant::now();
        Some(RequestTag(0))
    }

    fn check_read(&mut self, lane: usize, reply: &Reply<'_>) -> Checked<()> {
        reply.must_succeed()?;
        let value = JuteReader::new(reply.body).buffer()?.unwrap_or_default();
        // The value does not change until all have set their watches.
        if self.changes > 0 && value != self.changes.to_be_bytes() {
            return Err(WrongReply::new("a watcher read a value that does not match its event"));
        }
        self.watchers[lane] = Watcher::Set;
        self.set += 1;
        Ok(())
    }
}

impl Load for Watch {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        if lane == WRITER {
            return self.write(xid, out);
        }
        if self.watchers[lane] != Watcher::Unset || self.unaware > 0 {
            return None;
        }
        self.watchers[lane] = Watcher::Asked;
        let get = ReadRequest::GetData { path: self.path.as_str().into(), watch: true };
        append_frame(xid, &Request::Read(get), out);
        Some(RequestTag(0))
    }

    fn check_reply(
        &mut self,
        lane: usize,
        _ticket: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        if lane == WRITER {
            self.is_writing = false;
            reply
                .must_succeed()
                .map_err(|wrong| wrong.during(format_args!("set {}", self.path)))?;
        } else {
            self.check_read(lane, reply)
                .map_err(|wrong| wrong.during(format_args!("getData {}", self.path)))?;
        }
        self.wakes_writer = self.may_change();
        Ok(Outcome::Step)
    }

    fn take_event(&mut self, lane: usize, kind: EventType, path: &str) -> Checked<Outcome> {
        let is_expected = kind == EventType::NodeDataChanged && path == self.path;
        if !is_expected || lane == WRITER || self.watchers[lane] != Watcher::Set {
            return Err(WrongReply::new(format!("unexpected event: {kind:?} of {path}")));
        }
        self.watchers[lane] = Watcher::Unset;
        self.set -= 1;
        self.unaware = self.unaware.saturating_sub(1);
        if self.unaware > 0 {
            return Ok(Outcome::Step);
        }
        self.to_wake = WRITERS..self.watchers.len();
        Ok(Outcome::DoneSince(self.changed_at))
    }

    fn next_woken(&mut self) -> Option<usize> {
        self.to_wake.next().or_else(|| std::mem::take(&mut self.wakes_writer).then_some(WRITER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::JuteWrite;

    fn answer(watch: &mut Watch, lane: usize, value: &[u8]) -> Checked<Outcome> {
        let mut body = Vec::new();
        body.put_buffer(Some(value));
        watch.check_reply(lane, RequestTag(0), &Reply { error: 0, body: &body })
    }

    #[test]
    fn an_operation_ends_with_the_last_event() {
        let mut watch = Watch::new("/w".to_owned(), 3);
        let mut out = Vec::new();
        assert_eq!(watch.next_request(WRITER, 1, &mut out), None, "there is no watch yet");
        for lane in 1..3 {
            assert!(watch.next_request(lane, 1, &mut out).is_some());
            assert_eq!(watch.next_request(lane, 2, &mut out), None);
            assert_eq!(answer(&mut watch, lane, b"old"), Ok(Outcome::Step));
        }
        assert_eq!(watch.next_woken(), Some(WRITER));
        assert!(watch.next_request(WRITER, 1, &mut out).is_some());
        let mut event = |lane| watch.take_event(lane, EventType::NodeDataChanged, "/w");
        assert_eq!(event(1), Ok(Outcome::Step));
        assert!(event(1).is_err(), "a watch fires once");
        assert_eq!(watch.next_request(1, 3, &mut out), None, "not all watchers have got the event");
        let last = watch.take_event(2, EventType::NodeDataChanged, "/w");
        assert!(matches!(last, Ok(Outcome::DoneSince(_))));
        assert_eq!([watch.next_woken(), watch.next_woken()], [Some(1), Some(2)]);
        assert_eq!(watch.next_woken(), None);
        assert!(watch.next_request(1, 3, &mut out).is_some());
        assert!(answer(&mut watch, 1, b"old").is_err(), "the event was for another value");
    }
}
