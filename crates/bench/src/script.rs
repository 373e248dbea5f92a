//! Work that is not measured: a list of requests, sent as fast as the server accepts them.

use anyhow::{Result, bail};
use herdsman_proto::{ErrorCode, Request};

use crate::closed_loop::{Contents, DriveOptions, Until};
use crate::dial::{close_lanes, open_lanes};
use crate::load::{Checked, Load, Outcome, Reply, RequestTag};
use crate::progress::Meter;
use crate::stop::Stop;
use crate::tally::LastReply;
use crate::target::Target;
use crate::template::append_frame;
use crate::threads::drive_all;

/// Sixteen lanes of 60 requests stay below the 1,000 requests after which Apache's server stops reading.
const LANES: usize = 16;
const DEPTH: usize = 60;

/// Drives a load until it is exhausted, on its own lanes. Fails on the first wrong reply.
pub(crate) fn run_to_end<L: Load + Send>(
    target: &Target,
    load: L,
    meter: &Meter,
    stop: &Stop,
) -> Result<L> {
    let mut lanes = open_lanes(target, LANES)?;
    let last_reply = LastReply::at(std::time::Instant::now());
    let options = DriveOptions {
        depth: DEPTH,
        until: Until::Exhausted,
        contents: Contents::Checked,
        last_reply: &last_reply,
        stop,
    };
    let (mut loads, tally) = drive_all(&mut lanes, vec![Metered { load, meter }], options)?;
    close_lanes(lanes);
    if let Some(words) = tally.first_error() {
        bail!("target {}: {words}", target.name());
    }
    match loads.pop() {
        Some(metered) => Ok(metered.load),
        None => bail!("the load was lost"),
    }
}

/// Updates the meter after every operation.
struct Metered<'a, L> {
    load: L,
    meter: &'a Meter,
}

impl<L: Load> Load for Metered<'_, L> {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        self.load.next_request(lane, xid, out)
    }

    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        let outcome = self.load.check_reply(lane, tag, reply)?;
        if outcome == Outcome::Done {
            self.meter.add(1);
        }
        Ok(outcome)
    }

    fn next_woken(&mut self) -> Option<usize> {
        self.load.next_woken()
    }

    fn is_exhausted(&self) -> bool {
        self.load.is_exhausted()
    }
}

/// Requests for a list of paths, in any order.
pub(crate) struct Script<F> {
    paths: Vec<String>,
    next: usize,
    request: F,
    /// An error that counts as success: the znode exists already, or is deleted already.
    tolerated: ErrorCode,
}

impl<F: for<'a> Fn(&'a str) -> Request<'a>> Script<F> {
    pub(crate) fn new(paths: Vec<String>, tolerated: ErrorCode, request: F) -> Self {
        Script { paths, next: 0, request, tolerated }
    }
}

impl<F: for<'a> Fn(&'a str) -> Request<'a>> Load for Script<F> {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let index = self.next;
        let path = self.paths.get(index)?;
        self.next += 1;
        append_frame(xid, &(self.request)(path), out);
        Some(RequestTag(index as u64))
    }

    fn check_reply(
        &mut self,
        _lane: usize,
        tag: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        if reply.error != self.tolerated.code() {
            reply.must_succeed().map_err(|wrong| wrong.during(&self.paths[tag.0 as usize]))?;
        }
        Ok(Outcome::Done)
    }
}
