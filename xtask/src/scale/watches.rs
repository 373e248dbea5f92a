//! Many watches of one session: the cost of setting, keeping, firing and removing one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::busy::Busy;
use super::lab::{Lab, Meter, STAYING_MS, settled_bytes};
use crate::bench::fill::pipeline;
use crate::bench::lab::target_name;
use crate::bench::raw::Measured;
use crate::server::{Program, Server};
use crate::wire::{NO_NODE, Op, Session};

/// Watches that fire, one change each.
const FIRED_MAX: usize = 10_000;
const REMOVED_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// All numbers of watches, for one program.
pub fn measure(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.wanted(lab.sizes.watches) {
        one(lab, program, size, measured)?;
    }
    Ok(())
}

fn one(lab: &Lab, program: Program, size: usize, measured: &mut Measured) -> Result<()> {
    let target = target_name(program);
    let server = lab.start(program, "watches")?;
    let mut watcher = Session::connect(&server.address, STAYING_MS)?;
    let before = settled_bytes(&server)?;
    let meter = Meter::start(&server)?;
    pipeline(&mut watcher, NO_NODE, (0..size).map(|index| Op::exists(&path(index)).watched()))?;
    let leave = meter.read()?.cpu_us_each(size);
    let bytes_each = (settled_bytes(&server)? - before) / size as f64;

    let mut writer = Session::connect(&server.address, STAYING_MS)?;
    let fired = FIRED_MAX.min(size / 2);
    let meter = Meter::start(&server)?;
    pipeline(&mut writer, 0, (0..fired).map(|index| Op::create(&path(index), None, 0)))?;
    (0..fired).try_for_each(|_| watcher.next_event().map(drop))?;
    let fire = meter.read()?.cpu_us_each(fired);

    let busy = Busy::start(std::slice::from_ref(&server.address), lab.sizes.writers)?;
    let begun = Instant::now();
    let meter = Meter::start(&server)?;
    std::thread::sleep(lab.sizes.quiet);
    let (usual, closing) = (meter.read()?, Instant::now());
    let meter = Meter::start(&server)?;
    watcher.close()?;
    let took_ms = closing.elapsed().as_secs_f64() * 1000.0;
    await_none(&server)?;
    let remove = meter.read()?.without(&usual).cpu_us_each(size - fired);
    std::thread::sleep(lab.sizes.quiet);
    let ended = Instant::now();
    let record = busy.finish()?;
    record.ensure_whole()?;
    let (quiet, during) = (record.between(begun, closing), record.between(closing, ended));
    println!(
        "{target}: {size} watches: CPU to set {leave:.2} µs, to fire {fire:.1} µs, to remove {remove:.2} µs; \
         {bytes_each:.0} bytes; closed in {took_ms:.1} ms; p99 of the others' writes {:.1} ms before, {:.1} ms \
         during, at most {:.1} ms",
        quiet.p99_ms, during.p99_ms, during.longest_ms
    );
    measured.plot("cpu_to_watch_us", target, size, leave);
    measured.plot("bytes_per_watch", target, size, bytes_each);
    measured.plot("cpu_to_fire_us", target, size, fire);
    measured.plot("cpu_to_remove_us", target, size, remove);
    measured.plot("closed_after_ms", target, size, took_ms);
    measured.plot("others_p99_before_ms", target, size, quiet.p99_ms);
    measured.plot("others_p99_during_ms", target, size, during.p99_ms);
    measured.plot("others_longest_during_ms", target, size, during.longest_ms);
    server.kill()
}

/// A server may reply first and remove the watches later.
fn await_none(server: &Server) -> Result<()> {
    let deadline = Instant::now() + REMOVED_MAX;
    while !server.four_letters("wchs")?.contains("Total watches:0") {
        ensure!(Instant::now() < deadline, "watches of a session that has ended still exist");
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn path(index: usize) -> String {
    format!("/n{index:07}")
}
