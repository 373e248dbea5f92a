//! Elections without faults: who leads, which events are reported, and what is left behind.

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::election::{
    Election, ElectionEvent, ElectionLayout, Ending, Leadership, Requeue, Selector,
};
use herdsman_recipes::{Error, Events};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};

pub const PATH: &str = "/app/leader";
pub const EPOCH: &str = "/app/epoch";

pub fn election(zk: &Client, id: &str) -> Election {
    Election::new(zk, PATH, id).unwrap()
}

/// Campaigns in the background; returns when the candidate is in the line behind another.
pub async fn waiting(election: &Election) -> JoinHandle<herdsman_recipes::Result<Leadership>> {
    let mut events = election.events();
    let candidate = election.clone();
    let campaign = tokio::spawn(async move { candidate.campaign().await });
    until(&mut events, |event| matches!(event, ElectionEvent::Ready { .. })).await;
    campaign
}

pub async fn until(
    events: &mut Events<ElectionEvent>,
    wanted: impl Fn(&ElectionEvent) -> bool,
) -> ElectionEvent {
    within(async {
        loop {
            let event = events.next().await.expect("the stream continues");
            if wanted(&event) {
                return event;
            }
        }
    })
    .await
}

pub async fn elected(campaign: JoinHandle<herdsman_recipes::Result<Leadership>>) -> Leadership {
    within(campaign).await.unwrap().unwrap()
}

/// The names of all nodes in the line.
pub async fn line(zk: &Client) -> Vec<String> {
    match zk.children(PATH).await {
        Err(error) if *error.kind() == ErrorKind::NoNode => Vec::new(),
        children => children.unwrap().names,
    }
}

pub async fn until_line_is_empty(zk: &Client) {
    within(async {
        while !line(zk).await.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn candidates_lead_in_the_order_of_arrival() {
    let server = TestServer::start();
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let elections: Vec<_> =
        clients.iter().zip(["a", "b", "c"]).map(|(zk, id)| election(zk, id)).collect();
    let first = within(elections[0].campaign()).await.unwrap();
    let second = waiting(&elections[1]).await;
    let third = waiting(&elections[2]).await;
    let contenders = elections[2].contenders().await.unwrap();
    let ids: Vec<_> = contenders.iter().map(|candidate| candidate.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(contenders[0].token, first.token());
    assert_eq!(contenders[0].session, first.term().session().id());
    assert!(first.is_trusted());

    let mut tokens = vec![first.token()];
    within(first.resign()).await.unwrap();
    for campaign in [second, third] {
        let leadership = elected(campaign).await;
        let leader = elections[0].leader().await.unwrap().unwrap();
        assert_eq!(leader.token, leadership.token());
        assert_eq!(leader.id, leadership.term().id());
        tokens.push(leadership.token());
        within(leadership.resign()).await.unwrap();
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert_eq!(elections[0].leader().await.unwrap(), None);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn nodes_are_named_as_those_of_the_layout() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for (layout, prefix, marker, prefix_bytes) in [
        (ElectionLayout::Selector, "_c_", "-lock-", 39),
        (ElectionLayout::Latch, "_c_", "-latch-", 39),
        (ElectionLayout::Kazoo, "", "__lock__", 32),
        (ElectionLayout::Apache, "", "n_", 0),
    ] {
        let leadership = within(election(&zk, "héros").layout(layout).campaign()).await.unwrap();
        let path = leadership.term().node().to_owned();
        let name = path.strip_prefix("/app/leader/").unwrap();
        let parts = herdsman_recipes::sequence::split_name(name, marker).unwrap();
        assert!(parts.prefix.starts_with(prefix), "{name}");
        assert_eq!(parts.prefix.len(), prefix_bytes, "{name}");
        let node = zk.get(&path).await.unwrap();
        assert_eq!(node.data, "héros".as_bytes());
        assert_eq!(node.stat.ephemeral_owner, zk.session().id().0);
        assert_eq!(u64::try_from(node.stat.czxid.0), Ok(leadership.token()));
        within(leadership.resign()).await.unwrap();
    }
}

#[tokio::test]
async fn only_the_next_in_line_wakes_up() {
    let server = TestServer::start();
    let leader = election(&client(&server).await, "leader");
    let leadership = within(leader.campaign()).await.unwrap();
    let mut campaigns = Vec::new();
    let mut proxies = Vec::new();
    for id in ["1", "2", "3", "4"] {
        let proxy = TestProxy::start(server.address());
        let candidate = election(&client_behind(&proxy).await, id);
        campaigns.push(waiting(&candidate).await);
        // Its watch is set when the server has received the request for the node before it.
        eventually(|| server.watch_count() == campaigns.len()).await;
        proxies.push(proxy);
    }
    let asked = |proxies: &[TestProxy]| -> Vec<_> {
        proxies.iter().map(|proxy| proxy.traffic().requests_in_all()).collect()
    };
    let before = asked(&proxies);
    within(leadership.resign()).await.unwrap();
    let next = elected(campaigns.remove(0)).await;
    let events: Vec<_> = proxies.iter().map(|proxy| proxy.traffic().events()).collect();
    assert_eq!(events, [1, 0, 0, 0]);
    assert_eq!(asked(&proxies)[1..], before[1..]);
    assert_eq!(next.term().id(), "1");
    for campaign in campaigns {
        campaign.abort();
    }
}

#[tokio::test]
async fn foreign_nodes_are_ignored() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for name in ["README", "_c_x-latch-0000000000", "lock-", "0000000000"] {
        zk.create(&format!("{PATH}/{name}"), "").parents().await.unwrap();
    }
    let candidate = election(&zk, "a");
    let leadership = within(candidate.campaign()).await.unwrap();
    assert_eq!(candidate.contenders().await.unwrap().len(), 1);
    within(leadership.resign()).await.unwrap();
    assert_eq!(line(&zk).await.len(), 4);
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for path in ["", "/", "no-slash", "/a//b", "/a/", "/a/../b", "/a\0b"] {
        assert!(Election::new(&zk, path, "a").is_err(), "{path:?}");
        assert!(election(&zk, "a").with_epoch(path).is_err(), "{path:?}");
    }
    zk.create(EPOCH, "not json").parents().await.unwrap();
    let candidate = election(&zk, "a").with_epoch(EPOCH).unwrap();
    let mut events = candidate.events();
    let refused = within(candidate.campaign()).await.unwrap_err();
    assert!(matches!(&refused, Error::Codec { path, .. } if path == EPOCH), "{refused}");
    until(&mut events, |event| *event == ElectionEvent::Failed { error: refused.clone() }).await;
    until_line_is_empty(&zk).await;
    assert_eq!(zk.get(EPOCH).await.unwrap().data, "not json");
}

#[tokio::test]
async fn an_observer_sees_each_leader_and_their_absence() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut leaders = election(&other, "observer").observe();
    assert_eq!(within(leaders.next()).await, Some(None));
    let first = within(election(&zk, "a").campaign()).await.unwrap();
    let seen = within(leaders.next()).await.unwrap().unwrap();
    assert_eq!((seen.id.as_str(), seen.token), ("a", first.token()));
    let second = waiting(&election(&zk, "b")).await;
    within(first.resign()).await.unwrap();
    assert_eq!(within(leaders.next()).await.unwrap().unwrap().id, "b");
    drop(elected(second).await);
    assert_eq!(within(leaders.next()).await, Some(None));
    drop(leaders);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn an_observer_survives_its_session_and_ends_with_its_client() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut leaders = election(&other, "observer").observe();
    assert_eq!(within(leaders.next()).await, Some(None));
    server.expire_session(other.session().id());
    let leadership = within(election(&zk, "a").campaign()).await.unwrap();
    assert_eq!(within(leaders.next()).await.unwrap().unwrap().id, "a");
    drop(leadership);
    assert_eq!(within(leaders.next()).await, Some(None));
    other.close().await.unwrap();
    assert_eq!(within(leaders.next()).await, None);
}

#[tokio::test]
async fn every_step_of_a_candidate_is_reported() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let first = within(election(&zk, "a").campaign()).await.unwrap();
    let behind = first.term().node().rsplit('/').next().unwrap().to_owned();
    let candidate = election(&zk, "b");
    let mut events = candidate.events();
    let campaign = waiting(&candidate).await;
    within(first.resign()).await.unwrap();
    let leadership = elected(campaign).await;
    let node = leadership.term().node().rsplit('/').next().unwrap().to_owned();
    let token = leadership.token();
    within(leadership.resign()).await.unwrap();
    for expected in [
        ElectionEvent::Started,
        ElectionEvent::Offering,
        ElectionEvent::Offered { node },
        ElectionEvent::Determining,
        ElectionEvent::Determined { ahead: 1 },
        ElectionEvent::Ready { behind: behind.clone() },
        ElectionEvent::Waiting { behind },
        ElectionEvent::Determining,
        ElectionEvent::Determined { ahead: 0 },
        ElectionEvent::Elected,
        ElectionEvent::Leading { token },
        ElectionEvent::Stopping,
        ElectionEvent::Stopped,
    ] {
        assert_eq!(within(events.next()).await, Some(expected));
    }
    drop(candidate);
    assert_eq!(within(events.next()).await, None);
}

#[tokio::test]
async fn a_reader_of_events_that_is_too_slow_gets_the_newest() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let candidate = election(&zk, "a");
    let mut events = candidate.events();
    for _ in 0..20 {
        within(within(candidate.campaign()).await.unwrap().resign()).await.unwrap();
    }
    drop(candidate);
    let mut read = Vec::new();
    while let Some(event) = within(events.next()).await {
        read.push(event);
    }
    assert_eq!(read.len(), 64);
    assert_eq!(read.last(), Some(&ElectionEvent::Stopped));
}

#[tokio::test]
async fn dropping_the_future_or_the_guard_withdraws() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let first = within(election(&zk, "a").campaign()).await.unwrap();
    let candidate = election(&zk, "b");
    let mut events = candidate.events();
    let campaign = waiting(&candidate).await;
    campaign.abort();
    until(&mut events, |event| *event == ElectionEvent::Stopped).await;
    drop(first);
    until_line_is_empty(&zk).await;
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn the_epoch_counts_leaders_and_remembers_the_last() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let with_epoch = |id| election(&zk, id).with_epoch(EPOCH).unwrap();
    assert_eq!(with_epoch("a").epoch().await.unwrap(), None);
    let first = within(with_epoch("a").campaign()).await.unwrap();
    assert_eq!((first.epoch(), first.predecessor()), (Some(1), None));
    within(first.resign()).await.unwrap();

    let second = within(with_epoch("b").campaign()).await.unwrap();
    let predecessor = second.predecessor().unwrap();
    assert_eq!((predecessor.id.as_str(), predecessor.epoch), ("a", 1));
    assert_eq!(predecessor.ending, Ending::Resigned);
    assert_eq!(second.epoch(), Some(2));
    drop(second);

    let third = within(with_epoch("c").campaign()).await.unwrap();
    let predecessor = third.predecessor().unwrap();
    assert_eq!((predecessor.id.as_str(), predecessor.epoch), ("b", 2));
    assert_eq!(predecessor.ending, Ending::Unknown);
    assert_eq!(with_epoch("d").epoch().await.unwrap(), Some(3));
}

#[tokio::test]
async fn an_epoch_node_written_by_hand_deposes_the_leader() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let with_epoch = |id| election(&zk, id).with_epoch(EPOCH).unwrap();
    let leadership = within(with_epoch("a").campaign()).await.unwrap();
    let by_hand = r#"{"epoch":40,"leader":"admin","holder":"by hand"}"#;
    zk.set(EPOCH, by_hand).await.unwrap();
    within(leadership.resign()).await.unwrap();
    assert!(line(&zk).await.is_empty());
    assert_eq!(zk.get(EPOCH).await.unwrap().data, by_hand);
    let next = within(with_epoch("b").campaign()).await.unwrap();
    assert_eq!(next.epoch(), Some(41));
    assert_eq!(next.predecessor().unwrap().id, "admin");
    zk.delete(EPOCH).await.unwrap();
    within(next.resign()).await.unwrap();
    assert!(line(&zk).await.is_empty());
}

#[tokio::test]
async fn writes_of_a_former_leader_fail() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let leadership = within(election(&zk, "a").campaign()).await.unwrap();
    let term = leadership.term().clone();
    term.fenced().create("/state", "1").await.unwrap();
    within(leadership.resign()).await.unwrap();
    let refused = term.fenced().set("/state", "2").await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Deposed);
    assert_eq!(zk.get("/state").await.unwrap().data, "1");
}

#[tokio::test]
async fn a_leader_whose_node_is_deleted_notices() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let leadership = within(election(&zk, "a").campaign()).await.unwrap();
    let campaign = waiting(&election(&other, "b")).await;
    other.delete(leadership.term().node()).await.unwrap();
    within(leadership.lost()).await;
    assert!(!within(leadership.regained()).await);
    let next = elected(campaign).await;
    assert!(next.token() > leadership.token());
    assert_eq!(within(leadership.resign()).await, Err(Error::Lost));
    assert_eq!(line(&zk).await.len(), 1);
    drop(next);
}

#[tokio::test]
async fn a_selector_runs_its_work_as_often_as_requested() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let once = Selector::new(election(&zk, "a"));
    assert!(within(once.run(|term| async move { term.token() })).await.unwrap() > 0);
    until_line_is_empty(&zk).await;

    let (send, mut receive) = tokio::sync::mpsc::channel(1);
    let always = Selector::new(election(&zk, "b")).requeue(Requeue::Always);
    let running = tokio::spawn(async move {
        always
            .run(|term| {
                let send = send.clone();
                async move { send.send(term.token()).await }
            })
            .await
    });
    let mut tokens = Vec::new();
    for _ in 0..5 {
        tokens.push(within(receive.recv()).await.unwrap());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    running.abort();
    until_line_is_empty(&zk).await;
}

#[tokio::test]
async fn the_work_of_a_selector_is_dropped_when_the_leadership_is_lost() {
    struct Dropped(tokio::sync::mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    for (requeue, runs_again) in [(Requeue::Never, false), (Requeue::AfterLoss, true)] {
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        let selector = Selector::new(election(&zk, "a")).requeue(requeue);
        let running = tokio::spawn(async move {
            let work = |_| {
                let send = send.clone();
                async move {
                    let _dropped = Dropped(send.clone());
                    let _ = send.send("began");
                    std::future::pending::<()>().await;
                }
            };
            selector.run(work).await
        });
        assert_eq!(within(receive.recv()).await, Some("began"));
        server.expire_session(zk.session().id());
        assert_eq!(within(receive.recv()).await, Some("dropped"));
        if runs_again {
            assert_eq!(within(receive.recv()).await, Some("began"));
            running.abort();
        } else {
            assert_eq!(within(running).await.unwrap(), Err(Error::Lost));
        }
    }
    until_line_is_empty(&other).await;
}
