//! Groups: their members, and the changes of them.

use std::collections::BTreeSet;

use herdsman_recipes::Events;
use herdsman_recipes::membership::{Change, Group, Member, ShallowGroup};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

fn text(member: &Member) -> String {
    format!("{}={}", member.id, String::from_utf8_lossy(&member.data))
}

/// The next change in short: `+a=1`, `~a=2`, `-a=2`.
async fn next(changes: &mut Events<Change<Member>>) -> String {
    match within(changes.next()).await.expect("the stream continues") {
        Change::Joined(member) => format!("+{}", text(&member)),
        Change::Changed(member) => format!("~{}", text(&member)),
        Change::Left(member) => format!("-{}", text(&member)),
    }
}

#[tokio::test]
async fn members_join_change_and_leave() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let group = Group::new(&zk, "/app/group").unwrap();
    let members = group.observe().await.unwrap();
    assert!(members.snapshot().is_empty(), "there is no such node yet");
    let mut changes = members.changes();
    let a = within(group.join("a", "1")).await.unwrap();
    assert_eq!(next(&mut changes).await, "+a=1");
    let theirs = Group::new(&other, "/app/group").unwrap();
    let b = within(theirs.join("b", "2")).await.unwrap();
    assert_eq!(next(&mut changes).await, "+b=2");
    within(b.set_data("3")).await.unwrap();
    assert_eq!(next(&mut changes).await, "~b=3");
    let ids: Vec<String> = members.snapshot().into_keys().collect();
    assert_eq!(ids, ["a", "b"]);
    within(a.leave()).await.unwrap();
    assert_eq!(next(&mut changes).await, "-a=1");
    other.close().await.unwrap();
    assert_eq!(next(&mut changes).await, "-b=3");
    drop((members, changes));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_member_leaves_with_its_session_and_joins_again_in_the_next() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let members = Group::new(&zk, "/g").unwrap().observe().await.unwrap();
    let mut changes = members.changes();
    let _b = within(Group::new(&other, "/g").unwrap().join("b", "x")).await.unwrap();
    assert_eq!(next(&mut changes).await, "+b=x");
    server.expire_session(other.session().id());
    // Both may be seen as one: present again, with another owner.
    let change = next(&mut changes).await;
    if change == "-b=x" {
        assert_eq!(next(&mut changes).await, "+b=x");
    } else {
        assert_eq!(change, "~b=x");
    }
}

#[tokio::test]
async fn changes_during_a_disconnection_are_found() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client(&server).await, client_behind(&proxy).await);
    let group = Group::new(&zk, "/g").unwrap();
    let a = within(group.join("a", "1")).await.unwrap();
    let b = within(group.join("b", "1")).await.unwrap();
    let members = Group::new(&other, "/g").unwrap().observe().await.unwrap();
    let mut changes = members.changes();
    proxy.refuse_connections();
    proxy.cut();
    a.leave().await.unwrap();
    b.set_data("2").await.unwrap();
    let _c = within(group.join("c", "1")).await.unwrap();
    assert_eq!(members.snapshot().len(), 2, "the last known state stays");
    proxy.accept_connections();
    let seen = [next(&mut changes).await, next(&mut changes).await, next(&mut changes).await];
    let seen: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!(seen, BTreeSet::from(["+c=1", "-a=1", "~b=2"]));
}

#[tokio::test]
async fn an_observer_survives_its_own_session_and_a_restart() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let group = Group::new(&zk, "/g").unwrap();
    let members = Group::new(&other, "/g").unwrap().observe().await.unwrap();
    let mut changes = members.changes();
    server.expire_session(other.session().id());
    let _a = within(group.join("a", "1")).await.unwrap();
    assert_eq!(next(&mut changes).await, "+a=1");
    server.restart();
    let _b = within(group.join("b", "1")).await.unwrap();
    assert_eq!(next(&mut changes).await, "+b=1");
}

#[tokio::test]
async fn a_lost_reply_to_a_join_makes_one_member() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let rule = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).path_containing("/g/a");
    let lost = proxy.add_rule(rule);
    let a = within(Group::new(&zk, "/g").unwrap().join("a", "1")).await.unwrap();
    assert_eq!(lost.fired(), 1);
    assert_eq!(zk.children("/g").await.unwrap().names, ["a"]);
    within(a.leave()).await.unwrap();
    assert_eq!(zk.children("/g").await.unwrap().names.len(), 0);
}

#[tokio::test]
async fn deeper_nodes_are_not_members() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let members = Group::new(&zk, "/g").unwrap().observe().await.unwrap();
    let mut changes = members.changes();
    zk.create("/g/by-hand/below", "x").parents().await.unwrap();
    assert_eq!(next(&mut changes).await, "+by-hand=");
    zk.delete("/g/by-hand/below").await.unwrap();
    zk.delete("/g/by-hand").await.unwrap();
    assert_eq!(next(&mut changes).await, "-by-hand=");
}

#[tokio::test]
async fn a_shallow_group_reads_no_data() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, watching) = (client(&server).await, client_behind(&proxy).await);
    let group = ShallowGroup::new(&zk, "/g").unwrap();
    let a = within(group.join("a")).await.unwrap();
    let ids = ShallowGroup::new(&watching, "/g").unwrap().observe().await.unwrap();
    assert_eq!(ids.snapshot(), ["a"]);
    let mut changes = ids.changes();
    let _b = within(group.join("b")).await.unwrap();
    let joined = within(changes.next()).await.unwrap();
    assert_eq!(joined, Change::Joined("b".to_owned().into()));
    within(a.leave()).await.unwrap();
    let left = within(changes.next()).await.unwrap();
    assert_eq!(left, Change::Left("a".to_owned().into()));
    assert_eq!(proxy.traffic().requests(OpCode::GetData), 0);
}

#[tokio::test]
async fn bad_names_are_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    Group::new(&zk, "g").unwrap_err();
    Group::new(&zk, "").unwrap_err();
    ShallowGroup::new(&zk, "/g/").unwrap_err();
    let group = Group::new(&zk, "/g").unwrap();
    for id in ["", "a/b", ".", ".."] {
        within(group.join(id, "")).await.unwrap_err();
    }
    assert!(zk.exists("/g").await.unwrap().is_none());
}
