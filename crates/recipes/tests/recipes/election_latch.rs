//! Latches: they know when they lead, and known ways to two leaders at once are excluded.

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::election::{
    CloseMode, Election, ElectionLayout, LatchEvent, LeaderLatch, Term,
};
use herdsman_recipes::{Events, HoldOptions, LostWhen};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

const PATH: &str = "/app/latch";

fn latch(zk: &Client, id: &str) -> LeaderLatch {
    LeaderLatch::start(zk, PATH, id).unwrap()
}

async fn leading(latch: &LeaderLatch) -> Term {
    within(latch.wait_for_leadership()).await.unwrap()
}

async fn gained(events: &mut Events<LatchEvent>) -> Term {
    match within(events.next()).await {
        Some(LatchEvent::Gained(term)) => term,
        other => panic!("expected a gain, not {other:?}"),
    }
}

async fn lost(events: &mut Events<LatchEvent>) {
    let event = within(events.next()).await;
    assert!(matches!(event, Some(LatchEvent::Lost)), "expected a loss, not {event:?}");
}

/// Waits until exactly these candidates are in the line, the leader first.
async fn until_participants_are(latch: &LeaderLatch, expected: &[&str]) {
    within(async {
        loop {
            let participants = latch.participants().await.unwrap();
            if participants.iter().map(|candidate| candidate.id.as_str()).eq(expected.to_vec()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_latch_leads_and_the_other_follows() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let first = latch(&zk, "a");
    let mut events = first.events();
    let term = leading(&first).await;
    assert!(first.has_leadership());
    assert_eq!(first.term().unwrap().token(), term.token());
    let second = latch(&other, "b");
    until_participants_are(&second, &["a", "b"]).await;
    assert!(!second.has_leadership() && second.term().is_none());
    assert_eq!(second.leader().await.unwrap().unwrap().id, "a");

    assert_eq!(gained(&mut events).await.token(), term.token());
    within(first.close(CloseMode::NotifyLost)).await.unwrap();
    lost(&mut events).await;
    assert!(within(events.next()).await.is_none());
    let next = leading(&second).await;
    assert!(next.token() > term.token());

    let mut events = second.events();
    within(second.close(CloseMode::Silent)).await.unwrap();
    assert!(within(events.next()).await.is_none());
    eventually(|| server.watch_count() == 0).await;
    assert!(zk.children(PATH).await.unwrap().names.is_empty());
}

#[tokio::test]
async fn the_nodes_are_those_of_curators_latch() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let latch = latch(&zk, "host-1");
    let term = leading(&latch).await;
    let name = term.node().strip_prefix("/app/latch/_c_").unwrap();
    assert_eq!(&name[36..], "-latch-0000000000");
    assert_eq!(zk.get(term.node()).await.unwrap().data, "host-1");
}

#[tokio::test]
async fn a_dropped_latch_withdraws() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let first = latch(&zk, "a");
    leading(&first).await;
    let second = latch(&other, "b");
    until_participants_are(&second, &["a", "b"]).await;
    drop(first);
    leading(&second).await;
    until_participants_are(&second, &["b"]).await;
}

#[tokio::test]
async fn a_latch_that_cannot_lead_reports_why() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(LeaderLatch::start(&zk, "no-slash", "a").is_err());
    let leader = latch(&zk, "a");
    leading(&leader).await;
    let waiting = latch(&zk, "b");
    until_participants_are(&waiting, &["a", "b"]).await;
    zk.close().await.unwrap();
    let error = within(waiting.wait_for_leadership()).await.unwrap_err();
    let kind = error.client_kind();
    assert!(matches!(kind, Some(ErrorKind::Closed | ErrorKind::SessionExpired)), "{error}");
}

#[tokio::test]
async fn without_a_connection_it_does_not_lead_and_then_the_same_term_continues() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let first = latch(&zk, "a");
    let term = leading(&first).await;
    let second = latch(&other, "b");
    until_participants_are(&second, &["a", "b"]).await;
    let mut events = first.events();
    proxy.refuse_connections();
    proxy.cut();
    lost(&mut events).await;
    assert!(!first.has_leadership());
    proxy.accept_connections();
    assert_eq!(gained(&mut events).await.token(), term.token());
    assert!(first.has_leadership() && !second.has_leadership());
}

#[tokio::test]
async fn a_latch_until_session_timeout_survives_a_short_outage() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let election = Election::new(&zk, PATH, "a").unwrap().layout(ElectionLayout::Latch);
    let latch =
        LeaderLatch::of(election.options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut)));
    leading(&latch).await;
    let mut events = latch.events();
    let connections = proxy.traffic().connections_accepted();
    proxy.cut();
    within(proxy.until(|traffic| traffic.connections_accepted() > connections)).await;
    zk.exists("/").await.unwrap();
    assert!(latch.has_leadership());
    within(latch.close(CloseMode::Silent)).await.unwrap();
    assert!(within(events.next()).await.is_none(), "nothing was lost or gained");
}

/// The session ends while the connection is lost. The latch must not lead again through the node that it had created
/// in the old session.
#[tokio::test]
async fn curator_444_620_696_the_node_of_an_old_session_does_not_make_a_leader() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let first = latch(&zk, "a");
    let old = leading(&first).await;
    let second = latch(&other, "b");
    until_participants_are(&second, &["a", "b"]).await;
    let mut events = first.events();
    proxy.refuse_connections();
    proxy.cut();
    lost(&mut events).await;
    server.expire_session(old.session().id());
    let new = leading(&second).await;
    proxy.accept_connections();
    until_participants_are(&second, &["b", "a"]).await;
    assert!(second.has_leadership() && !first.has_leadership());
    let participants = second.participants().await.unwrap();
    assert_ne!(participants[1].session, old.session().id());

    within(second.close(CloseMode::Silent)).await.unwrap();
    let again = gained(&mut events).await;
    assert!(old.token() < new.token() && new.token() < again.token());
}

/// The same, but the reply to the creation of the node is lost as well: the node of the old session must not be taken
/// for the one that the new session has requested.
#[tokio::test]
async fn curator_498_a_lost_creation_of_an_old_session_is_not_adopted() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let old_session = zk.connected_session().await.unwrap().id();
    // Creates the parents first, so that the create that is cut is the one of the latch.
    other.create(PATH, "").parents().await.unwrap();
    let rule = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let latch = latch(&zk, "a");
    within(rule.until_fired()).await;
    assert_eq!(server.ephemerals(old_session).len(), 1);
    proxy.refuse_connections();
    proxy.cut();
    server.expire_session(old_session);
    proxy.accept_connections();
    let term = leading(&latch).await;
    assert_ne!(term.session().id(), old_session);
    let stat = other.get(term.node()).await.unwrap().stat;
    assert_eq!(stat.ephemeral_owner, term.session().id().0);
    until_participants_are(&latch, &["a"]).await;
}

/// Connections that are lost and restored quickly must leave one node for each latch, and one leader.
#[tokio::test]
async fn curator_504_644_reconnections_do_not_multiply_nodes() {
    let server = TestServer::start();
    let proxies = [TestProxy::start(server.address()), TestProxy::start(server.address())];
    let watcher = client(&server).await;
    let clients = [client_behind(&proxies[0]).await, client_behind(&proxies[1]).await];
    let first = latch(&clients[0], "a");
    leading(&first).await;
    let second = latch(&clients[1], "b");
    until_participants_are(&second, &["a", "b"]).await;
    for round in 0..10 {
        let connections = proxies[round % 2].traffic().connections_accepted();
        proxies[round % 2].cut();
        let again =
            proxies[round % 2].until(|traffic| traffic.connections_accepted() > connections);
        within(again).await;
    }
    leading(&first).await;
    until_participants_are(&first, &["a", "b"]).await;
    assert_eq!(watcher.children(PATH).await.unwrap().names.len(), 2);
    assert!(first.has_leadership() && !second.has_leadership());
}

/// All connections break at once and are restored: both check again, and one of them leads.
#[tokio::test]
async fn curator_652_653_after_a_fail_over_one_leads() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let first = latch(&zk, "a");
    let term = leading(&first).await;
    let second = latch(&other, "b");
    until_participants_are(&second, &["a", "b"]).await;
    let mut events = first.events();
    for _ in 0..3 {
        server.kill();
        lost(&mut events).await;
        assert!(!first.has_leadership() && !second.has_leadership());
        server.start_again();
        assert_eq!(gained(&mut events).await.token(), term.token());
        until_participants_are(&second, &["a", "b"]).await;
        assert!(!second.has_leadership());
    }
    within(first.close(CloseMode::Silent)).await.unwrap();
    assert!(leading(&second).await.token() > term.token());
    until_participants_are(&second, &["b"]).await;
}

/// A latch that is closed while it determines whether it leads must not leave a node.
#[tokio::test]
async fn curator_3_closing_during_the_election_leaves_no_node() {
    let server = TestServer::start();
    let other = client(&server).await;
    for op in [OpCode::Create2, OpCode::GetChildren2] {
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        other.ensure(PATH, herdsman_client::Lifetime::Persistent).await.unwrap();
        let rule = proxy.add_rule(Rule::new(Fault::HoldReply).on(op));
        let latch = latch(&zk, "a");
        within(rule.until_fired()).await;
        within(latch.close(CloseMode::Silent)).await.unwrap();
        rule.release();
        eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
        // Nothing arrives after the reply to a request that was sent after all others.
        zk.sync("/").await.unwrap();
        assert!(server.ephemerals(zk.session().id()).is_empty(), "{op:?}");
    }
}
