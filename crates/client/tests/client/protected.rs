//! Protected creations: a lost reply leaves neither an orphan nor a second znode.

use herdsman_client::{Client, ErrorKind};
use herdsman_proto::OpCode;
use herdsman_testing::proxy::{Fault, Rule};

use crate::world::{World, children, kind, options, server_with_short_sessions, within};

async fn only(zk: &Client, parent: &str) -> String {
    let mut names = children(zk, parent).await;
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

#[tokio::test]
async fn the_name_gets_curators_prefix() {
    let World { zk, other: _other, proxy: _proxy, server: _server } = World::start().await;
    let created = zk.create("/lock-", "").ephemeral().sequential().protected().await.unwrap();
    let (prefix, rest) = created.name().split_at(40);
    assert!(prefix.starts_with("_c_") && prefix.ends_with('-'), "{prefix}");
    assert_eq!((prefix.len(), rest), (40, "lock-0000000000"));
    let created = zk.create("/x", "").protected_by("mine-".to_owned()).await.unwrap();
    assert_eq!(created.path, "/mine-x");
}

/// Each request of such a creation, including those for parents, is lost in turn, before and after the
/// server has received it.
#[tokio::test]
async fn one_znode_is_created_whatever_is_lost() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        for ephemeral in [true, false] {
            let World { zk, proxy, other, server: _server } = World::start().await;
            for step in 0.. {
                let parent = format!("/{step}/locks");
                let create = zk.create(&format!("{parent}/n-"), "x").sequential();
                let create = if ephemeral { create.ephemeral() } else { create };
                let lost = proxy.add_rule(Rule::new(fault).skip(step));
                let created = within(create.parents().protected().send()).await.unwrap();
                assert_eq!(only(&other, &parent).await, created.name(), "{fault:?} {step}");
                assert_eq!(other.get(&created.path).await.unwrap().stat, created.stat);
                if lost.fired() == 0 {
                    assert!(step > 5, "there are several requests");
                    break;
                }
                lost.remove();
            }
        }
    }
}

#[tokio::test]
async fn two_losses_in_a_row_are_survived() {
    let World { zk, proxy, other, server: _server } = World::start().await;
    other.create("/locks", "").await.unwrap();
    let first = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let second = proxy.once(OpCode::GetChildren2, Fault::CutBeforeReply);
    let create = zk.create("/locks/n-", "").ephemeral().sequential().protected();
    let created = within(create.send()).await.unwrap();
    assert_eq!((first.fired(), second.fired()), (1, 1));
    assert_eq!(only(&other, "/locks").await, created.name());
}

/// The caller stops waiting before, while and after the server acts; the created znode is deleted.
#[tokio::test]
async fn nothing_is_left_when_the_caller_stops_waiting() {
    let World { zk, proxy, other, server: _server } = World::start().await;
    other.create("/locks", "").await.unwrap();
    let create = || zk.create("/locks/n-", "").ephemeral().sequential().protected().send();

    drop(create());
    let held = proxy.once(OpCode::Create2, Fault::HoldReply);
    let waiting = create();
    within(held.until_fired()).await;
    drop(waiting);
    held.release();

    // Created and delivered, but never taken.
    let taken_too_late = create();
    zk.sync("/").await.unwrap();
    tokio::task::yield_now().await;
    drop(taken_too_late);

    for step in 0..4 {
        let lost = proxy.add_rule(Rule::new(Fault::CutBeforeReply).skip(step));
        drop(create());
        within(lost.until_fired()).await;
    }
    let last = within(create()).await.unwrap();
    // A creation that waited for a connection may be executed after the last one; its znode is deleted as
    // well.
    within(async {
        while children(&other, "/locks").await != [last.name()] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_ephemeral_of_the_previous_session_is_not_taken_for_ones_own() {
    let World { zk, proxy, other, server } = World::start().await;
    other.create("/locks", "").await.unwrap();
    proxy.refuse_connections();
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let before = zk.session().id();
    let created = zk.create("/locks/n-", "").ephemeral().sequential().protected().send();
    within(lost.until_fired()).await;
    assert_eq!(server.ephemerals(before).len(), 1);
    server.expire_session(before);
    proxy.accept_connections();
    let created = within(created).await.unwrap();
    assert_ne!(created.stat.ephemeral_owner, before.0);
    assert_eq!(created.stat.ephemeral_owner, zk.session().id().0);
    assert_eq!(only(&other, "/locks").await, created.name());
}

#[tokio::test]
async fn in_a_bound_client_the_creation_ends_with_the_session() {
    let server = server_with_short_sessions();
    let proxy = herdsman_testing::TestProxy::start(server.address());
    let session = options().connect_session(&proxy.connect_string()).await.unwrap();
    let zk = session.client();
    proxy.refuse_connections();
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let created = zk.create("/n-", "").ephemeral().sequential().protected().send();
    within(lost.until_fired()).await;
    server.expire_session(session.id());
    proxy.accept_connections();
    let kind = kind(within(created).await);
    assert!(matches!(kind, ErrorKind::ConnectionLoss | ErrorKind::SessionExpired), "{kind:?}");
    assert!(server.ephemerals(session.id()).is_empty());
}
