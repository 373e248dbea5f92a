//! The list of parts: what can be measured, each by its name.

use anyhow::{Result, ensure};

use super::generator::{self, Echo, Load};
use super::lab::{Lab, Size};
use super::raw::Measured;
use super::{idle, million, outage, scaling};

/// A measurement.
pub struct Part {
    /// Its name on the command line, in file names and in the notes.
    pub name: &'static str,
    /// What it measures, for `--list`.
    pub about: &'static str,
    how: How,
}

enum How {
    /// Runs the load generator against both programs, side by side.
    Load(Shape),
    /// A function that measures it.
    Own(fn(&mut Lab) -> Result<Measured>),
}

#[derive(Clone, Copy)]
struct Shape {
    workload: &'static str,
    connections: Connections,
    depth: usize,
    size: Size,
    disk: Disk,
}

#[derive(Clone, Copy)]
enum Connections {
    Exactly(usize),
    /// As many connections as there are watchers.
    Watchers,
}

/// Whether the disk is measured before and after.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    Measured,
    NotMeasured,
}

impl Part {
    /// Runs the measurement.
    pub fn measure(&self, lab: &mut Lab) -> Result<Measured> {
        match self.how {
            How::Load(shape) => shape.measure(lab),
            How::Own(measure) => {
                // Idle servers still take memory and some CPU time.
                lab.stop();
                measure(lab)
            }
        }
    }
}

impl Shape {
    fn measure(self, lab: &mut Lab) -> Result<Measured> {
        let targets = lab.side_by_side(self.size)?;
        let mut measured = Measured::default();
        if self.disk == Disk::Measured {
            measured.disks.push(generator::disk_limit(lab.work(), &lab.scale)?);
        }
        let connections = match self.connections {
            Connections::Exactly(count) => count,
            Connections::Watchers => lab.scale.watchers,
        };
        let mut load = Load::new(self.workload, connections, self.depth, &lab.scale);
        if self.size == Size::One && self.workload != "watch" {
            load.echo = Echo::Beside;
        }
        measured.report = Some(load.run(&targets, lab.work())?);
        if self.disk == Disk::Measured {
            measured.disks.push(generator::disk_limit(lab.work(), &lab.scale)?);
        }
        Ok(measured)
    }
}

const fn load(
    name: &'static str,
    about: &'static str,
    workload: &'static str,
    connections: usize,
    depth: usize,
) -> Part {
    let connections = Connections::Exactly(connections);
    let size = Size::One;
    let shape = Shape { workload, connections, depth, size, disk: Disk::NotMeasured };
    Part { name, about, how: How::Load(shape) }
}

const fn own(
    name: &'static str,
    about: &'static str,
    measure: fn(&mut Lab) -> Result<Measured>,
) -> Part {
    Part { name, about, how: How::Own(measure) }
}

impl Part {
    const fn with_disk(mut self) -> Part {
        if let How::Load(shape) = &mut self.how {
            shape.disk = Disk::Measured;
        }
        self
    }

    const fn with_three_servers(mut self) -> Part {
        if let How::Load(shape) = &mut self.how {
            shape.size = Size::Three;
        }
        self
    }

    const fn with_watchers(mut self) -> Part {
        if let How::Load(shape) = &mut self.how {
            shape.connections = Connections::Watchers;
        }
        self
    }
}

/// In the order in which they run and appear in the document.
pub const PARTS: &[Part] = &[
    load("get-64x1", "reads, 64 connections, one at a time each", "get", 64, 1),
    load("get-64x16", "reads, 64 connections, 16 in flight each", "get", 64, 16),
    load("get-1x1", "the time of one read", "get", 1, 1),
    load("set-64x1", "writes, 64 connections, one at a time each", "set", 64, 1).with_disk(),
    load("set-64x16", "writes, 64 connections, 16 in flight each", "set", 64, 16).with_disk(),
    load("set-1x1", "the time of one write", "set", 1, 1).with_disk(),
    load("mixed-64x16", "9 reads to a write, 64 connections, 16 in flight each", "mixed", 64, 16),
    load("watch", "from a change until its last watcher has been notified", "watch", 0, 1)
        .with_watchers(),
    load("sessions", "new sessions, one after another", "session", 1, 1).with_disk(),
    load("three-set-60x1", "three servers: writes, 60 connections", "set", 60, 1)
        .with_three_servers(),
    load("three-set-60x16", "three servers: writes, 60 × 16", "set", 60, 16).with_three_servers(),
    load("three-mixed-60x16", "three servers: 9 reads to a write, 60 × 16", "mixed", 60, 16)
        .with_three_servers(),
    own("memory", "memory of a znode", million::memory),
    own("restart", "from a start after kill -9 to the first reply", million::restart),
    own("snapshot", "how long replies pause while a snapshot is taken", million::snapshot),
    own("idle", "memory of an idle session", idle::measure),
    own("failover", "write outage when a leader is killed", outage::measure),
    own("scaling-znodes", "reads per second by the size of the tree", scaling::znodes),
    own("scaling-children", "lists of children, and changes to long ones", scaling::children),
    own("scaling-watches", "watches set, and watchers notified", scaling::watches),
];

/// The name that selects the document only.
pub const DOCUMENT: &str = "document";

/// Returns the parts with these names, in the order of the list; all of them if none is named.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Part>> {
    for name in names {
        let known = name == DOCUMENT || PARTS.iter().any(|part| part.name == name);
        ensure!(known, "no part is called `{name}`; `cargo xtask bench --list` shows them");
    }
    let wanted = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        chosen(&only).unwrap().iter().map(|part| part.name).collect()
    }

    #[test]
    fn parts_are_chosen_by_name_and_keep_their_order() {
        assert_eq!(names(&["set-1x1", "get-1x1"]), ["get-1x1", "set-1x1"]);
        assert_eq!(names(&["document"]), [""; 0]);
        assert_eq!(names(&[]).len(), PARTS.len());
        assert!(chosen(&["get-2x2".into()]).is_err());
    }

    #[test]
    fn part_names_are_unique() {
        let mut all = names(&[]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), PARTS.len());
    }
}
