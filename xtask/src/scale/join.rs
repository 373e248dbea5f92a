//! An empty server joins two others that have millions of znodes, under a constant load of writes:
//! whether it catches up, how long that takes, and the effect on the writers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::busy::{Busy, Shape, WriteLatencies};
use super::lab::{HEAP_MIB, Lab};
use crate::bench::generator::{self, Target};
use crate::bench::lab::{ensemble_settings, target_name};
use crate::bench::raw::Measured;
use crate::ensemble::{Ensemble, Member, Mode, Network, Role, Settings};
use crate::server::{Jvm, Program};

const SERVERS: usize = 3;
const ROOT: &str = "/filled";
/// Txns between two snapshots, unless there are more znodes.
const SNAP_COUNT_MIN: usize = 100_000;
/// The fraction of the requested writes that must be answered in time; otherwise the rate is reduced.
const SUSTAINED: f64 = 0.95;
const P50_MAX_MS: f64 = 50.0;
const PER_SECOND_MIN: u32 = 500;
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// A server with at most this lag has caught up.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// All sizes, for one program.
pub fn measure(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.wanted(lab.sizes.join) {
        one(lab, program, size, measured)?;
    }
    Ok(())
}

fn one(lab: &Lab, program: Program, size: usize, measured: &mut Measured) -> Result<()> {
    lab.ensure_room(size * SERVERS)?;
    let target = target_name(program);
    let mut ensemble = start(lab, program, size)?;
    let leader = ensemble.leader()?.context("no server leads")?;
    let joining = ensemble.ids().find(|id| *id != leader).context("there are three")?;
    let fill = Target { name: target, addresses: vec![ensemble.member(leader).address().into()] };
    generator::fill(&fill, ROOT, size)?;
    ensemble.member_mut(joining).stop()?;
    ensemble.member_mut(joining).wipe()?;
    let staying: Vec<String> = ensemble
        .ids()
        .filter(|id| *id != joining)
        .map(|id| ensemble.member(id).address().to_string())
        .collect();
    let (shape, quiet) = sustained(&staying, lab)?;
    let busy = Busy::start(&staying, shape)?;
    let begun = Instant::now();
    ensemble.member_mut(joining).launch()?;
    let joined = await_joined(&mut ensemble, leader, joining, lab.sizes.join_max)?;
    let ended = Instant::now();
    let joiner = ensemble.member(joining).server().context("the server that joined has ended")?;
    let peak_bytes = joiner.peak_resident_bytes()? as f64;
    let record = busy.finish()?;
    let during = record.between(begun, ended);
    let took_s = (ended - begun).as_secs_f64();
    println!(
        "{target}: {size} znodes, {:.0} writes a second: {} {took_s:.1} s; p99 of the writes {:.1} ms before, {:.1} ms \
         during, at most {:.1} ms; {} lost{}; it took {:.0} MB of memory at most",
        quiet.per_second,
        if joined { "joined in" } else { "did NOT catch up in" },
        quiet.p99_ms,
        during.p99_ms,
        during.longest_ms,
        record.lost,
        record.first_loss.as_deref().map(|why| format!(" ({why})")).unwrap_or_default(),
        peak_bytes / 1e6
    );
    measured.plot("asked_per_s", target, size, f64::from(shape.per_second));
    measured.plot("answered_per_s", target, size, during.per_second);
    measured.plot("did_not_catch_up", target, size, f64::from(u8::from(!joined)));
    measured.plot("caught_up_after_s", target, size, took_s);
    measured.plot("join_per_znode_us", target, size, took_s * 1e6 / size as f64);
    measured.plot("peak_bytes_per_znode", target, size, peak_bytes / size as f64);
    measured.plot("writes_lost", target, size, record.lost as f64);
    measured.plot("others_p99_before_ms", target, size, quiet.p99_ms);
    measured.plot("others_p99_during_ms", target, size, during.p99_ms);
    measured.plot("others_longest_during_ms", target, size, during.longest_ms);
    Ok(())
}

/// Rare snapshots: one for every 100,000 txns would cost more than everything else while the servers are
/// filled, and the disk would not hold them.
fn start(lab: &Lab, program: Program, size: usize) -> Result<Ensemble> {
    let jvm = Jvm::Usual { heap_mib: HEAP_MIB };
    let snap_count = size.max(SNAP_COUNT_MIN).to_string();
    let settings =
        Settings { jvm, ..ensemble_settings() }.property("zookeeper.snapCount", &snap_count);
    let servers = [(program, Role::Participant); SERVERS];
    let mut ensemble = Ensemble::new(&lab.fresh("join")?, &servers, &settings, Network::Loopback)?;
    ensemble.start_all()?;
    Ok(ensemble)
}

/// The requested rate of writes, or a half of it and so on: what two servers can sustain on this machine.
fn sustained(addresses: &[String], lab: &Lab) -> Result<(Shape, WriteLatencies)> {
    let mut shape = lab.sizes.join_writers;
    loop {
        let busy = Busy::start(addresses, shape)?;
        std::thread::sleep(lab.sizes.quiet / 2);
        let begun = Instant::now();
        std::thread::sleep(lab.sizes.quiet);
        let ended = Instant::now();
        let record = busy.finish()?;
        record.ensure_whole()?;
        let noticed = record.between(begun, ended);
        let WriteLatencies { per_second, p50_ms, p99_ms, .. } = noticed;
        println!(
            "  {} writes a second: {per_second:.0} answered, p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms",
            shape.per_second
        );
        let is_sustained = per_second >= f64::from(shape.per_second) * SUSTAINED;
        let is_last = shape.per_second / 2 < PER_SECOND_MIN;
        if is_last || (is_sustained && p50_ms <= P50_MAX_MS) {
            return Ok((shape, noticed));
        }
        shape.per_second /= 2;
    }
}

/// Whether the server serves and has all but the newest writes within this time.
fn await_joined(
    ensemble: &mut Ensemble,
    leader: usize,
    joining: usize,
    within: Duration,
) -> Result<bool> {
    let (begun, mut reported) = (Instant::now(), Instant::now());
    // The leader's zxid over time, oldest first.
    let mut led: Vec<(Instant, u64)> = Vec::new();
    while begun.elapsed() < within {
        std::thread::sleep(POLL_INTERVAL);
        ensemble.member_mut(joining).ensure_alive()?;
        led.extend(zxid(ensemble.member(leader)).map(|zxid| (Instant::now(), zxid)));
        let serves = ensemble.member(joining).mode() == Some(Mode::Follower);
        let own = if serves { zxid(ensemble.member(joining)) } else { None };
        let due = led.iter().rev().find(|(at, _)| at.elapsed() >= BEHIND_MAX);
        if let (Some(own), Some((_, due))) = (own, due)
            && own >= *due
        {
            return Ok(true);
        }
        if reported.elapsed() >= REPORT_EVERY {
            let newest = led.last().map_or(0, |(_, zxid)| *zxid);
            println!(
                "  {:.0} s: leader at {newest:#x}, joining server at {own:x?}",
                begun.elapsed().as_secs_f64()
            );
            reported = Instant::now();
        }
    }
    Ok(false)
}

/// The newest txn that a server has applied; `None` if it does not report it.
fn zxid(member: &Member) -> Option<u64> {
    let answer = member.word("srvr").ok()?;
    let text = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
    u64::from_str_radix(text.trim(), 16).ok()
}
