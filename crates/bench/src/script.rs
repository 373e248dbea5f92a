//! Work that is not measured: a list of requests, sent as fast as the server takes them.

use anyhow::{Result, bail};
use herdsman_proto::{ErrorCode, Request};

use crate::closed_loop::{Contents, Drive, Until};
use crate::dial::{close_lanes, open_lanes};
use crate::load::{Checked, Load, Outcome, Reply, Ticket};
use crate::parts::drive_all;
use crate::progress::Meter;
use crate::stop::Stop;
use crate::tally::LastReply;
use crate::target::Target;
use crate::template::append_frame;

/// Sixteen lanes of 60 stay below the 1,000 requests that Apache's server takes before it stops reading.
const LANES: usize = 16;
const DEPTH: usize = 60;

/// Drives a load until it is dry, on lanes of its own. The first wrong answer is a failure.
pub(crate) fn run_to_end<L: Load + Send>(
    target: &Target,
    load: L,
    meter: &Meter,
    stop: &Stop,
) -> Result<L> {
    let mut lanes = open_lanes(target, LANES)?;
    let last_reply = LastReply::at(std::time::Instant::now());
    let how = Drive {
        depth: DEPTH,
        until: Until::Dry,
        contents: Contents::Checked,
        last_reply: &last_reply,
        stop,
    };
    let (mut loads, tally) = drive_all(&mut lanes, vec![Metered { load, meter }], how)?;
    close_lanes(lanes);
    if let Some(words) = tally.first_error() {
        bail!("target {}: {words}", target.name());
    }
    match loads.pop() {
        Some(metered) => Ok(metered.load),
        None => bail!("the load went missing"),
    }
}

/// Tells the meter of every operation that is done.
struct Metered<'a, L> {
    load: L,
    meter: &'a Meter,
}

impl<L: Load> Load for Metered<'_, L> {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket> {
        self.load.next_request(lane, xid, out)
    }

    fn check_reply(&mut self, lane: usize, ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome> {
        let outcome = self.load.check_reply(lane, ticket, reply)?;
        if outcome == Outcome::Done {
            self.meter.add(1);
        }
        Ok(outcome)
    }

    fn next_woken(&mut self) -> Option<usize> {
        self.load.next_woken()
    }

    fn is_dry(&self) -> bool {
        self.load.is_dry()
    }
}

/// Requests for a list of paths, in any order.
pub(crate) struct Script<F> {
    paths: Vec<String>,
    next: usize,
    request: F,
    /// As good as done: the znode is there already, or gone already.
    tolerated: ErrorCode,
}

impl<F: for<'a> Fn(&'a str) -> Request<'a>> Script<F> {
    pub(crate) fn new(paths: Vec<String>, tolerated: ErrorCode, request: F) -> Self {
        Script { paths, next: 0, request, tolerated }
    }
}

impl<F: for<'a> Fn(&'a str) -> Request<'a>> Load for Script<F> {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket> {
        let index = self.next;
        let path = self.paths.get(index)?;
        self.next += 1;
        append_frame(xid, &(self.request)(path), out);
        Some(Ticket(index as u64))
    }

    fn check_reply(&mut self, _lane: usize, ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome> {
        if reply.error != self.tolerated.code() {
            reply.must_succeed().map_err(|wrong| wrong.during(&self.paths[ticket.0 as usize]))?;
        }
        Ok(Outcome::Done)
    }
}
