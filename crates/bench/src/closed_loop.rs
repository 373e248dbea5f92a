//! The engine: keeps `depth` requests in flight on every lane (a connection with its session), until the window
//! closes or the load is exhausted.
//!
//! One thread, one `epoll`, edge-triggered. For a lane that is ready there is one read, the replies are
//! checked in the receive buffer, new requests are encoded into the lane's own buffer, and one write sends
//! them. The clock is read once for the replies of a read and once for the requests of a write.
//!
//! A lane whose connection is lost is not reconnected: its requests in flight count as errors, and the other
//! lanes continue.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use herdsman_proto::{JuteReader, WatchedEvent, Xid};
use mio::{Events, Interest, Poll, Token};

use crate::lane::{Frame, Input, Lane, Readable, broken};
use crate::load::{Checked, Load, Outcome, Reply, WrongReply};
use crate::stop::Stop;
use crate::tally::{LastReply, Tally, Window};

/// How often the clock and Ctrl-C are checked when no event arrives.
const IDLE: Duration = Duration::from_millis(50);
/// How long to wait for the last replies.
const DRAIN: Duration = Duration::from_secs(30);
const EVENTS_AT_ONCE: usize = 1024;

/// Until when requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// Until the window closes; only replies within it count.
    Closed(Window),
    /// Until the load has no more requests. Everything counts.
    Exhausted,
}

/// Whether the contents of replies are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The load checks every reply.
    Checked,
    /// Only the framing is checked, for the echo server.
    Ignored,
}

/// The options of a loop.
#[derive(Clone, Copy)]
pub(crate) struct DriveOptions<'a> {
    pub(crate) depth: usize,
    pub(crate) until: Until,
    pub(crate) contents: Contents,
    pub(crate) last_reply: &'a LastReply,
    pub(crate) stop: &'a Stop,
}

/// Drives the lanes with the load, and counts. Afterwards `lanes` contains those that still work and have nothing
/// in flight; lanes on which the server did not reply for a long time are removed, too.
pub(crate) fn drive<L: Load>(
    lanes: &mut Vec<Lane>,
    load: &mut L,
    options: DriveOptions<'_>,
) -> io::Result<Tally> {
    let mut poll = Poll::new()?;
    let mut registered = Vec::with_capacity(lanes.len());
    for (index, mut lane) in lanes.drain(..).enumerate() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(lane.wire.socket_mut(), Token(index), interest)?;
        registered.push(Some(lane));
    }
    let mut engine = Engine {
        lanes: registered,
        load,
        options,
        tally: Tally::new(),
        input: Input::new(),
        phase: Phase::Sending,
        started: Instant::now(),
        measured: Duration::ZERO,
    };
    engine.run(&mut poll)?;
    let (registered, mut tally, measured) = (engine.lanes, engine.tally, engine.measured);
    for mut lane in registered.into_iter().flatten() {
        poll.registry().deregister(lane.wire.socket_mut())?;
        lanes.push(lane);
    }
    tally.close(measured);
    Ok(tally)
}

/// Whether the loop still sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are sent.
    Sending,
    /// The loop only waits for replies, until this moment.
    Draining(Instant),
}

struct Engine<'a, L> {
    /// `None` where a lane has failed.
    lanes: Vec<Option<Lane>>,
    load: &'a mut L,
    options: DriveOptions<'a>,
    tally: Tally,
    input: Input,
    phase: Phase,
    started: Instant,
    measured: Duration,
}

impl<L: Load> Engine<'_, L> {
    fn run(&mut self, poll: &mut Poll) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_AT_ONCE);
        for index in 0..self.lanes.len() {
            self.send(index);
        }
        loop {
            self.send_woken();
            let now = Instant::now();
            self.advance(now);
            if self.is_done(now) {
                return Ok(());
            }
            match poll.poll(&mut events, Some(IDLE)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                let index = event.token().0;
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.receive(index);
                }
                self.send(index);
            }
        }
    }

    /// Checks the clock, Ctrl-C and the load, and stops sending when it is time.
    fn advance(&mut self, now: Instant) {
        if self.phase != Phase::Sending {
            return;
        }
        let stopped = self.options.stop.is_requested() || self.lanes.iter().all(Option::is_none);
        let is_idle = self.is_idle();
        let is_spent = is_idle && self.load.is_exhausted();
        match &mut self.options.until {
            Until::Closed(window) if stopped || now >= window.closes || is_spent => {
                // Later replies do not count, even if the window ends early.
                window.closes = now.min(window.closes);
                let Window { opens, closes } = *window;
                self.measured = closes.saturating_duration_since(opens);
                if closes > opens {
                    self.tally.note_reply(self.options.last_reply, closes);
                }
                self.phase = Phase::Draining(now + DRAIN);
            }
            Until::Exhausted if stopped || is_idle => {
                self.measured = now - self.started;
                self.phase = Phase::Draining(now + DRAIN);
            }
            _ => {}
        }
    }

    fn is_idle(&self) -> bool {
        self.lanes.iter().flatten().all(|lane| lane.in_flight.is_empty())
    }

    fn is_done(&mut self, now: Instant) -> bool {
        let Phase::Draining(deadline) = self.phase else {
            return false;
        };
        if now >= deadline {
            for index in 0..self.lanes.len() {
                if self.lanes[index].as_ref().is_some_and(|lane| !lane.in_flight.is_empty()) {
                    self.give_up(index, &ErrorKind::TimedOut.into());
                }
            }
        }
        self.is_idle()
    }

    fn send_woken(&mut self) {
        while self.phase == Phase::Sending
            && let Some(index) = self.load.next_woken()
        {
            self.send(index);
        }
    }

    /// Fills a lane with requests and sends them.
    fn send(&mut self, index: usize) {
        let Some(lane) = self.lanes.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if self.phase == Phase::Sending {
            let load = &mut *self.load;
            lane.fill_up(self.options.depth, |xid, out| load.next_request(index, xid, out));
        }
        if let Err(error) = lane.flush() {
            self.give_up(index, &error);
        }
    }

    /// Handles what a lane has received.
    fn receive(&mut self, index: usize) {
        let Some(mut lane) = self.lanes.get_mut(index).and_then(Option::take) else {
            return;
        };
        let result = self.receive_from(index, &mut lane);
        self.lanes[index] = Some(lane);
        if let Err(error) = result {
            self.give_up(index, &error);
        }
    }

    fn receive_from(&mut self, index: usize, lane: &mut Lane) -> io::Result<()> {
        let Engine { load, options, tally, input, .. } = self;
        loop {
            let mut batch = None;
            let mut take = |lane: &mut Lane, frame: Frame<'_>| {
                let batch = batch.get_or_insert_with(|| ReplyBatch::begin(options, tally));
                batch.take(*load, tally, options.contents, index, lane, frame)
            };
            if lane.read_frames(input, &mut take)? == Readable::Emptied {
                return Ok(());
            }
        }
    }

    /// Removes a lane that has failed; its requests in flight count as errors.
    fn give_up(&mut self, index: usize, error: &io::Error) {
        let Some(lane) = self.lanes[index].take() else {
            return;
        };
        let lost = lane.in_flight.len().max(1) as u64;
        self.tally.fail(lost, || match error.kind() {
            ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            ErrorKind::TimedOut => format!("no reply in {} s", DRAIN.as_secs()),
            ErrorKind::InvalidData => error.to_string(),
            _ => format!("the connection was lost: {error}"),
        });
    }
}

/// The replies of one read, which have the same arrival time.
struct ReplyBatch {
    arrived: Instant,
    counts: bool,
}

impl ReplyBatch {
    fn begin(options: &DriveOptions<'_>, tally: &mut Tally) -> Self {
        let arrived = Instant::now();
        let counts = match options.until {
            Until::Closed(window) => window.is_open(arrived),
            Until::Exhausted => true,
        };
        if counts {
            tally.note_reply(options.last_reply, arrived);
        }
        ReplyBatch { arrived, counts }
    }

    fn take<L: Load>(
        &self,
        load: &mut L,
        tally: &mut Tally,
        contents: Contents,
        index: usize,
        lane: &mut Lane,
        frame: Frame<'_>,
    ) -> io::Result<()> {
        if frame.xid == Xid::NOTIFICATION.0 {
            let outcome = take_event(load, index, frame);
            self.count(tally, outcome, self.arrived);
            return Ok(());
        }
        let sent = lane.in_flight.pop_front().filter(|sent| sent.xid == frame.xid);
        let Some(sent) = sent else {
            return Err(broken(format!("reply out of order: xid {}", frame.xid)));
        };
        let outcome = match contents {
            Contents::Ignored => Ok(Outcome::Done),
            Contents::Checked => zxid_grows(lane, frame.zxid).and_then(|()| {
                let reply = Reply { error: frame.error, body: frame.body };
                load.check_reply(index, sent.tag, &reply)
            }),
        };
        self.count(tally, outcome, sent.at);
        Ok(())
    }

    fn count(&self, tally: &mut Tally, outcome: Checked<Outcome>, sent_at: Instant) {
        let since = match outcome {
            Ok(Outcome::Done) => sent_at,
            Ok(Outcome::DoneSince(since)) => since,
            Ok(Outcome::Step) => return,
            Err(wrong) => return tally.fail(1, || wrong.into_message()),
        };
        if self.counts {
            tally.record(self.arrived.saturating_duration_since(since));
        }
    }
}

fn take_event<L: Load>(load: &mut L, index: usize, frame: Frame<'_>) -> Checked<Outcome> {
    let (kind, path) = WatchedEvent::decode(&mut JuteReader::new(frame.body))?;
    load.take_event(index, kind, &path)
}

/// Checks that the zxids of a connection do not decrease.
fn zxid_grows(lane: &mut Lane, zxid: i64) -> Checked<()> {
    if zxid < lane.newest_zxid {
        let newest = lane.newest_zxid;
        return Err(WrongReply::new(format!(
            "the server's zxid decreased from 0x{newest:x} to 0x{zxid:x}"
        )));
    }
    lane.newest_zxid = zxid;
    Ok(())
}

#[cfg(test)]
mod tests;
