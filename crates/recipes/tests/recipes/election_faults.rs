//! Elections under faults: whatever is cut, expired, killed or restarted, one candidate leads at a time, and nothing
//! is left behind.

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::election::{ElectionEvent, Ending};
use herdsman_recipes::{Error, HoldOptions, LostWhen};
use herdsman_testing::proxy::{Fault, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};
use crate::election::{EPOCH, elected, election, line, until, until_line_is_empty, waiting};

const CUTS: [Fault; 2] = [Fault::CutBeforeRequest, Fault::CutBeforeReply];

/// Runs `scenario` once for each request that it makes, with that request or its reply lost. The scenario gets a
/// client whose requests are lost and one without faults.
pub async fn sweep(mut scenario: impl AsyncFnMut(&TestServer, Client, Client)) {
    for fault in CUTS {
        for request in 0.. {
            assert!(request < 100, "the scenario has no end");
            let server = TestServer::start();
            let proxy = TestProxy::start(server.address());
            let (cut, whole) = (client_behind(&proxy).await, client(&server).await);
            let rule = proxy.add_rule(Rule::new(fault).skip(request));
            scenario(&server, cut.clone(), whole.clone()).await;
            until_line_is_empty(&whole).await;
            eventually(|| server.watch_count() == 0).await;
            if rule.fired() == 0 {
                assert!(request > 0, "nothing was cut");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_campaign_survives_the_loss_of_each_request_and_reply() {
    sweep(async |_, cut, whole| {
        let candidate = election(&cut, "a").with_epoch(EPOCH).unwrap();
        let leadership = within(candidate.campaign()).await.unwrap();
        assert_eq!(leadership.epoch(), Some(1));
        assert_eq!(leadership.predecessor(), None);
        assert_eq!(line(&whole).await.len(), 1);
        let resigned = within(leadership.resign()).await;
        assert_eq!(resigned, Ok(()));
        let next = election(&whole, "b").with_epoch(EPOCH).unwrap();
        let next = within(next.campaign()).await.unwrap();
        assert_eq!(next.epoch(), Some(2));
        assert_eq!(next.predecessor().unwrap().ending, Ending::Resigned);
        within(next.resign()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn waiting_survives_the_loss_of_each_request_and_reply() {
    sweep(async |_, cut, whole| {
        let first = within(election(&whole, "first").campaign()).await.unwrap();
        let campaign = waiting(&election(&cut, "second")).await;
        assert_eq!(line(&whole).await.len(), 2);
        let token = first.token();
        within(first.resign()).await.unwrap();
        let second = elected(campaign).await;
        assert!(second.token() > token);
        within(second.resign()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_campaign_that_is_dropped_at_each_request_leaves_no_node() {
    for request in 0..4 {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let (held, whole) = (client_behind(&proxy).await, client(&server).await);
        let rule = proxy.add_rule(Rule::new(Fault::HoldReply).skip(request));
        let candidate = election(&held, "a").with_epoch(EPOCH).unwrap();
        let campaign = tokio::spawn(async move { candidate.campaign().await });
        within(rule.until_fired()).await;
        campaign.abort();
        assert!(within(campaign).await.unwrap_err().is_cancelled());
        rule.release();
        until_line_is_empty(&whole).await;
    }
}

#[tokio::test]
async fn a_leader_whose_session_is_expired_notices_and_cannot_write() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let with_epoch = |zk, id| election(zk, id).with_epoch(EPOCH).unwrap();
    let old = within(with_epoch(&zk, "old").campaign()).await.unwrap();
    let campaign = waiting(&with_epoch(&other, "new")).await;
    old.fenced().create("/state", "old").await.unwrap();

    server.expire_session(old.term().session().id());
    let new = elected(campaign).await;
    assert!(new.token() > old.token());
    assert_eq!(new.epoch(), Some(2));
    assert_eq!(new.predecessor().unwrap().id, "old");
    assert_eq!(new.predecessor().unwrap().ending, Ending::Unknown);
    new.fenced().set("/state", "new").await.unwrap();

    within(old.lost()).await;
    assert!(!old.is_trusted());
    assert!(!within(old.regained()).await);
    let refused = within(old.fenced().set("/state", "old")).await.unwrap_err();
    let kind = refused.kind();
    assert!(matches!(kind, ErrorKind::Deposed | ErrorKind::SessionExpired), "{refused}");
    assert_eq!(other.get("/state").await.unwrap().data, "new");
    assert_eq!(within(old.resign()).await, Err(Error::Lost));
    within(new.resign()).await.unwrap();
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_waiting_candidate_whose_session_is_expired_goes_to_the_end_of_the_line() {
    let server = TestServer::start();
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let first = within(election(&clients[0], "1").campaign()).await.unwrap();
    let expired = election(&clients[1], "2");
    let expired_campaign = waiting(&expired).await;
    let third = waiting(&election(&clients[2], "3")).await;
    let mut events = expired.events();
    server.expire_session(clients[1].session().id());
    until(&mut events, |event| matches!(event, ElectionEvent::Ready { .. })).await;
    within(first.resign()).await.unwrap();
    let third = elected(third).await;
    assert!(!expired_campaign.is_finished());
    within(third.resign()).await.unwrap();
    within(elected(expired_campaign).await.resign()).await.unwrap();
}

#[tokio::test]
async fn a_candidate_of_one_session_ends_with_it() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let session = zk.connected_session().await.unwrap();
    let bound = zk.bound_to(&session);
    let first = within(election(&zk, "1").campaign()).await.unwrap();
    let campaign = waiting(&election(&bound, "2")).await;
    server.expire_session(session.id());
    let ended = within(campaign).await.unwrap().unwrap_err();
    assert_eq!(ended.client_kind(), Some(&ErrorKind::SessionExpired));
    drop(first);
}

#[tokio::test]
async fn when_the_leaders_process_has_died_the_next_takes_over() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (stopped, other) = (client_behind(&proxy).await, client(&server).await);
    let old = within(election(&stopped, "old").campaign()).await.unwrap();
    let campaign = waiting(&election(&other, "new")).await;
    // Nothing passes any more, not even a closeSession; the server's own clock ends the session.
    proxy.partition();
    let new = elected(campaign).await;
    assert!(new.token() > old.token());
    within(old.lost()).await;
    assert!(!old.is_trusted());
    proxy.cut();
    proxy.heal();
    assert!(!within(old.regained()).await);
    within(new.resign()).await.unwrap();
}

#[tokio::test]
async fn a_leader_that_only_lost_its_connection_continues() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let leadership = within(election(&zk, "a").campaign()).await.unwrap();
    let campaign = waiting(&election(&other, "b")).await;
    proxy.refuse_connections();
    proxy.cut();
    within(leadership.lost()).await;
    assert!(!leadership.is_trusted());
    proxy.accept_connections();
    assert!(within(leadership.regained()).await);
    assert!(leadership.is_trusted());
    leadership.fenced().create("/state", "").await.unwrap();
    assert!(!campaign.is_finished());
    within(leadership.resign()).await.unwrap();
    drop(elected(campaign).await);
}

#[tokio::test]
async fn leader_and_candidates_survive_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let election_of_a =
        election(&zk, "a").options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut));
    let leadership = within(election_of_a.campaign()).await.unwrap();
    let campaign = waiting(&election(&other, "b")).await;
    server.kill();
    server.start_again();
    // A read is repeated until the connection is restored.
    assert!(zk.exists(leadership.term().node()).await.unwrap().is_some());
    within(leadership.fenced().create("/state", "a")).await.unwrap();
    assert!(leadership.is_trusted());
    assert_eq!(line(&zk).await.len(), 2);
    within(leadership.resign()).await.unwrap();
    let next = elected(campaign).await;
    within(next.resign()).await.unwrap();
    until_line_is_empty(&zk).await;
    eventually(|| server.watch_count() == 0).await;
}
