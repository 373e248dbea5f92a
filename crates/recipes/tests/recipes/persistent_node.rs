//! A persistent node exists, and is ours, whatever happens.

use herdsman_client::{Acl, Client, ErrorKind, Perms};
use herdsman_recipes::Error;
use herdsman_recipes::persistent_node::{OnForeignNode, PersistentNode, Presence};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

async fn started(zk: &Client, path: &str, data: &'static str) -> PersistentNode {
    let node = PersistentNode::at(zk, path, data).start().unwrap();
    within(node.wait_until_present()).await.unwrap();
    node
}

/// Waits until the node at `path` belongs to the session that `zk` has now.
async fn owned_by_session_of(zk: &Client, reader: &Client, path: &str) {
    within(async {
        loop {
            let (stat, watch) = reader.exists(path).watch().await.unwrap();
            if stat.is_some_and(|stat| stat.ephemeral_owner == zk.session().id().0) {
                return;
            }
            tokio::select! {
                _ = watch => {}
                // The node may be right before the client's session is known to be the new one.
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
            }
        }
    })
    .await;
}

#[tokio::test]
async fn it_is_made_with_its_parents_and_deleted_at_the_end() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let node = started(&zk, "/a/b/c", "x").await;
    let found = zk.get("/a/b/c").await.unwrap();
    assert_eq!(found.data, "x");
    assert_eq!(found.stat.ephemeral_owner, zk.session().id().0);
    assert_eq!(node.presence(), Presence::Present { path: "/a/b/c".into() });
    within(node.close()).await.unwrap();
    assert!(zk.exists("/a/b/c").await.unwrap().is_none());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn dropping_it_deletes_the_node_in_the_background() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let node = started(&zk, "/n", "x").await;
    let (_, watch) = other.exists("/n").watch().await.unwrap();
    drop(node);
    within(watch).await.unwrap();
    assert!(other.exists("/n").await.unwrap().is_none());
    eventually(|| server.watch_count() == 0).await;
}

// Dubbo #869, #2972, #2975: a registration is deleted and its owner never notices.
#[tokio::test]
async fn a_deleted_node_is_put_back() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let node = started(&zk, "/group/n", "x").await;
    for _ in 0..3 {
        other.delete("/group").recursive().await.unwrap();
        owned_by_session_of(&zk, &other, "/group/n").await;
    }
    assert_eq!(other.get("/group/n").await.unwrap().data, "x");
    within(node.close()).await.unwrap();
}

#[tokio::test]
async fn it_does_not_write_to_a_node_of_another_session() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let node = started(&zk, "/n", "x").await;
    let node = node.set_data("y").await.map(|()| node).unwrap();
    let held = proxy.once(OpCode::SetData, Fault::HoldRequest);
    let writing = async { node.set_data("z").await };
    let meddle = async {
        within(held.until_fired()).await;
        other.delete("/n").await.unwrap();
        other.create("/n", "theirs").ephemeral().await.unwrap();
        held.release();
        within(zk.sync("/").send()).await.unwrap();
        assert_eq!(other.get("/n").await.unwrap().data, "theirs");
        other.delete("/n").await.unwrap();
    };
    let (written, ()) = within(async { tokio::join!(writing, meddle) }).await;
    written.unwrap();
    assert_eq!(other.get("/n").await.unwrap().data, "z");
    node.close().await.unwrap();
}

#[tokio::test]
async fn it_is_put_back_in_the_next_session() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let node = started(&zk, "/n", "x").await;
    let first = zk.session();
    node.set_data("y").await.unwrap();
    server.expire_session(first.id());
    within(first.ended()).await;
    owned_by_session_of(&zk, &other, "/n").await;
    assert_eq!(other.get("/n").await.unwrap().data, "y");
    assert_ne!(zk.session().id(), first.id());
    within(node.wait_until_present()).await.unwrap();
}

// Dubbo #5125, #5135, #12646, #12740: the node of an earlier session is taken for the own one, and the registration
// vanishes when that session expires.
#[tokio::test]
async fn a_node_that_an_earlier_session_has_left_is_replaced() {
    let server = TestServer::start();
    let (earlier, zk) = (client(&server).await, client(&server).await);
    earlier.create("/n", "same").ephemeral().await.unwrap();
    let node = started(&zk, "/n", "same").await;
    let stat = zk.exists("/n").await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, zk.session().id().0);
    server.expire_session(earlier.session().id());
    assert_eq!(zk.exists("/n").await.unwrap(), Some(stat), "it does not end with that session");
    within(node.close()).await.unwrap();
}

#[tokio::test]
async fn watchers_never_see_a_replaced_node_missing() {
    let server = TestServer::start();
    let (earlier, zk) = (client(&server).await, client(&server).await);
    earlier.create("/n", "").ephemeral().await.unwrap();
    let node = started(&zk, "/n", "").await;
    let stat = zk.exists("/n").await.unwrap().unwrap();
    // One transaction: no client can read between deletion and creation.
    assert_eq!(stat.czxid, stat.mzxid);
    assert_eq!(zk.exists("/").await.unwrap().unwrap().pzxid, stat.czxid);
    drop(node);
}

#[tokio::test]
async fn it_can_wait_until_a_foreign_node_is_deleted() {
    let server = TestServer::start();
    let (first, zk) = (client(&server).await, client(&server).await);
    first.create("/n", "first").ephemeral().await.unwrap();
    let options = PersistentNode::at(&zk, "/n", "second").on_foreign_node(OnForeignNode::Wait);
    let node = options.start().unwrap();
    let mut presences = node.presences();
    while within(presences.next()).await != Some(Presence::Occupied) {}
    assert_eq!(zk.get("/n").await.unwrap().data, "first");
    first.close().await.unwrap();
    within(node.wait_until_present()).await.unwrap();
    assert_eq!(zk.get("/n").await.unwrap().data, "second");
}

#[tokio::test]
async fn closing_while_it_waits_leaves_the_foreign_node_alone() {
    let server = TestServer::start();
    let (first, zk) = (client(&server).await, client(&server).await);
    first.create("/n", "first").ephemeral().await.unwrap();
    let options = PersistentNode::at(&zk, "/n", "second").on_foreign_node(OnForeignNode::Wait);
    let node = options.start().unwrap();
    let mut presences = node.presences();
    while within(presences.next()).await != Some(Presence::Occupied) {}
    within(node.close()).await.unwrap();
    assert_eq!(zk.get("/n").await.unwrap().data, "first");
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_persistent_one_is_taken_over_with_new_data() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/n", "old").await.unwrap();
    zk.create("/n/child", "").await.unwrap();
    let node = PersistentNode::at(&zk, "/n", "new").persistent().start().unwrap();
    within(node.wait_until_present()).await.unwrap();
    assert_eq!(zk.get("/n").await.unwrap().data, "new");
    server.expire_session(zk.session().id());
    within(node.set_data("newer")).await.unwrap();
    assert_eq!(zk.get("/n/child").await.unwrap().data, "");
    let error = within(node.close()).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::NotEmpty), "the obstacle is reported");
}

#[tokio::test]
async fn a_sequential_one_keeps_its_name() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let node = PersistentNode::at(&zk, "/dir/n-", "x").sequential().start().unwrap();
    within(node.wait_until_present()).await.unwrap();
    assert_eq!(node.presence(), Presence::Present { path: "/dir/n-0000000000".into() });
    let session = zk.session();
    server.expire_session(session.id());
    within(session.ended()).await;
    owned_by_session_of(&zk, &other, "/dir/n-0000000000").await;
    within(node.close()).await.unwrap();
    assert_eq!(other.children("/dir").await.unwrap().names, Vec::<String>::new());
}

#[tokio::test]
async fn lost_replies_have_no_double_effect() {
    let server = TestServer::start();
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let create = |op| Rule::new(fault).on(op).path_containing("/dir/");
        let lost = proxy.add_rule(create(OpCode::Create2));
        let plain = started(&zk, "/dir/plain", "x").await;
        assert_eq!(lost.fired(), 1);
        let lost = proxy.add_rule(create(OpCode::Multi));
        let numbered = PersistentNode::at(&zk, "/dir/n-", "x").sequential().start().unwrap();
        within(numbered.wait_until_present()).await.unwrap();
        assert_eq!(lost.fired(), 1);
        let lost = proxy.once(OpCode::SetData, fault);
        within(plain.set_data("y")).await.unwrap();
        assert_eq!((lost.fired(), zk.get("/dir/plain").await.unwrap().data), (1, "y".into()));
        assert_eq!(zk.children("/dir").await.unwrap().names.len(), 2);
        let lost = proxy.once(OpCode::Delete, fault);
        within(plain.close()).await.unwrap();
        within(numbered.close()).await.unwrap();
        assert_eq!(lost.fired(), 1);
        assert_eq!(zk.children("/dir").await.unwrap().names.len(), 0);
    }
}

/// Another node of the same session with the same prefix used to be taken for our own.
#[tokio::test]
async fn a_sequential_one_whose_reply_is_lost_spares_others_of_its_session() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let frontend = started(&zk, "/svc/web-frontend-1", "frontend").await;
    let numbered = || PersistentNode::at(&zk, "/svc/web", "web").sequential().start().unwrap();
    let first = numbered();
    within(first.wait_until_present()).await.unwrap();
    let create = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).on(OpCode::Multi);
    let lost = proxy.add_rule(create.path_containing("/svc/web"));
    let second = numbered();
    within(second.wait_until_present()).await.unwrap();
    assert_eq!(lost.fired(), 1);
    assert_eq!(first.presence(), Presence::Present { path: "/svc/web0000000001".into() });
    assert_eq!(second.presence(), Presence::Present { path: "/svc/web0000000002".into() });
    within(second.close()).await.unwrap();
    assert_eq!(zk.get("/svc/web-frontend-1").await.unwrap().data, "frontend");
    assert_eq!(zk.children("/svc").await.unwrap().names.len(), 2);
    within(first.close()).await.unwrap();
    within(frontend.close()).await.unwrap();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

/// It is still being created when it is no longer wanted.
#[tokio::test]
async fn a_sequential_one_that_is_closed_before_its_reply_leaves_nothing_behind() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    zk.create("/dir", "").await.unwrap();
    let create = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).on(OpCode::Multi);
    let lost = proxy.add_rule(create.path_containing("/dir/n-"));
    proxy.refuse_connections();
    let node = PersistentNode::at(&zk, "/dir/n-", "").sequential().start().unwrap();
    within(lost.until_fired()).await;
    let closing = tokio::spawn(node.close());
    proxy.accept_connections();
    within(closing).await.unwrap().unwrap();
    assert_eq!(zk.children("/dir").await.unwrap().names, Vec::<String>::new());
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

/// The deletion used to be repeated when its reply was lost, whatever node existed by then.
#[tokio::test]
async fn closing_spares_a_later_node_of_the_same_session() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let node = started(&zk, "/n", "first").await;
    let lost = proxy.once(OpCode::Delete, Fault::CutBeforeReply);
    let looks_again = proxy.add_rule(Rule::new(Fault::HoldReply).on(OpCode::Sync).skip(1));
    let closing = tokio::spawn(node.close());
    within(looks_again.until_fired()).await;
    assert_eq!(lost.fired(), 1);
    let second = zk.create("/n", "second").ephemeral().send();
    owned_by_session_of(&zk, &other, "/n").await;
    looks_again.release();
    within(second).await.unwrap();
    within(closing).await.unwrap().unwrap();
    assert_eq!(zk.get("/n").await.unwrap().data, "second");
}

#[tokio::test]
async fn a_lost_reply_to_a_replacement_does_no_harm() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (earlier, zk) = (client(&server).await, client_behind(&proxy).await);
    earlier.create("/n", "old").ephemeral().await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    let node = started(&zk, "/n", "new").await;
    assert_eq!(lost.fired(), 1);
    let found = zk.get("/n").await.unwrap();
    assert_eq!((found.data, found.stat.ephemeral_owner), ("new".into(), zk.session().id().0));
    drop(node);
}

#[tokio::test]
async fn it_survives_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let node = started(&zk, "/n", "x").await;
    server.restart();
    within(node.set_data("y")).await.unwrap();
    assert_eq!(zk.get("/n").await.unwrap().data, "y");
    within(node.close()).await.unwrap();
    assert!(zk.exists("/n").await.unwrap().is_none());
}

#[tokio::test]
async fn a_refusal_is_reported_and_tried_again() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/closed", "").acl([Acl::world(Perms::READ.union(Perms::ADMIN))]).await.unwrap();
    let node = PersistentNode::at(&zk, "/closed/n", "").start().unwrap();
    let error = within(node.wait_until_present()).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::NoAuth));
    zk.set_acl("/closed", [Acl::world(Perms::ALL)]).await.unwrap();
    let mut presences = node.presences();
    let present = Some(Presence::Present { path: "/closed/n".into() });
    while within(presences.next()).await != present {}
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for path in ["", "no-slash", "/", "/a//b", "/a/", "/a/../b"] {
        PersistentNode::at(&zk, path, "").start().unwrap_err();
    }
    let error = PersistentNode::at(&zk, "/n", "").persistent().sequential().start().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    assert_eq!(zk.children("/").await.unwrap().names, ["zookeeper"]);
}

#[tokio::test]
async fn it_ends_with_its_client() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let node = started(&zk, "/n", "x").await;
    let mut presences = node.presences();
    zk.close().await.unwrap();
    while within(presences.next()).await != Some(Presence::Ended) {}
    let error = within(node.set_data("y")).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::Closed));
    within(node.close()).await.unwrap();
}

#[tokio::test]
async fn it_gets_the_default_acl_of_its_client() {
    let server = TestServer::start();
    let zk =
        client(&server).await.with_default_acl([Acl::read_only(), Acl::creator_all()]).unwrap();
    zk.authenticate("digest", "app:secret").await.unwrap();
    let _node = started(&zk, "/plain", "x").await;
    let (acl, _) = zk.acl("/plain").await.unwrap();
    assert_eq!(acl.len(), 2, "{acl:?}");
    assert_eq!(acl[0], Acl::read_only());
}
