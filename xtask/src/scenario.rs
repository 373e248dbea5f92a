//! The requests that every fixture and disk test sends to a server: all kinds of nodes and of transactions.
//!
//! In: a server's address. Out: a data directory with persistent, sequential, ephemeral, container and TTL
//! nodes, absent and empty data, ACLs of several schemes, quotas, multis that succeed and fail, and failed
//! requests. The first part runs on an empty server, the second on the same server after a restart, so that
//! its state is in a snapshot and in the log after it.

use anyhow::{Result, ensure};

use crate::wire::{Op, Session};

const SESSION_TIMEOUT_MS: i32 = 40_000;
const NO_NODE: i32 = -101;
const NO_AUTH: i32 = -102;
const BAD_VERSION: i32 = -103;
const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
const NODE_EXISTS: i32 = -110;
const NOT_EMPTY: i32 = -111;
const INVALID_ACL: i32 = -114;

/// `reader:secret` as the digest scheme stores it.
const READER: &str = "reader:TwMYkJISsEPORbrSYGWeRLjeNEk=";

/// Sessions that stay open; their ephemeral nodes live as long as the server keeps them.
pub struct Open {
    _sessions: Vec<Session>,
}

/// The first part, on an empty server, with `bulk` further plain writes.
pub fn first_part(address: &str, bulk: usize) -> Result<Open> {
    let mut one = Session::connect(address, SESSION_TIMEOUT_MS)?;
    let mut two = Session::connect(address, SESSION_TIMEOUT_MS / 2)?;
    plain_nodes(&mut one)?;
    sequential_nodes(&mut one)?;
    ephemeral_nodes(address, &mut one, &mut two)?;
    swept_nodes(&mut one)?;
    access_control(&mut one, &mut two)?;
    quotas(&mut one)?;
    multis(&mut one)?;
    failures(&mut one)?;
    bulk_writes(&mut one, bulk)?;
    Ok(Open { _sessions: vec![one, two] })
}

/// The second part, on the same server after a restart.
pub fn second_part(address: &str, bulk: usize) -> Result<Open> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    session.ok(&Op::set_data("/app", Some(b"second life"), -1))?;
    session.ok(&Op::create("/app/second", Some(b"written after the restart"), 0))?;
    session.ok(&Op::create("/app/queue/item-", Some(b"again"), 2))?;
    session.ok(&Op::create("/app/members/second", Some(b"c"), 1))?;
    session.ok(&Op::delete("/app/deep/a/b/c", -1))?;
    session.ok(&Op::create("/app/container/late", None, 0))?;
    session.expect(NODE_EXISTS, &Op::create("/app/second", None, 0))?;
    session.ok(&Op::Multi(vec![
        Op::check("/app/second", 0),
        Op::create("/app/second/child", Some(b"m"), 0),
        Op::set_data("/app/empty", Some(b"no longer"), 0),
    ]))?;
    bulk_writes(&mut session, bulk)?;
    Ok(Open { _sessions: vec![session] })
}

/// Sends writes without waiting, for a server that is about to be killed.
pub fn unanswered_writes(address: &str, count: usize) -> Result<Open> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    session.ok(&Op::create("/torn", None, 0))?;
    for number in 0..count {
        session.send(&Op::create("/torn/n-", Some(number.to_string().as_bytes()), 2))?;
    }
    // One reply proves that the server has started to process them.
    session.receive()?;
    Ok(Open { _sessions: vec![session] })
}

fn plain_nodes(session: &mut Session) -> Result<()> {
    session.ok(&Op::create("/app", Some(b"first life"), 0).sent_as_create())?;
    session.ok(&Op::create("/app/absent", None, 0))?;
    session.ok(&Op::create("/app/empty", Some(b""), 0))?;
    session.ok(&Op::create("/app/binary", Some(&[0, 255, 128, 10, 13, 66, 0]), 0))?;
    session.ok(&Op::create("/app/größe-数据-ночь", Some("ünïcødé".as_bytes()), 0))?;
    session.ok(&Op::create("/app/large", Some(&[b'x'; 3000]), 0))?;
    for path in ["/app/deep", "/app/deep/a", "/app/deep/a/b", "/app/deep/a/b/c"] {
        session.ok(&Op::create(path, Some(path.as_bytes()), 0))?;
    }
    for version in 0..4 {
        let data = format!("version {version}");
        session.ok(&Op::set_data("/app/deep/a", Some(data.as_bytes()), version))?;
    }
    session.ok(&Op::set_data("/app/deep/a/b", None, -1))?;
    session.ok(&Op::create("/app/gone", None, 0))?;
    session.ok(&Op::delete("/app/gone", 0))?;
    Ok(())
}

fn sequential_nodes(session: &mut Session) -> Result<()> {
    session.ok(&Op::create("/app/queue", None, 0))?;
    for number in 0..5 {
        session.ok(&Op::create("/app/queue/item-", Some(&[number]), 2))?;
    }
    session.ok(&Op::delete("/app/queue/item-0000000002", -1))?;
    session.ok(&Op::create("/app/queue/", Some(b"no prefix"), 2))?;
    Ok(())
}

fn ephemeral_nodes(address: &str, one: &mut Session, two: &mut Session) -> Result<()> {
    one.ok(&Op::create("/app/members", None, 0))?;
    one.ok(&Op::create("/app/members/one", Some(b"a"), 1))?;
    two.ok(&Op::create("/app/members/m-", Some(b"b"), 3))?;
    let mut brief = Session::connect(address, SESSION_TIMEOUT_MS)?;
    brief.ok(&Op::create("/app/members/brief", None, 1))?;
    brief.ok(&Op::create("/app/brief", None, 1))?;
    brief.close()?;
    Session::connect(address, SESSION_TIMEOUT_MS)?.close()
}

fn swept_nodes(session: &mut Session) -> Result<()> {
    session.ok(&Op::create("/app/container", Some(b"k"), 4))?;
    session.ok(&Op::create("/app/container/child", None, 0))?;
    session.ok(&Op::create("/app/ttl", Some(b"an hour"), 5))?;
    session.ok(&Op::create("/app/ttl-", Some(b"an hour, numbered"), 6))?;
    Ok(())
}

fn access_control(one: &mut Session, two: &mut Session) -> Result<()> {
    let readable = [(1, "world", "anyone"), (31, "digest", READER)];
    one.ok(&Op::create("/app/acl", None, 0))?;
    one.ok(&Op::create("/app/acl/readable", Some(b"r"), 0).with_acl(&readable))?;
    one.ok(&Op::create("/app/acl/readable-too", Some(b"r"), 0).with_acl(&readable))?;
    one.ok(&Op::create("/app/acl/local", None, 0).with_acl(&[(31, "ip", "127.0.0.1/8")]))?;
    two.add_auth("digest", "writer:pass")?;
    two.ok(&Op::create("/app/acl/own", Some(b"w"), 0).with_acl(&[(31, "auth", "")]))?;
    two.ok(&Op::create("/app/acl/own/below", None, 0))?;
    two.ok(&Op::set_acl("/app/acl/local", &[(1, "world", "anyone"), (16, "auth", "")], 0))?;
    one.expect(NO_AUTH, &Op::set_data("/app/acl/own", None, -1))?;
    one.expect(NO_AUTH, &Op::set_acl("/app/acl/local", &readable, -1))?;
    Ok(())
}

fn quotas(session: &mut Session) -> Result<()> {
    let limits = b"count=1000,bytes=1000000=;byteHardLimit=-1;countHardLimit=2000";
    let start = b"count=0,bytes=0";
    session.ok(&Op::create("/zookeeper/quota/app", None, 0))?;
    session.ok(&Op::create("/zookeeper/quota/app/zookeeper_limits", Some(limits), 0))?;
    session.ok(&Op::create("/zookeeper/quota/app/zookeeper_stats", Some(start), 0))?;
    session.ok(&Op::create("/app/counted", Some(b"counts towards the quota"), 0))?;
    Ok(())
}

fn multis(session: &mut Session) -> Result<()> {
    session.ok(&Op::Multi(vec![
        Op::create("/app/multi", Some(b"m"), 0),
        Op::create("/app/multi/a", Some(b"1"), 0).sent_as_create(),
        Op::create("/app/multi/s-", Some(b"2"), 2),
        Op::create("/app/multi/eph", None, 1),
        Op::create("/app/multi/container", None, 4),
        Op::create("/app/multi/ttl", None, 5),
        Op::set_data("/app/multi/a", Some(b"3"), 0),
        Op::check("/app/multi/a", 1),
        Op::create("/app/multi/gone", None, 0),
        Op::delete("/app/multi/gone", 0),
    ]))?;
    // The reply's own code is 0: the failure is inside it, and the log gets a multi of error records.
    session.ok(&Op::Multi(vec![
        Op::create("/app/multi/never", None, 0),
        Op::set_data("/app/multi/a", Some(b"never"), 7),
        Op::delete("/app/multi/a", -1),
    ]))?;
    session.ok(&Op::Multi(Vec::new()))?;
    Ok(())
}

fn failures(session: &mut Session) -> Result<()> {
    session.expect(NODE_EXISTS, &Op::create("/app", None, 0))?;
    session.expect(NO_NODE, &Op::create("/nowhere/child", None, 0))?;
    session.expect(NO_NODE, &Op::delete("/nowhere", -1))?;
    session.expect(NOT_EMPTY, &Op::delete("/app/deep", -1))?;
    session.expect(BAD_VERSION, &Op::set_data("/app", None, 9))?;
    session.expect(BAD_VERSION, &Op::delete("/app/deep/a/b/c", 9))?;
    session.expect(NO_CHILDREN_FOR_EPHEMERALS, &Op::create("/app/members/one/x", None, 0))?;
    session.expect(INVALID_ACL, &Op::create("/app/bad", None, 0).with_acl(&[]))?;
    Ok(())
}

fn bulk_writes(session: &mut Session, count: usize) -> Result<()> {
    for number in 0..count {
        session.send(&Op::set_data("/app/counted", Some(number.to_string().as_bytes()), -1))?;
    }
    for _ in 0..count {
        let reply = session.receive()?;
        ensure!(reply.err == 0, "setData failed with {}", reply.err);
    }
    Ok(())
}
