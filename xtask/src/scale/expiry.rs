//! Half of all sessions, each with an ephemeral znode, expire at the same time: the effect on a thousand busy
//! clients.
//!
//! Each of those sessions requests the timeout that is left until the common time, and sends nothing from
//! then on, as after a network failure. As many of them stay connected as there are descriptors for; all
//! others, and the half that does not expire, have closed their connections.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::busy::Busy;
use super::crowd::Crowd;
use super::lab::{Lab, Meter, STAYING_MS, settled_bytes};
use crate::bench::lab::target_name;
use crate::bench::raw::Measured;
use crate::server::{Program, Server};
use crate::wire::{EPHEMERAL, Op, Session};

const PARENT: &str = "/ephemerals";
/// Sessions connected at the same time before they close their connections.
const BATCH: usize = 2000;
/// The time for opening: a constant, and an addition for each thousand sessions.
const OPENING_BASE: Duration = Duration::from_secs(10);
const OPENING_PER_THOUSAND: Duration = Duration::from_millis(800);
/// The tick, and delays of the machine.
const LATE_MAX: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A session ends at the next tick after its timeout; it may end at most this much earlier.
const EARLY: Duration = Duration::from_secs(1);

/// All sizes, for one program.
pub fn measure(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.wanted(lab.sizes.expiry) {
        one(lab, program, size, measured)?;
    }
    Ok(())
}

fn one(lab: &Lab, program: Program, size: usize, measured: &mut Measured) -> Result<()> {
    let (target, writers) = (target_name(program), lab.sizes.crowd_of_writers);
    let server = lab.start(program, "expiry")?;
    let mut looker = Session::connect(&server.address, STAYING_MS)?;
    looker.ok(&Op::create(PARENT, None, 0))?;
    let before = settled_bytes(&server)?;
    let thousands = u32::try_from(size / 1000)?;
    let end = Instant::now() + OPENING_BASE + OPENING_PER_THOUSAND * thousands + lab.sizes.quiet;
    let mut crowd = Crowd::new(&server.address)?;
    open(&mut crowd, size - size / 2, 0, None)?;
    let connected = (lab.connections_max - writers.connections - BATCH).min(size / 2);
    open(&mut crowd, size / 2, connected, Some(end))?;
    let bytes_each = (settled_bytes(&server)? - before) / size as f64;
    println!("{target}: {} of {} sessions to end are connected", connected, size / 2);
    let busy = Busy::start(std::slice::from_ref(&server.address), writers)?;
    let begun = Instant::now();
    let until = end.checked_duration_since(begun + EARLY).context("opening took too long")?;
    ensure!(until >= lab.sizes.quiet.min(until), "opening took too long");
    let meter = Meter::start(&server)?;
    std::thread::sleep(until);
    let usual = meter.read()?;
    ensure!(alive(&mut looker)? == size / 2, "sessions ended too early");
    let expired = Expired::watch(&server, &mut looker, size / 2)?;
    let record = busy.finish()?;
    record.ensure_whole()?;
    let quiet = record.between(begun, end - EARLY);
    let during = record.between(end - EARLY, expired.last + EARLY);
    let cpu_us = expired.used.without(&usual).cpu_us_each(size / 2);
    let took_ms = (expired.last - expired.first).as_secs_f64() * 1000.0;
    println!(
        "{target}: {} of {size} sessions ended within {took_ms:.0} ms, {cpu_us:.1} µs of CPU each; p99 of the others' \
         writes {:.1} ms before, {:.1} ms during, at most {:.1} ms",
        size / 2,
        quiet.p99_ms,
        during.p99_ms,
        during.longest_ms
    );
    measured.plot("bytes_per_session_without_connection", target, size, bytes_each);
    measured.plot("cpu_per_end_us", target, size, cpu_us);
    measured.plot("all_ended_after_ms", target, size, took_ms);
    measured.plot("others_p99_before_ms", target, size, quiet.p99_ms);
    measured.plot("others_p99_during_ms", target, size, during.p99_ms);
    measured.plot("others_longest_during_ms", target, size, during.longest_ms);
    server.kill()
}

/// Opens sessions, of which the last `connected` stay connected. Those with an end time get an ephemeral
/// znode each.
fn open(crowd: &mut Crowd, count: usize, connected: usize, end: Option<Instant>) -> Result<()> {
    let last = crowd.len() + count;
    while crowd.len() < last {
        let first = crowd.len();
        let some = BATCH.min(last - first);
        let timeout_ms = || match end {
            None => STAYING_MS,
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now()).as_millis();
                i32::try_from(left).unwrap_or(STAYING_MS)
            }
        };
        crowd.open(some, timeout_ms)?;
        let who = first..first + some;
        if end.is_some() {
            let create = |index| Op::create(&format!("{PARENT}/e{index}"), Some(b"x"), EPHEMERAL);
            crowd.ask(who.clone(), create)?;
        }
        crowd.disconnect(first..who.end.min(last - connected).max(first));
    }
    Ok(())
}

/// How the sessions ended.
struct Expired {
    first: Instant,
    last: Instant,
    used: super::lab::Used,
}

impl Expired {
    fn watch(server: &Server, looker: &mut Session, count: usize) -> Result<Expired> {
        let (meter, deadline) = (Meter::start(server)?, Instant::now() + LATE_MAX);
        let mut first = None;
        loop {
            let left = alive(looker)?;
            let now = Instant::now();
            if left < count {
                first.get_or_insert(now);
            }
            if let Some(first) = first
                && left == 0
            {
                return Ok(Expired { first, last: now, used: meter.read()? });
            }
            ensure!(now < deadline, "{left} of {count} sessions did not end");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// How many of the ephemeral znodes exist.
fn alive(looker: &mut Session) -> Result<usize> {
    let stat = looker.exists(PARENT)?.context("the ephemerals' parent does not exist")?;
    Ok(usize::try_from(stat.sizes[1])?)
}
