//! One znode with many children: the cost of a list, a create and a delete, and their effect on other
//! clients.

use std::time::Instant;

use anyhow::Result;

use super::busy::Busy;
use super::lab::{Lab, Meter, STAYING_MS};
use crate::bench::fill::{self, pipeline};
use crate::bench::lab::target_name;
use crate::bench::raw::{Measured, median};
use crate::server::{Program, Server};
use crate::wire::{Op, Session};

/// Total number of names in all lists.
const LISTED: usize = 3_000_000;
const LISTS_MAX: usize = 300;

const ROUNDS: usize = 5;

/// All sizes on one server, for one program. They alternate, so that disturbances of the machine affect all
/// of them.
pub fn measure(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    let target = target_name(program);
    let server = lab.start(program, "children")?;
    let sizes = lab.wanted(lab.sizes.children);
    for size in &sizes {
        fill::children(&server.address, &parent(*size), *size)?;
        // Java compiles frequently used code; the first round must not include that.
        cost(lab, &server, *size)?;
    }
    let mut rounds: Vec<Vec<Cost>> = sizes.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (size, rounds) in sizes.iter().zip(&mut rounds) {
            rounds.push(cost(lab, &server, *size)?);
        }
    }
    for (size, rounds) in sizes.into_iter().zip(&rounds) {
        let middle = |of: fn(&Cost) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
        let (list_us, create_us, delete_us) = (
            middle(|cost| cost.list_us),
            middle(|cost| cost.create_us),
            middle(|cost| cost.delete_us),
        );
        println!(
            "{target}: {size} children: CPU {list_us:.3} µs for each one listed, create {create_us:.1} µs, \
             delete {delete_us:.1} µs"
        );
        measured.plot("cpu_per_listed_us", target, size, list_us);
        measured.plot("cpu_per_create_us", target, size, create_us);
        measured.plot("cpu_per_delete_us", target, size, delete_us);
        beside(lab, program, &server, size, measured)?;
    }
    server.kill()
}

fn parent(size: usize) -> String {
    format!("/c{size}")
}

/// Microseconds of the server's processor time.
struct Cost {
    list_us: f64,
    create_us: f64,
    delete_us: f64,
}

fn cost(lab: &Lab, server: &Server, size: usize) -> Result<Cost> {
    let parent = parent(size);
    let mut session = Session::connect(&server.address, STAYING_MS)?;
    let lists = (LISTED / size).clamp(3, LISTS_MAX);
    let meter = Meter::start(server)?;
    for _ in 0..lists {
        session.ok(&Op::get_children(&parent))?;
    }
    let list_us = meter.read()?.cpu_us_each(lists * size);
    let meter = Meter::start(server)?;
    change(&mut session, &parent, lab.sizes.calls, |path| Op::create(path, Some(b"x"), 0))?;
    let create_us = meter.read()?.cpu_us_each(lab.sizes.calls);
    let meter = Meter::start(server)?;
    change(&mut session, &parent, lab.sizes.calls, |path| Op::delete(path, -1))?;
    let delete_us = meter.read()?.cpu_us_each(lab.sizes.calls);
    session.close()?;
    Ok(Cost { list_us, create_us, delete_us })
}

fn change(session: &mut Session, parent: &str, count: usize, op: fn(&str) -> Op) -> Result<()> {
    pipeline(session, 0, (0..count).map(|call| op(&format!("{parent}/extra-{call}"))))
}

/// Lists, creates and deletes, one after another, while other clients write.
fn beside(
    lab: &Lab,
    program: Program,
    server: &Server,
    size: usize,
    measured: &mut Measured,
) -> Result<()> {
    let (target, parent) = (target_name(program), parent(size));
    let busy = Busy::start(std::slice::from_ref(&server.address), lab.sizes.writers)?;
    let mut session = Session::connect(&server.address, STAYING_MS)?;
    let begun = Instant::now();
    std::thread::sleep(lab.sizes.quiet);
    let working = Instant::now();
    while working.elapsed() < lab.sizes.quiet {
        let path = format!("{parent}/one-more");
        session.ok(&Op::create(&path, Some(b"x"), 0))?;
        session.ok(&Op::get_children(&parent))?;
        session.ok(&Op::delete(&path, -1))?;
    }
    let ended = Instant::now();
    session.close()?;
    let record = busy.finish()?;
    record.ensure_whole()?;
    let (quiet, during) = (record.between(begun, working), record.between(working, ended));
    println!(
        "{target}: {size} children: p99 of the others' writes {:.1} ms before, {:.1} ms during, at most {:.1} ms",
        quiet.p99_ms, during.p99_ms, during.longest_ms
    );
    measured.plot("others_p99_before_ms", target, size, quiet.p99_ms);
    measured.plot("others_p99_during_ms", target, size, during.p99_ms);
    measured.plot("others_longest_during_ms", target, size, during.longest_ms);
    Ok(())
}
