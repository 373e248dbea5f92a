//! Many sessions in one thread, with a bounded number of requests at a time.
//!
//! In: a server's address and the requests of each session. Out: an error unless all were answered without
//! an error; and how many events arrived, and when the last one did. A session has at most one request in
//! flight. Not here: the effect on other clients (`busy`).

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mio::{Events, Poll};

use super::link::{self, Link, Scratch};
use crate::wire::{Decoder, Op};

/// Requests in flight over all sessions.
const IN_FLIGHT_MAX: usize = 256;
/// Time limit without any reply.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const POLL_MAX: Duration = Duration::from_millis(100);
const REPORT_EVERY: Duration = Duration::from_secs(5);
const EVENTS_AT_ONCE: usize = 1024;
const XID_EVENT: i32 = -1;

/// The sessions.
pub struct Crowd {
    address: SocketAddr,
    poll: Poll,
    scratch: Scratch,
    members: Vec<Member>,
    counts: Counts,
}

struct Member {
    link: Option<Link>,
    awaits: Awaits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Session,
    Reply,
    Nothing,
}

struct Counts {
    answered: usize,
    answered_at: Instant,
    events: usize,
    event_at: Instant,
}

impl Crowd {
    /// No sessions yet.
    pub fn new(address: &str) -> Result<Crowd> {
        let now = Instant::now();
        Ok(Crowd {
            address: address.parse()?,
            poll: Poll::new()?,
            scratch: Scratch::new(),
            members: Vec::new(),
            counts: Counts { answered: 0, answered_at: now, events: 0, event_at: now },
        })
    }

    /// How many were opened, connected or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Opens this many more; `timeout_ms` is called when each is opened.
    pub fn open(&mut self, count: usize, timeout_ms: impl Fn() -> i32) -> Result<()> {
        let first = self.len();
        self.work("opened", first..first + count, Duration::ZERO, |crowd, index| {
            let mut link = Link::dial(crowd.address, index, &crowd.poll)?;
            link.send(&link::connect_request(timeout_ms()))?;
            crowd.members.push(Member { link: Some(link), awaits: Awaits::Session });
            Ok(())
        })
    }

    /// Each of these sends a request; returns when all are answered.
    pub fn ask(&mut self, who: Range<usize>, op: impl Fn(usize) -> Op) -> Result<()> {
        self.work("answered", who, Duration::ZERO, |crowd, index| {
            crowd.send(index, &link::request(1, &op(index)))
        })
    }

    /// Each sends a ping, spread evenly over this time.
    pub fn ping(&mut self, over: Duration) -> Result<()> {
        self.work("pinged", 0..self.len(), over, |crowd, index| crowd.send(index, &link::ping()))
    }

    /// Closes the connections of these; their sessions live on until they expire.
    pub fn disconnect(&mut self, who: Range<usize>) {
        self.members[who].iter_mut().for_each(|member| member.link = None);
    }

    /// Resets the number of events.
    pub fn forget_events(&mut self) {
        self.counts.events = 0;
    }

    /// Waits for this many events since [`Crowd::forget_events`]; returns when the last one arrived.
    pub fn await_events(&mut self, count: usize) -> Result<Instant> {
        let deadline = Instant::now() + SILENCE_MAX;
        while self.counts.events < count {
            self.turn(POLL_MAX)?;
            let events = self.counts.events;
            ensure!(Instant::now() < deadline, "only {events} of {count} events arrived");
        }
        ensure!(self.counts.events == count, "{} events, {count} were due", self.counts.events);
        Ok(self.counts.event_at)
    }

    fn send(&mut self, index: usize, record: &[u8]) -> Result<()> {
        let member = &mut self.members[index];
        ensure!(member.awaits == Awaits::Nothing, "client {index} has a request in flight");
        member.awaits = Awaits::Reply;
        let link = member.link.as_mut().with_context(|| format!("client {index} has left"))?;
        link.send(record).with_context(|| format!("client {index} sends"))
    }

    /// Starts an action for each of these, a bounded number at a time and spread evenly over a time, and
    /// waits for all replies.
    fn work(
        &mut self,
        done: &str,
        who: Range<usize>,
        over: Duration,
        mut start: impl FnMut(&mut Crowd, usize) -> Result<()>,
    ) -> Result<()> {
        let (total, begun) = (who.len(), Instant::now());
        let (mut started, mut reported) = (0, begun);
        self.counts.answered = 0;
        self.counts.answered_at = begun;
        while self.counts.answered < total {
            let due = due(total, begun.elapsed(), over);
            while started < due && started - self.counts.answered < IN_FLIGHT_MAX {
                start(self, who.start + started)?;
                started += 1;
            }
            let pause = if due < total { over / total as u32 } else { POLL_MAX };
            self.turn(pause.min(POLL_MAX))?;
            let answered = self.counts.answered;
            if reported.elapsed() >= REPORT_EVERY && over.is_zero() {
                println!("  {done}: {answered} of {total}");
                reported = Instant::now();
            }
            if started > answered && self.counts.answered_at.elapsed() > SILENCE_MAX {
                bail!("only {answered} of {total} were {done}; then nothing for {SILENCE_MAX:?}");
            }
        }
        Ok(())
    }

    fn turn(&mut self, timeout: Duration) -> Result<()> {
        let mut events = Events::with_capacity(EVENTS_AT_ONCE);
        match self.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        for event in &events {
            let index = event.token().0;
            let Some(member) = self.members.get_mut(index) else { continue };
            let Some(link) = &mut member.link else { continue };
            let Crowd { scratch, counts, .. } = self;
            let awaits = &mut member.awaits;
            link.flush()
                .map_err(Into::into)
                .and_then(|()| link.receive(scratch, |frame| counts.take(awaits, frame)))
                .with_context(|| format!("client {index}"))?;
        }
        Ok(())
    }
}

impl Counts {
    fn take(&mut self, awaits: &mut Awaits, frame: &[u8]) -> Result<()> {
        let mut frame = Decoder::new(frame);
        if *awaits == Awaits::Session {
            frame.take(4 + 4)?;
            ensure!(frame.long()? != 0, "the server refused the session");
        } else {
            let xid = frame.int()?;
            frame.long()?;
            let err = frame.int()?;
            if xid == XID_EVENT {
                self.events += 1;
                self.event_at = Instant::now();
                return Ok(());
            }
            ensure!(*awaits == Awaits::Reply, "a reply without a request");
            ensure!(err == 0, "a request was answered with error code {err}");
        }
        *awaits = Awaits::Nothing;
        self.answered += 1;
        self.answered_at = Instant::now();
        Ok(())
    }
}

/// How many of them should have been started by now.
fn due(total: usize, elapsed: Duration, over: Duration) -> usize {
    if over.is_zero() {
        return total;
    }
    let part = elapsed.as_secs_f64() / over.as_secs_f64();
    ((total as f64 * part) as usize + 1).min(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_spread_over_its_time() {
        let second = Duration::from_secs(1);
        assert_eq!(due(100, Duration::ZERO, Duration::ZERO), 100);
        assert_eq!(due(100, Duration::ZERO, second), 1);
        assert_eq!(due(100, second / 2, second), 51);
        assert_eq!(due(100, second * 2, second), 100);
    }
}
