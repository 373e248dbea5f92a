//! The list of parts, and the goals of each.

use anyhow::{Result, ensure};

use super::lab::Lab;
use super::{children, expiry, join, sessions, watchers, watches, znodes};
use crate::bench::document::growth::{Growth, Wanted};
use crate::bench::document::number::Unit;
use crate::bench::raw::Measured;
use crate::server::Program;

/// A measurement.
pub struct Part {
    /// Its name on the command line, in file names and in the notes.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// What its sizes count.
    pub of: &'static str,
    /// Measures all sizes for one program. If it fails, its measurements so far are kept.
    pub measure: fn(&Lab, Program, &mut Measured) -> Result<()>,
}

/// In the order in which they run and appear in the document.
pub const PARTS: &[Part] = &[
    Part {
        name: "sessions",
        about: "sessions with a connection each: memory, time to open, pings",
        of: "sessions",
        measure: sessions::measure,
    },
    Part {
        name: "expiry",
        about: "half of the sessions, with an ephemeral znode each, expire at the same time, with busy clients",
        of: "sessions",
        measure: expiry::measure,
    },
    Part {
        name: "watchers",
        about: "sessions that watch one znode and its children: setting a watch, and one change",
        of: "watchers",
        measure: watchers::one_shot,
    },
    Part {
        name: "recursive",
        about: "sessions with a persistent recursive watch of one path",
        of: "watchers",
        measure: watchers::recursive,
    },
    Part {
        name: "watches",
        about: "watches of one session: setting, memory, firing, removing",
        of: "watches",
        measure: watches::measure,
    },
    Part {
        name: "children",
        about: "children of one znode: lists, creates and deletes",
        of: "children",
        measure: children::measure,
    },
    Part {
        name: "znodes",
        about: "znodes of one server: memory, a snapshot with writers, a restart after kill -9",
        of: "znodes",
        measure: znodes::measure,
    },
    Part {
        name: "join",
        about: "an empty server joins two others under load and gets the whole tree",
        of: "znodes",
        measure: join::measure,
    },
];

/// The name that selects the document only.
pub const DOCUMENT: &str = "document";

/// The cost of each counted thing may grow by this factor over the whole range.
const GROWTH_MAX: f64 = 1.5;
const P99_MAX_MS: f64 = 50.0;

/// Returns the parts with these names, in the order of the list; all of them if none is named.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Part>> {
    for name in names {
        let known = name == DOCUMENT || PARTS.iter().any(|part| part.name == name);
        ensure!(known, "no part is called `{name}`; `cargo xtask scale --list` shows them");
    }
    let wanted = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(wanted).collect())
}

const fn flat(
    part: &'static str,
    title: &'static str,
    curve: &'static str,
    of: &'static str,
    unit: Unit,
) -> Growth {
    Growth { part, title, curve, of, unit, wanted: Wanted::Flat(GROWTH_MAX) }
}

const fn others(part: &'static str, of: &'static str) -> Growth {
    let (title, curve) = ("p99 of other clients' writes", "others_p99_during_ms");
    Growth { part, title, curve, of, unit: Unit::Ms, wanted: Wanted::AtMost(P99_MAX_MS) }
}

const fn none(part: &'static str, title: &'static str, curve: &'static str) -> Growth {
    let (of, unit) = ("znodes", Unit::Count);
    Growth { part, title, curve, of, unit, wanted: Wanted::AtMost(0.0) }
}

/// The goals.
pub const WANTED: &[Growth] = &[
    flat("sessions", "memory of a session", "bytes_per_session", "sessions", Unit::Bytes),
    flat("sessions", "CPU to open a session", "cpu_to_open_us", "sessions", Unit::Us),
    flat("sessions", "CPU of a ping", "cpu_per_ping_us", "sessions", Unit::Us),
    flat(
        "expiry",
        "memory of a session without a connection",
        "bytes_per_session_without_connection",
        "sessions",
        Unit::Bytes,
    ),
    flat("expiry", "CPU of a session's end", "cpu_per_end_us", "sessions", Unit::Us),
    others("expiry", "sessions"),
    flat("watchers", "CPU to set a watch", "cpu_to_watch_us", "watchers", Unit::Us),
    flat("watchers", "CPU to notify, data", "data_cpu_per_watcher_us", "watchers", Unit::Us),
    flat(
        "watchers",
        "CPU to notify, children",
        "children_cpu_per_watcher_us",
        "watchers",
        Unit::Us,
    ),
    others("watchers", "watchers"),
    flat("recursive", "CPU to set a watch", "cpu_to_watch_us", "watchers", Unit::Us),
    flat("recursive", "CPU to notify, subtree", "subtree_cpu_per_watcher_us", "watchers", Unit::Us),
    others("recursive", "watchers"),
    flat("watches", "memory of a watch", "bytes_per_watch", "watches", Unit::Bytes),
    flat("watches", "CPU to set a watch", "cpu_to_watch_us", "watches", Unit::Us),
    flat("watches", "CPU of a change that fires one", "cpu_to_fire_us", "watches", Unit::Us),
    flat(
        "watches",
        "CPU to remove one at the session's end",
        "cpu_to_remove_us",
        "watches",
        Unit::Us,
    ),
    others("watches", "watches"),
    flat("children", "CPU of a name in a list", "cpu_per_listed_us", "children", Unit::Us),
    flat("children", "CPU of a create", "cpu_per_create_us", "children", Unit::Us),
    flat("children", "CPU of a delete", "cpu_per_delete_us", "children", Unit::Us),
    others("children", "children"),
    flat("znodes", "memory of a znode", "bytes_per_znode", "znodes", Unit::Bytes),
    flat("znodes", "CPU of a znode in a snapshot", "snapshot_cpu_per_znode_us", "znodes", Unit::Us),
    flat("znodes", "restart, time for each", "restart_per_znode_us", "znodes", Unit::Us),
    others("znodes", "znodes"),
    none("join", "servers that did not catch up", "did_not_catch_up"),
    none("join", "writes that were lost", "writes_lost"),
    flat("join", "catching up, time for each", "join_per_znode_us", "znodes", Unit::Us),
    flat(
        "join",
        "catching up, most memory for each",
        "peak_bytes_per_znode",
        "znodes",
        Unit::Bytes,
    ),
    others("join", "znodes"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_chosen_by_name_and_keep_their_order() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            chosen(&only).unwrap().iter().map(|part| part.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["join", "expiry"]), ["expiry", "join"]);
        assert_eq!(names(&["document"]), [""; 0]);
        assert_eq!(names(&[]).len(), PARTS.len());
        assert!(chosen(&["joins".into()]).is_err());
    }

    #[test]
    fn every_goal_has_a_part_that_measures_it() {
        for growth in WANTED {
            let part = PARTS.iter().find(|part| part.name == growth.part);
            assert_eq!(part.map(|part| part.of), Some(growth.of), "{}", growth.title);
        }
    }
}
