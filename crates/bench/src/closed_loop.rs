//! The engine: keeps `depth` requests in flight on every lane, until the window closes or the load is dry.
//!
//! One thread, one `epoll`, edge-triggered. For a lane that is ready there is one read, the replies are
//! judged where they lie, new requests are encoded into the lane's own buffer, and one write sends them.
//! The clock is read once for the replies of a read and once for the requests of a write.
//!
//! A lane whose connection breaks stays broken: what it had in flight counts as errors, the others go on.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use herdsman_proto::{JuteReader, WatchedEvent, Xid};
use mio::{Events, Interest, Poll, Token};

use crate::lane::{Frame, Input, Lane, Readable, broken};
use crate::load::{Checked, Load, Outcome, Reply, Wrong};
use crate::stop::Stop;
use crate::tally::{LastReply, Tally, Window};

/// How often the clock and Ctrl-C are looked at when nothing comes.
const IDLE: Duration = Duration::from_millis(50);
/// How long the last replies are waited for.
const DRAIN: Duration = Duration::from_secs(30);
const EVENTS_AT_ONCE: usize = 1024;

/// Until when requests are made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// Until the window closes; only what is answered inside it counts.
    Closed(Window),
    /// Until the load has no more. Everything counts.
    Dry,
}

/// Whether replies mean anything beyond their framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The load judges every one.
    Checked,
    /// The server only echoes.
    Ignored,
}

/// How a loop runs.
#[derive(Clone, Copy)]
pub(crate) struct Drive<'a> {
    pub(crate) depth: usize,
    pub(crate) until: Until,
    pub(crate) contents: Contents,
    pub(crate) last_reply: &'a LastReply,
    pub(crate) stop: &'a Stop,
}

/// Drives the lanes with the load, and counts. Lanes that broke are gone afterwards; the others have nothing
/// in flight, unless the server did not answer for a long time, in which case they are gone too.
pub(crate) fn drive<L: Load>(
    lanes: &mut Vec<Lane>,
    load: &mut L,
    how: Drive<'_>,
) -> io::Result<Tally> {
    let mut poll = Poll::new()?;
    let mut seats = Vec::with_capacity(lanes.len());
    for (index, mut lane) in lanes.drain(..).enumerate() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(lane.wire.socket_mut(), Token(index), interest)?;
        seats.push(Some(lane));
    }
    let mut engine = Engine {
        seats,
        load,
        how,
        tally: Tally::new(),
        input: Input::new(),
        phase: Phase::Asking,
        started: Instant::now(),
        measured: Duration::ZERO,
    };
    engine.run(&mut poll)?;
    let (seats, mut tally, measured) = (engine.seats, engine.tally, engine.measured);
    for mut lane in seats.into_iter().flatten() {
        poll.registry().deregister(lane.wire.socket_mut())?;
        lanes.push(lane);
    }
    tally.close(measured);
    Ok(tally)
}

/// What the loop does with lanes that could take requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are made.
    Asking,
    /// Only replies are awaited, until then.
    Draining(Instant),
}

struct Engine<'a, L> {
    /// Empty where a lane broke.
    seats: Vec<Option<Lane>>,
    load: &'a mut L,
    how: Drive<'a>,
    tally: Tally,
    input: Input,
    phase: Phase,
    started: Instant,
    measured: Duration,
}

impl<L: Load> Engine<'_, L> {
    fn run(&mut self, poll: &mut Poll) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_AT_ONCE);
        for index in 0..self.seats.len() {
            self.ask(index);
        }
        loop {
            self.ask_woken();
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
                self.ask(index);
            }
        }
    }

    /// Looks at the clock, Ctrl-C and the load: is it time to stop asking?
    fn advance(&mut self, now: Instant) {
        if self.phase != Phase::Asking {
            return;
        }
        let stopped = self.how.stop.is_asked() || self.seats.iter().all(Option::is_none);
        let is_idle = self.is_idle();
        let is_spent = is_idle && self.load.is_dry();
        match &mut self.how.until {
            Until::Closed(window) if stopped || now >= window.closes || is_spent => {
                // Nothing that comes later counts, also when it ends before its time.
                window.closes = now.min(window.closes);
                let Window { opens, closes } = *window;
                self.measured = closes.saturating_duration_since(opens);
                if closes > opens {
                    self.tally.note_reply(self.how.last_reply, closes);
                }
                self.phase = Phase::Draining(now + DRAIN);
            }
            Until::Dry if stopped || is_idle => {
                self.measured = now - self.started;
                self.phase = Phase::Draining(now + DRAIN);
            }
            _ => {}
        }
    }

    fn is_idle(&self) -> bool {
        self.seats.iter().flatten().all(|lane| lane.in_flight.is_empty())
    }

    fn is_done(&mut self, now: Instant) -> bool {
        let Phase::Draining(deadline) = self.phase else {
            return false;
        };
        if now >= deadline {
            for index in 0..self.seats.len() {
                if self.seats[index].as_ref().is_some_and(|lane| !lane.in_flight.is_empty()) {
                    self.give_up(index, &ErrorKind::TimedOut.into());
                }
            }
        }
        self.is_idle()
    }

    fn ask_woken(&mut self) {
        while self.phase == Phase::Asking
            && let Some(index) = self.load.next_woken()
        {
            self.ask(index);
        }
    }

    /// Fills a lane up and sends.
    fn ask(&mut self, index: usize) {
        let Some(lane) = self.seats.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if self.phase == Phase::Asking {
            let load = &mut *self.load;
            lane.fill_up(self.how.depth, |xid, out| load.next_request(index, xid, out));
        }
        if let Err(error) = lane.flush() {
            self.give_up(index, &error);
        }
    }

    /// Takes what a lane has received.
    fn receive(&mut self, index: usize) {
        let Some(mut lane) = self.seats.get_mut(index).and_then(Option::take) else {
            return;
        };
        let result = self.receive_from(index, &mut lane);
        self.seats[index] = Some(lane);
        if let Err(error) = result {
            self.give_up(index, &error);
        }
    }

    fn receive_from(&mut self, index: usize, lane: &mut Lane) -> io::Result<()> {
        let Engine { load, how, tally, input, .. } = self;
        loop {
            let mut batch = None;
            let mut take = |lane: &mut Lane, frame: Frame<'_>| {
                let batch = batch.get_or_insert_with(|| Batch::begin(how, tally));
                batch.take(*load, tally, how.contents, index, lane, frame)
            };
            if lane.read_frames(input, &mut take)? == Readable::Emptied {
                return Ok(());
            }
        }
    }

    /// A lane that broke: what it had in flight will not be answered.
    fn give_up(&mut self, index: usize, error: &io::Error) {
        let Some(lane) = self.seats[index].take() else {
            return;
        };
        let lost = lane.in_flight.len().max(1) as u64;
        self.tally.fail(lost, || match error.kind() {
            ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            ErrorKind::TimedOut => format!("no reply in {} s", DRAIN.as_secs()),
            ErrorKind::InvalidData => error.to_string(),
            _ => format!("the connection broke: {error}"),
        });
    }
}

/// The replies of one read: they share a moment.
struct Batch {
    arrived: Instant,
    counts: bool,
}

impl Batch {
    fn begin(how: &Drive<'_>, tally: &mut Tally) -> Self {
        let arrived = Instant::now();
        let counts = match how.until {
            Until::Closed(window) => window.is_open(arrived),
            Until::Dry => true,
        };
        if counts {
            tally.note_reply(how.last_reply, arrived);
        }
        Batch { arrived, counts }
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
            return Err(broken(format!("a reply with xid {}, which was not its turn", frame.xid)));
        };
        let outcome = match contents {
            Contents::Ignored => Ok(Outcome::Done),
            Contents::Checked => zxid_grows(lane, frame.zxid).and_then(|()| {
                let reply = Reply { error: frame.error, body: frame.body };
                load.check_reply(index, sent.ticket, &reply)
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
            Err(wrong) => return tally.fail(1, || wrong.into_words()),
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

/// What a server has shown to a client it must not take back.
fn zxid_grows(lane: &mut Lane, zxid: i64) -> Checked<()> {
    if zxid < lane.newest_zxid {
        let newest = lane.newest_zxid;
        return Err(Wrong::new(format!(
            "the server's zxid went back from 0x{newest:x} to 0x{zxid:x}"
        )));
    }
    lane.newest_zxid = zxid;
    Ok(())
}

#[cfg(test)]
mod tests;
