//! The race for a node at a fixed path: all candidates wake up, one wins, and the epoch distinguishes former leaders
//! from the current one.

use herdsman_client::{Acl, Client, ErrorKind, Lifetime};
use herdsman_recipes::Error;
use herdsman_recipes::election::{ElectionEvent, Ending, Leadership, Race};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};

const PATH: &str = "/app/master";

fn race(zk: &Client, id: &str) -> Race {
    Race::new(zk, PATH, id).unwrap()
}

type Campaign = JoinHandle<herdsman_recipes::Result<Leadership>>;

/// Campaigns in the background; returns when it watches the node.
async fn waiting(server: &TestServer, race: Race) -> Campaign {
    let watches = server.watch_count();
    let campaign = tokio::spawn(async move { race.campaign().await });
    eventually(|| server.watch_count() == watches + 1).await;
    campaign
}

async fn until_free(zk: &Client) {
    within(async {
        while zk.exists(PATH).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_wins_and_the_others_follow() {
    let server = TestServer::start();
    let mut campaigns = tokio::task::JoinSet::new();
    for id in ["a", "b", "c", "d"] {
        let race = race(&client(&server).await, id);
        campaigns.spawn(async move { race.campaign().await.unwrap() });
    }
    let zk = client(&server).await;
    let (mut tokens, mut epochs) = (Vec::new(), Vec::new());
    while let Some(leadership) = within(campaigns.join_next()).await {
        let leadership = leadership.unwrap();
        let node = zk.get(PATH).await.unwrap();
        assert_eq!(node.data, leadership.term().id());
        assert_eq!(node.stat.ephemeral_owner, leadership.term().session().id().0);
        tokens.push(leadership.token());
        epochs.push(leadership.epoch().unwrap());
        within(leadership.resign()).await.unwrap();
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert_eq!(epochs, [1, 2, 3, 4]);
    assert!(zk.exists(PATH).await.unwrap().is_none());
    eventually(|| server.watch_count() == 0).await;
}

/// The permission to write there was taken from all clients.
#[tokio::test]
async fn a_leader_resigns_without_permission_to_write_its_epoch() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let resigning = within(race(&zk, "a").campaign()).await.unwrap();
    zk.set_acl(&format!("{PATH}-epoch"), [Acl::read_only()]).await.unwrap();
    within(resigning.resign()).await.unwrap();
    assert!(zk.exists(PATH).await.unwrap().is_none());
}

#[tokio::test]
async fn a_leader_that_is_dropped_leaves_without_permission_to_write_its_epoch() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let dropped = within(race(&zk, "a").campaign()).await.unwrap();
    zk.set_acl(&format!("{PATH}-epoch"), [Acl::read_only()]).await.unwrap();
    drop(dropped);
    until_free(&zk).await;
}

#[tokio::test]
async fn a_former_leader_can_neither_write_nor_delete_the_next_ones_node() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let old = within(race(&zk, "old").campaign()).await.unwrap();
    old.fenced().create("/state", "old").await.unwrap();
    let campaign = waiting(&server, race(&other, "new")).await;
    // By hand: the session of the old leader lives on.
    other.delete(PATH).await.unwrap();
    let new = within(campaign).await.unwrap().unwrap();
    let refused = old.fenced().set("/state", "old").await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Deposed);
    new.fenced().set("/state", "new").await.unwrap();
    within(old.lost()).await;
    assert_eq!(within(old.resign()).await, Err(Error::Lost));
    assert_eq!(other.get(PATH).await.unwrap().data, "new");
    assert_eq!(new.predecessor().unwrap().ending, Ending::Unknown);
    assert!(new.is_trusted());
}

#[tokio::test]
async fn a_dropped_leadership_frees_the_node_and_ends_its_fence() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let leadership = within(race(&zk, "a").campaign()).await.unwrap();
    let term = leadership.term().clone();
    drop(leadership);
    until_free(&zk).await;
    let refused = term.fenced().create("/state", "").await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Deposed);
    let next = within(race(&zk, "b").campaign()).await.unwrap();
    assert_eq!(next.predecessor().unwrap().ending, Ending::Unknown);
    within(next.resign()).await.unwrap();
    let last = within(race(&zk, "c").campaign()).await.unwrap();
    assert_eq!(last.predecessor().unwrap().ending, Ending::Resigned);
}

#[tokio::test]
async fn each_lost_request_and_reply_is_survived() {
    for fault in [Fault::CutBeforeRequest, Fault::CutBeforeReply] {
        for request in 0.. {
            let server = TestServer::start();
            let proxy = TestProxy::start(server.address());
            let (cut, whole) = (client_behind(&proxy).await, client(&server).await);
            let rule = proxy.add_rule(Rule::new(fault).skip(request));
            let leadership = within(race(&cut, "a").campaign()).await.unwrap();
            assert_eq!(leadership.epoch(), Some(1));
            let node = whole.get(PATH).await.unwrap();
            assert_eq!(u64::try_from(node.stat.czxid.0), Ok(leadership.token()));
            assert_eq!(within(leadership.resign()).await, Ok(()));
            let next = within(race(&whole, "b").campaign()).await.unwrap();
            assert_eq!(next.epoch(), Some(2));
            assert_eq!(next.predecessor().unwrap().ending, Ending::Resigned);
            within(next.resign()).await.unwrap();
            eventually(|| server.watch_count() == 0).await;
            if rule.fired() == 0 {
                assert!(request > 0, "nothing was cut");
                break;
            }
            assert!(request < 100, "the scenario has no end");
        }
    }
}

#[tokio::test]
async fn a_campaign_that_is_dropped_frees_what_it_wins() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (held, whole) = (client_behind(&proxy).await, client(&server).await);
    whole.ensure("/app", Lifetime::Persistent).await.unwrap();
    let rule = proxy.once(OpCode::Multi, Fault::HoldReply);
    let candidate = race(&held, "a");
    let campaign = tokio::spawn(async move { candidate.campaign().await });
    within(rule.until_fired()).await;
    assert!(whole.exists(PATH).await.unwrap().is_some());
    campaign.abort();
    rule.release();
    until_free(&whole).await;
}

#[tokio::test]
async fn the_node_of_an_own_earlier_session_is_waited_for() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    // As for a process that was restarted before its former session has ended.
    let former = within(race(&other, "host-1").campaign()).await.unwrap();
    let campaign = waiting(&server, race(&zk, "host-1")).await;
    server.expire_session(former.term().session().id());
    let leadership = within(campaign).await.unwrap().unwrap();
    assert_eq!(zk.get(PATH).await.unwrap().stat.ephemeral_owner, zk.session().id().0);
    assert_eq!(leadership.predecessor().unwrap().id, "host-1");
    within(former.lost()).await;
}

#[tokio::test]
async fn an_expired_leader_is_followed_and_may_campaign_again() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let first = race(&zk, "a");
    let mut events = first.events();
    let old = within(first.campaign()).await.unwrap();
    let campaign = waiting(&server, race(&other, "b")).await;
    server.expire_session(old.term().session().id());
    let new = within(campaign).await.unwrap().unwrap();
    within(old.lost()).await;
    assert!(!within(old.regained()).await);
    assert!(new.token() > old.token());
    let again = tokio::spawn(async move { first.campaign().await });
    within(new.resign()).await.unwrap();
    let again = within(again).await.unwrap().unwrap();
    assert_eq!(again.epoch(), Some(3));
    assert_eq!(within(events.next()).await, Some(ElectionEvent::Started));
    assert_eq!(within(events.next()).await, Some(ElectionEvent::Leading { token: old.token() }));
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for path in ["", "/", "no-slash", "/a/"] {
        assert!(Race::new(&zk, path, "a").is_err(), "{path:?}");
        assert!(race(&zk, "a").epoch_at(path).is_err(), "{path:?}");
    }
    assert!(race(&zk, "a").epoch_at(PATH).is_err());
    zk.create("/e", "not json").await.unwrap();
    let refused = within(race(&zk, "a").epoch_at("/e").unwrap().campaign()).await.unwrap_err();
    assert!(matches!(refused, Error::Codec { .. }), "{refused}");
    assert!(zk.exists(PATH).await.unwrap().is_none());
}
