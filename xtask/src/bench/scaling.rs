//! How cost grows: reads with the size of the tree, lists of children with their length,
//! watches with their number.
//!
//! No snapshots are taken here, and where single requests are timed nothing is synced to disk: both would
//! hide the growth.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::fill;
use super::generator::{self, Echo, Load, Target, Znodes};
use super::lab::{Lab, PROGRAMS, spec, target, target_name};
use super::raw::{Measured, median};
use crate::server::{Jvm, Program, Server, Spec};
use crate::wire::{NO_NODE, Op, Session};

/// Java needs about half a gigabyte for a million znodes.
pub const LARGE_HEAP_MIB: u32 = 6000;
const CONNECTIONS: usize = 64;
const DEPTH: usize = 16;
const HOT_KEYS: usize = 1000;
const SESSION_TIMEOUT_MS: i32 = 40_000;
/// Untimed calls for each timed one.
const WARM_UP: usize = 20;
/// A list of children is requested until this time has passed, but at least this often.
const LISTING_MAX: Duration = Duration::from_secs(5);
const LISTINGS_MIN: usize = 3;

/// Reads per second over all znodes and over a few of them, in trees of several sizes.
pub fn znodes(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    for &size in lab.scale.trees {
        let servers = start_pair(lab)?;
        let targets = targets(&servers);
        targets.iter().try_for_each(|target| generator::fill(target, "/all", size))?;
        let all = Load {
            keys: size,
            root: "/all".into(),
            znodes: Znodes::Filled,
            echo: Echo::Beside,
            ..Load::new("get", CONNECTIONS, DEPTH, &lab.scale)
        };
        let hot = Load {
            keys: HOT_KEYS,
            root: "/hot".into(),
            znodes: Znodes::Own,
            echo: Echo::None,
            ..all.clone()
        };
        for (name, load) in [("all_keys_per_s", all), ("hot_keys_per_s", hot)] {
            for row in load.run(&targets, lab.work())?.rows {
                println!("{size} znodes, {name}, {}: {:.0}", row.target, row.rate());
                measured.plot(name, &row.target, size, row.rate());
            }
        }
    }
    Ok(measured)
}

/// The time of a getChildren, and of a create and a delete, in znodes with many children.
pub fn children(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    for program in PROGRAMS {
        let dir = lab.fresh("children")?.join("data");
        let server = without_disk(patient(spec(program, &dir))).start()?;
        let target = target_name(program);
        warm_up(&server, lab.scale.calls * WARM_UP)?;
        for &size in lab.scale.children {
            let parent = format!("/c{size}");
            fill::children(&server.address, &parent, size)?;
            let mut session = Session::connect(&server.address, SESSION_TIMEOUT_MS)?;
            let list_us = time_listing(&mut session, &parent, lab.scale.calls)?;
            let (create_us, delete_us) = time_changes(&mut session, &parent, lab.scale.calls)?;
            println!(
                "{}: {size} children: list {list_us:.0} µs, create {create_us:.0} µs, delete {delete_us:.0} µs",
                program.name()
            );
            measured.plot("list_us", target, size, list_us);
            measured.plot("create_us", target, size, create_us);
            measured.plot("delete_us", target, size, delete_us);
            session.close()?;
        }
        server.kill()?;
    }
    Ok(measured)
}

/// Java compiles frequently used code; the first sizes must not include that.
fn warm_up(server: &Server, calls: usize) -> Result<()> {
    let mut session = Session::connect(&server.address, SESSION_TIMEOUT_MS)?;
    session.ok(&Op::create("/warm", None, 0))?;
    for _ in 0..calls {
        time(&mut session, &Op::get_children("/warm"))?;
    }
    time_changes(&mut session, "/warm", calls)?;
    session.close()
}

fn time_listing(session: &mut Session, parent: &str, calls: usize) -> Result<f64> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.len() < LISTINGS_MIN || (times.len() < calls && begun.elapsed() < LISTING_MAX) {
        times.push(time(session, &Op::get_children(parent))?);
    }
    Ok(median(&times))
}

fn time_changes(session: &mut Session, parent: &str, calls: usize) -> Result<(f64, f64)> {
    let (mut creates, mut deletes) = (Vec::new(), Vec::new());
    for call in 0..calls {
        let path = format!("{parent}/extra-{call}");
        creates.push(time(session, &Op::create(&path, Some(b"x"), 0))?);
        deletes.push(time(session, &Op::delete(&path, -1))?);
    }
    Ok((median(&creates), median(&deletes)))
}

/// Microseconds from the request to the last byte of its reply.
fn time(session: &mut Session, op: &Op) -> Result<f64> {
    let begun = Instant::now();
    session.ok(op)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6)
}

/// The time to set many watches, and the time until many watchers are notified of one change.
pub fn watches(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    for program in PROGRAMS {
        let dir = lab.fresh("watches")?.join("data");
        let server = without_disk(patient(spec(program, &dir))).start()?;
        leave_watches(&server, lab.scale.calls * WARM_UP)?;
        for &count in lab.scale.watches {
            let took = leave_watches(&server, count)?;
            println!("{}: {count} watches set in {took:.1} ms", program.name());
            measured.plot("register_ms", target_name(program), count, took);
        }
        server.kill()?;
    }
    let servers = start_pair(lab)?;
    for &watchers in lab.scale.fan_outs {
        let load = Load::new("watch", watchers, 1, &lab.scale);
        for row in load.run(&targets(&servers), lab.work())?.rows {
            let took = row.median(|round| round.latency.p50_us) / 1000.0;
            println!("{}: {watchers} watchers notified in {took:.2} ms", row.target);
            measured.plot("fan_out_ms", &row.target, watchers, took);
        }
    }
    Ok(measured)
}

/// Milliseconds to set this many watches on znodes that do not exist.
fn leave_watches(server: &Server, count: usize) -> Result<f64> {
    let mut session = Session::connect(&server.address, SESSION_TIMEOUT_MS)?;
    let begun = Instant::now();
    let watch = |index| Op::exists(&format!("/{}", fill::name(index))).watched();
    fill::pipeline(&mut session, NO_NODE, (0..count).map(watch))?;
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    session.close()?;
    Ok(took)
}

fn start_pair(lab: &Lab) -> Result<Vec<(Program, Server)>> {
    let start = |program: Program| {
        let dir = lab.fresh(&format!("scaling-{}", program.name()))?.join("data");
        let server = patient(spec(program, &dir)).start();
        Ok((program, server.with_context(|| format!("starting {}", program.name()))?))
    };
    PROGRAMS.into_iter().map(start).collect()
}

fn targets(servers: &[(Program, Server)]) -> Vec<Target> {
    servers.iter().map(|(program, server)| target(*program, server)).collect()
}

/// Settings for millions of znodes, without snapshots.
fn patient(spec: Spec) -> Spec {
    let jvm = Jvm::Usual { heap_mib: LARGE_HEAP_MIB };
    let spec = spec.property("zookeeper.snapCount", "1000000000");
    Spec { jvm, ..spec.property("zookeeper.snapSizeLimitInKb", "-1") }
}

fn without_disk(spec: Spec) -> Spec {
    spec.property("zookeeper.forceSync", "no")
}
