//! The election in the layout of ZooKeeper's own `LeaderElectionSupport`, and its life cycle.

use herdsman_client::{Client, Op};
use herdsman_recipes::Error;
use herdsman_recipes::election::{Election, ElectionEvent, ElectionLayout, ElectionState};
use herdsman_testing::proxy::{Fault, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::apache_locks::containers;
use crate::common::{client, client_behind, eventually, within};
use crate::election::{PATH, elected, line, until_line_is_empty, waiting};
use crate::election_faults::sweep;

fn election(zk: &Client, host: &str) -> Election {
    Election::new(zk, PATH, host).unwrap().layout(ElectionLayout::Apache)
}

/// `LeaderElectionSupport` fails on children that are not offers.
async fn offers(zk: &Client) -> usize {
    let names = line(zk).await;
    let is_offer = |name: &String| name.len() == 12 && name.starts_with("n_");
    assert!(names.iter().all(is_offer), "{names:?}");
    names.len()
}

#[tokio::test]
async fn offers_and_the_leaders_host_name_can_be_read() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let candidate = election(&zk, "host-1");
    assert_eq!(candidate.leader().await.unwrap(), None);
    let leadership = within(candidate.campaign()).await.unwrap();
    assert_eq!(leadership.term().node(), format!("{PATH}/n_0000000000"));
    // Java's candidates do not create the directory, so it must be permanent.
    assert!(!containers(&proxy).contains(&PATH.to_owned()));
    let theirs = zk.create(&format!("{PATH}/n_"), "java-host").ephemeral().sequential();
    let theirs = theirs.await.unwrap();
    let campaign = waiting(&election(&zk, "host-3")).await;
    let offers = candidate.contenders().await.unwrap();
    let hosts: Vec<_> = offers.iter().map(|offer| offer.id.as_str()).collect();
    assert_eq!(hosts, ["host-1", "java-host", "host-3"]);
    assert_eq!(offers[1].node, "n_0000000001");
    within(leadership.resign()).await.unwrap();
    assert_eq!(candidate.leader().await.unwrap().unwrap().id, "java-host");
    assert!(!campaign.is_finished());
    zk.delete(&theirs.path).await.unwrap();
    let last = elected(campaign).await;
    assert_eq!(candidate.leader().await.unwrap().unwrap().id, "host-3");
    within(last.resign()).await.unwrap();
}

#[tokio::test]
async fn a_campaign_survives_the_loss_of_each_request_and_reply() {
    sweep(async |_, cut, whole| {
        let leadership = within(election(&cut, "a").campaign()).await.unwrap();
        // Two candidates of one session, whose offers differ only in their numbers.
        let (one, two) = (election(&cut, "b"), election(&cut, "c"));
        let (one, two) = tokio::join!(waiting(&one), waiting(&two));
        assert_eq!(offers(&whole).await, 3);
        within(leadership.resign()).await.unwrap();
        let (mut one, mut two) = (one, two);
        let (second, last) = within(async {
            tokio::select! {
                won = &mut one => (won.unwrap().unwrap(), two),
                won = &mut two => (won.unwrap().unwrap(), one),
            }
        })
        .await;
        assert!(!last.is_finished());
        let host = election(&whole, "").leader().await.unwrap().unwrap().id;
        assert_eq!(host, second.term().id());
        within(second.resign()).await.unwrap();
        within(elected(last).await.resign()).await.unwrap();
        assert_eq!(offers(&whole).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_campaign_that_is_dropped_at_each_request_leaves_no_offer() {
    // The creation, the deletion of its receipt, the listing, the read of the node, the epoch node read and written,
    // and the last read of the node.
    for request in 0..7 {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let (held, whole) = (client_behind(&proxy).await, client(&server).await);
        // To create the directories.
        within(election(&whole, "b").campaign()).await.unwrap().resign().await.unwrap();
        let rule = proxy.add_rule(Rule::new(Fault::HoldReply).skip(request));
        let candidate = election(&held, "a");
        let campaign = tokio::spawn(async move { candidate.campaign().await });
        within(rule.until_fired()).await;
        campaign.abort();
        rule.release();
        until_line_is_empty(&whole).await;
        eventually(|| server.ephemerals(held.session().id()).is_empty()).await;
    }
}

/// Deleting the directory resets its numbers, and then another candidate's offer has the name of ours.
#[tokio::test]
async fn an_offer_of_the_same_name_in_a_new_directory_is_not_ours() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let first = within(election(&other, "first").campaign()).await.unwrap();
    let candidate = election(&zk, "second");
    let campaign = waiting(&candidate).await;
    // In one transaction, so that the candidate cannot read in between.
    let offer =
        |host: &str| Op::create(&format!("{PATH}/n_"), host.to_owned()).ephemeral().sequential();
    let ops = [
        Op::delete(&format!("{PATH}/n_0000000000")),
        Op::delete(&format!("{PATH}/n_0000000001")),
        Op::delete(PATH),
        Op::create(PATH, ""),
        offer("third"),
        offer("fourth"),
    ];
    other.transaction(ops).await.unwrap();
    within(async { while offers(&other).await < 3 {} }).await;
    let offers = candidate.contenders().await.unwrap();
    let hosts: Vec<_> = offers.iter().map(|offer| offer.id.as_str()).collect();
    assert_eq!(hosts, ["third", "fourth", "second"]);
    drop(first);
    other.delete(&format!("{PATH}/n_0000000000")).await.unwrap();
    assert!(!campaign.is_finished());
    other.delete(&format!("{PATH}/n_0000000001")).await.unwrap();
    within(elected(campaign).await.resign()).await.unwrap();
}

#[tokio::test]
async fn a_leader_from_before_the_directory_was_recreated_is_fenced_off() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0").await.unwrap();
    let former = within(election(&one, "one").campaign()).await.unwrap();
    let fenced = former.fenced();
    fenced.set("/data", "1").await.unwrap();
    two.transaction([Op::delete(former.term().node()), Op::delete(PATH)]).await.unwrap();
    let next = within(election(&two, "two").campaign()).await.unwrap();
    assert_eq!(next.term().node(), former.term().node());
    let error = fenced.set("/data", "x").await.unwrap_err();
    assert!(error.is_deposed(), "{error}");
    next.fenced().set("/data", "2").await.unwrap();
    // Nor does it delete the next one's node.
    assert_eq!(within(former.resign()).await, Err(Error::Lost));
    next.fenced().set("/data", "3").await.unwrap();
    within(next.resign()).await.unwrap();
}

#[tokio::test]
async fn all_events_of_leader_election_support_are_reported() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let first = within(election(&zk, "a").campaign()).await.unwrap();
    let candidate = election(&zk, "b");
    assert_eq!(candidate.state(), ElectionState::Stop);
    let mut events = candidate.events();
    let campaign = waiting(&candidate).await;
    eventually(|| candidate.state() == ElectionState::Ready).await;
    within(first.resign()).await.unwrap();
    let leadership = elected(campaign).await;
    assert_eq!(candidate.state(), ElectionState::Elected);
    within(leadership.resign()).await.unwrap();
    assert_eq!(candidate.state(), ElectionState::Stop);
    for expected in [
        ("START", ElectionState::Start),
        ("OFFER_START", ElectionState::Offer),
        ("OFFER_COMPLETE", ElectionState::Offer),
        ("DETERMINE_START", ElectionState::Determine),
        ("DETERMINE_COMPLETE", ElectionState::Determine),
        ("READY_START", ElectionState::Ready),
        ("READY_COMPLETE", ElectionState::Ready),
        ("DETERMINE_START", ElectionState::Determine),
        ("DETERMINE_COMPLETE", ElectionState::Determine),
        ("ELECTED_START", ElectionState::Elected),
        ("ELECTED_COMPLETE", ElectionState::Elected),
        ("STOP_START", ElectionState::Stop),
        ("STOP_COMPLETE", ElectionState::Stop),
    ] {
        let event = within(events.next()).await.unwrap();
        assert_eq!((event.apache_name(), event.state()), (Some(expected.0), expected.1));
    }
}

#[tokio::test]
async fn the_state_follows_a_failure_a_loss_and_a_dropped_guard() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let candidate = election(&zk, "a");
    let mut events = candidate.events();
    let leadership = within(candidate.campaign()).await.unwrap();
    proxy.refuse_connections();
    proxy.cut();
    within(leadership.lost()).await;
    assert_eq!(candidate.state(), ElectionState::Determine);
    proxy.accept_connections();
    assert!(within(leadership.regained()).await);
    assert_eq!(candidate.state(), ElectionState::Elected);
    drop(leadership);
    assert_eq!(candidate.state(), ElectionState::Stop);
    let token = crate::election::until(&mut events, |event| event.apache_name().is_none()).await;
    assert!(matches!(token, ElectionEvent::Lost { .. }), "{token:?}");
    assert_eq!(within(events.next()).await, Some(ElectionEvent::Stopping));
    assert_eq!(within(events.next()).await, Some(ElectionEvent::Stopped));

    zk.close().await.unwrap();
    let failed = within(candidate.campaign()).await.unwrap_err();
    assert_eq!(candidate.state(), ElectionState::Failed);
    let event = crate::election::until(&mut events, |event| event.apache_name() == Some("FAILED"));
    assert_eq!(event.await, ElectionEvent::Failed { error: failed });
}
