//! Many sessions watch one znode, its children, or a subtree: the cost of one change for each of them, and
//! the effect on other clients.

use std::time::Instant;

use anyhow::Result;

use super::busy::Busy;
use super::crowd::Crowd;
use super::lab::{Lab, Meter, STAYING_MS, Used};
use crate::bench::lab::target_name;
use crate::bench::raw::{Measured, median};
use crate::server::{Program, Server};
use crate::wire::{Op, Session};

const PARENT: &str = "/watched";
/// A change is repeated until about this many watchers have been notified.
const NOTIFIED_MIN: usize = 30_000;
const ROUNDS_MIN: usize = 3;

/// One-shot watches of a znode's data and of its children, for all numbers of watchers.
pub fn one_shot(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.connectable(lab.sizes.watchers, lab.sizes.writers.connections) {
        let server = lab.start(program, "watchers")?;
        let mut scene = Scene::set(&server, size)?;
        let data = Kind {
            watch: Some(Op::get_data(PARENT).watched()),
            change: &|_| Op::set_data(PARENT, Some(b"new"), -1),
        };
        let children = Kind {
            watch: Some(Op::get_children(PARENT).watched()),
            change: &|round| Op::create(&format!("{PARENT}/c{round}"), None, 0),
        };
        scene.warm_up(&[&data, &children])?;
        let leave = scene.leave(&data)?;
        scene.fire(&data)?;
        let data_fired = scene.repeat(&data)?;
        let children_fired = scene.repeat(&children)?;
        println!("{}: {size} watchers: setting a watch costs {leave:.2} µs", target_name(program));
        measured.plot("cpu_to_watch_us", target_name(program), size, leave);
        note(measured, program, size, "data", &data_fired);
        note(measured, program, size, "children", &children_fired);
        scene.beside(lab, program, &[&data, &children], measured)?;
        server.kill()?;
    }
    Ok(())
}

/// Persistent recursive watches of one path, for all numbers of watchers.
pub fn recursive(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.connectable(lab.sizes.recursive, lab.sizes.writers.connections) {
        let server = lab.start(program, "recursive")?;
        let mut scene = Scene::set(&server, size)?;
        let meter = Meter::start(&server)?;
        scene.crowd.ask(0..size, |_| Op::AddWatch { path: PARENT.into() })?;
        let leave = meter.read()?.cpu_us_each(size);
        measured.plot("cpu_to_watch_us", target_name(program), size, leave);
        let kind = Kind {
            watch: None,
            change: &|round| Op::create(&format!("{PARENT}/c{round}"), None, 0),
        };
        let fired = scene.repeat(&kind)?;
        note(measured, program, size, "subtree", &fired);
        scene.beside(lab, program, &[&kind], measured)?;
        server.kill()?;
    }
    Ok(())
}

/// How to watch, and what makes the watches fire.
struct Kind<'a> {
    /// Sent by every watcher before each change; `None` if the watches stay.
    watch: Option<Op>,
    change: &'a dyn Fn(usize) -> Op,
}

/// The watchers, and the client that makes changes.
struct Scene<'a> {
    server: &'a Server,
    crowd: Crowd,
    writer: Session,
    /// Changes so far.
    round: usize,
}

/// The cost of each round for each watcher.
struct Fired {
    cpu_us: f64,
    wall_us: f64,
}

impl<'a> Scene<'a> {
    fn set(server: &'a Server, size: usize) -> Result<Scene<'a>> {
        let mut writer = Session::connect(&server.address, STAYING_MS)?;
        writer.ok(&Op::create(PARENT, Some(b"old"), 0))?;
        let mut crowd = Crowd::new(&server.address)?;
        crowd.open(size, || STAYING_MS)?;
        Ok(Scene { server, crowd, writer, round: 0 })
    }

    /// Java compiles frequently used code; the first sizes must not include that.
    fn warm_up(&mut self, kinds: &[&Kind]) -> Result<()> {
        for kind in kinds {
            self.leave(kind)?;
            self.fire(kind)?;
        }
        Ok(())
    }

    /// All watch; returns the server's microseconds for each.
    fn leave(&mut self, kind: &Kind) -> Result<f64> {
        let meter = Meter::start(self.server)?;
        if let Some(watch) = &kind.watch {
            self.crowd.ask(0..self.crowd.len(), |_| watch.clone())?;
        }
        Ok(meter.read()?.cpu_us_each(self.crowd.len()))
    }

    /// One change, until the last watcher has been notified.
    fn fire(&mut self, kind: &Kind) -> Result<Used> {
        self.crowd.forget_events();
        let meter = Meter::start(self.server)?;
        let begun = Instant::now();
        self.round += 1;
        self.writer.ok(&(kind.change)(self.round))?;
        let last = self.crowd.await_events(self.crowd.len())?;
        Ok(Used { wall_s: (last - begun).as_secs_f64(), ..meter.read()? })
    }

    fn rounds(&self) -> usize {
        (NOTIFIED_MIN / self.crowd.len()).max(ROUNDS_MIN)
    }

    fn repeat(&mut self, kind: &Kind) -> Result<Fired> {
        let (mut cpu, mut wall) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds() {
            self.leave(kind)?;
            let used = self.fire(kind)?;
            cpu.push(used.cpu_us_each(self.crowd.len()));
            wall.push(used.wall_us_each(self.crowd.len()));
        }
        Ok(Fired { cpu_us: median(&cpu), wall_us: median(&wall) })
    }

    /// The same while other clients write.
    fn beside(
        &mut self,
        lab: &Lab,
        program: Program,
        kinds: &[&Kind],
        measured: &mut Measured,
    ) -> Result<()> {
        let (target, size) = (target_name(program), self.crowd.len());
        let address = std::slice::from_ref(&self.server.address);
        let busy = Busy::start(address, lab.sizes.writers)?;
        let begun = Instant::now();
        std::thread::sleep(lab.sizes.quiet);
        let fired = Instant::now();
        while fired.elapsed() < lab.sizes.quiet {
            for kind in kinds {
                self.leave(kind)?;
                self.fire(kind)?;
            }
        }
        let ended = Instant::now();
        let record = busy.finish()?;
        record.ensure_whole()?;
        let (quiet, during) = (record.between(begun, fired), record.between(fired, ended));
        println!(
            "{target}: {size} watchers: p99 of the others' writes {:.1} ms before, {:.1} ms during, at most {:.1} ms",
            quiet.p99_ms, during.p99_ms, during.longest_ms
        );
        measured.plot("others_p99_before_ms", target, size, quiet.p99_ms);
        measured.plot("others_p99_during_ms", target, size, during.p99_ms);
        measured.plot("others_longest_during_ms", target, size, during.longest_ms);
        Ok(())
    }
}

fn note(measured: &mut Measured, program: Program, size: usize, kind: &str, fired: &Fired) {
    let target = target_name(program);
    let Fired { cpu_us, wall_us } = fired;
    println!("{target}: {size} watchers ({kind}): CPU {cpu_us:.2} µs, time {wall_us:.2} µs each");
    measured.plot(&format!("{kind}_cpu_per_watcher_us"), target, size, *cpu_us);
    measured.plot(&format!("{kind}_time_per_watcher_us"), target, size, *wall_us);
}
