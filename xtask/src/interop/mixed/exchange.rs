//! What clients do in a healthy ensemble, through every server and across servers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::SESSION_TIMEOUT_MS;
use crate::ensemble::Ensemble;
use crate::wire::{CHILDREN_CHANGED, CREATED, DATA_CHANGED, DELETED, Op, Session, Ticket};

const EPHEMERAL: i32 = 1;
const SEQUENTIAL: i32 = 2;
const NODE_EXISTS: i32 = -110;
const BAD_VERSION: i32 = -103;
const SESSION_MOVED: i32 = -118;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A session at each server, by id; the first has id 1.
struct Clients(Vec<Session>);

impl Clients {
    fn connect(ensemble: &Ensemble) -> Result<Clients> {
        let connect = |id| {
            let member = ensemble.member(id);
            Session::connect(member.address(), SESSION_TIMEOUT_MS)
                .with_context(|| member.to_string())
        };
        ensemble.ids().map(connect).collect::<Result<_>>().map(Clients)
    }

    fn at(&mut self, id: usize) -> &mut Session {
        &mut self.0[id - 1]
    }

    /// Does the same through every session.
    fn all(&mut self, what: impl Fn(&mut Session) -> Result<()>) -> Result<()> {
        for (index, session) in self.0.iter_mut().enumerate() {
            what(session).with_context(|| format!("at server {}", index + 1))?;
        }
        Ok(())
    }
}

/// Runs all checks; fails at the first error.
pub fn everything(ensemble: &Ensemble) -> Result<()> {
    let mut clients = Clients::connect(ensemble)?;
    clients.at(1).ok(&Op::create("/m", None, 0))?;
    for id in ensemble.ids() {
        writes(&mut clients, id).with_context(|| format!("writing through server {id}"))?;
        ephemerals(ensemble, &mut clients, id)
            .with_context(|| format!("ephemeral nodes created through server {id}"))?;
        watches(&mut clients, id).with_context(|| format!("events of writes at server {id}"))?;
    }
    moves(ensemble, &mut clients).context("a session that moves")?;
    clients.0.into_iter().try_for_each(Session::close)
}

/// Writes of several kinds through one server are visible at all others, including failures.
fn writes(clients: &mut Clients, id: usize) -> Result<()> {
    let path = format!("/m/w{id}");
    let writer = clients.at(id);
    writer.ok(&Op::create(&path, Some(b"0"), 0))?;
    writer.ok(&Op::create("/m/numbered-", None, SEQUENTIAL))?;
    writer.ok(&Op::set_data(&path, Some(b"1"), 0))?;
    writer.expect(BAD_VERSION, &Op::set_data(&path, Some(b"2"), 0))?;
    writer.ok(&Op::Multi(vec![
        Op::check(&path, 1),
        Op::create(&format!("{path}/child"), Some(b"m"), 0),
        Op::set_data(&path, Some(b"3"), 1),
    ]))?;
    clients.all(|session| {
        session.sync()?;
        let (data, stat) = session.data(&path)?;
        ensure!(data.as_deref() == Some(b"3"), "{path} is {data:?}");
        ensure!(stat.versions[0] == 2 && stat.sizes[1] == 1, "{path} has {stat:?}");
        session.expect(NODE_EXISTS, &Op::create(&path, None, 0)).map(drop)
    })
}

/// An ephemeral node is visible everywhere while its session lives, and nowhere afterwards.
fn ephemerals(ensemble: &Ensemble, clients: &mut Clients, id: usize) -> Result<()> {
    let path = format!("/m/e{id}");
    let mut owner = Session::connect(ensemble.member(id).address(), SESSION_TIMEOUT_MS)?;
    owner.ok(&Op::create(&path, None, EPHEMERAL))?;
    let owner_id = owner.ticket().id;
    clients.all(|session| {
        session.sync()?;
        let stat = session.exists(&path)?.context("the node is missing")?;
        ensure!(stat.owner == owner_id, "its owner is {:#x}", stat.owner);
        Ok(())
    })?;
    owner.close()?;
    clients.all(|session| {
        session.sync()?;
        ensure!(session.exists(&path)?.is_none(), "the node outlived its session");
        Ok(())
    })
}

/// Watches set at every server fire, in order, for writes through one of them.
fn watches(clients: &mut Clients, id: usize) -> Result<()> {
    let parent = format!("/m/p{id}");
    let child = format!("{parent}/c");
    clients.at(id).ok(&Op::create(&parent, None, 0))?;
    clients.all(|session| {
        session.sync()?;
        session.ok(&Op::get_data(&parent).watched())?;
        session.ok(&Op::get_children(&parent).watched())?;
        session.call(&Op::exists(&child).watched()).map(drop)
    })?;
    let writer = clients.at(id);
    writer.ok(&Op::create(&child, None, 0))?;
    writer.ok(&Op::set_data(&parent, Some(b"x"), -1))?;
    clients.all(|session| {
        expect_event(session, CREATED, &child)?;
        expect_event(session, CHILDREN_CHANGED, &parent)?;
        expect_event(session, DATA_CHANGED, &parent)?;
        session.ok(&Op::exists(&child).watched()).map(drop)
    })?;
    clients.at(id).ok(&Op::delete(&child, -1))?;
    clients.all(|session| expect_event(session, DELETED, &child))
}

fn expect_event(session: &mut Session, kind: i32, path: &str) -> Result<()> {
    let event = session.next_event()?;
    ensure!(
        event.kind == kind && event.path == path,
        "{event:?} where one of kind {kind} was due for {path}"
    );
    Ok(())
}

/// One session moves from server to server and keeps its ephemeral node; its old connection cannot write
/// any more.
fn moves(ensemble: &Ensemble, clients: &mut Clients) -> Result<()> {
    let path = "/m/moving";
    let mut session = Session::connect(ensemble.member(1).address(), SESSION_TIMEOUT_MS)?;
    session.ok(&Op::create(path, None, EPHEMERAL))?;
    let id = session.ticket().id;
    let stops: Vec<usize> = ensemble.ids().skip(1).chain(ensemble.ids()).collect();
    for stop in stops {
        let mut moved = resume(ensemble.member(stop).address(), session.ticket())?;
        ensure!(moved.ticket().id == id, "another session at server {stop}");
        moved.ok(&Op::set_data(path, Some(stop.to_string().as_bytes()), -1))?;
        ensure_left(&mut session, path).with_context(|| format!("after the move to {stop}"))?;
        session = moved;
        clients.all(|other| {
            other.sync()?;
            let (data, stat) = other.data(path)?;
            ensure!(stat.owner == id, "its owner is {:#x}", stat.owner);
            ensure!(data == Some(stop.to_string().into_bytes()), "it is {data:?}");
            Ok(())
        })?;
    }
    session.close()?;
    clients.all(|other| {
        other.sync()?;
        ensure!(other.exists(path)?.is_none(), "the node outlived its session");
        Ok(())
    })
}

/// Resumes a session; a server that lags behind what the client has seen rejects it for a moment.
fn resume(address: &str, ticket: &Ticket) -> Result<Session> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match Session::open(address, ticket, TIMEOUT) {
            Ok(Some(session)) => return Ok(session),
            Ok(None) => bail!("{address} reports that the session has expired"),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A closed connection counts as rejected.
fn ensure_left(session: &mut Session, path: &str) -> Result<()> {
    if let Ok(reply) = session.call(&Op::set_data(path, Some(b"from behind"), -1)) {
        ensure!(reply.err == SESSION_MOVED, "the old connection got error code {}", reply.err);
    }
    Ok(())
}
