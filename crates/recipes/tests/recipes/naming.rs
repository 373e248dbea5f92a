//! Names: unique, hierarchical, with aliases, whatever replies are lost.

use herdsman_client::{Client, ErrorKind, Outcome};
use herdsman_recipes::naming::{Resolved, SessionName};
use herdsman_recipes::{Error, NameRegistry};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};
use crate::lock_loss::sweep;

fn registry(zk: &Client) -> NameRegistry {
    NameRegistry::new(zk, "/names").unwrap()
}

async fn payload_of(names: &NameRegistry, name: &str) -> Option<String> {
    let found = within(names.lookup(name)).await.unwrap()?;
    Some(String::from_utf8(found.payload.to_vec()).unwrap())
}

fn is_taken<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| error.client_kind() == Some(&ErrorKind::NodeExists))
}

async fn until_unbound(names: &NameRegistry, name: &str) {
    within(async { while names.lookup(name).await.unwrap().is_some() {} }).await;
}

#[tokio::test]
async fn names_are_unique_and_found_by_others() {
    let server = TestServer::start();
    let (ours, theirs) = (registry(&client(&server).await), registry(&client(&server).await));
    ours.bind("a/b/c", "1").await.unwrap();
    assert_eq!(payload_of(&theirs, "a/b/c").await.as_deref(), Some("1"));
    let refused = theirs.bind("a/b/c", "2").await.unwrap_err();
    assert_eq!(refused.client_kind(), Some(&ErrorKind::NodeExists));
    assert_eq!(refused.outcome(), Outcome::NotApplied);
    assert!(is_taken(theirs.bind_for_session("a/b/c", "2").await));
    assert!(is_taken(theirs.alias("a/b/c", "x").await));
    assert_eq!(payload_of(&theirs, "a").await, None);
    // A name above others can be bound, and unbound again.
    theirs.bind("a/b", "").await.unwrap();
    assert_eq!(payload_of(&ours, "a/b").await.as_deref(), Some(""));
    assert_eq!(ours.list("a").await.unwrap(), ["b"]);
    assert_eq!(ours.list("a/b").await.unwrap(), ["c"]);
    ours.unbind("a/b").await.unwrap();
    ours.unbind("a/b").await.unwrap();
    assert_eq!(payload_of(&theirs, "a/b").await, None);
    assert_eq!(payload_of(&theirs, "a/b/c").await.as_deref(), Some("1"));
    theirs.rebind("a/b/c", "3").await.unwrap();
    assert_eq!(payload_of(&ours, "a/b/c").await.as_deref(), Some("3"));
    let missing = theirs.rebind("a/x", "3").await.unwrap_err();
    assert_eq!(missing.client_kind(), Some(&ErrorKind::NoNode));
    assert_eq!(ours.list("nothing").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_of_a_session_ends_with_it_and_its_holder_notices() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let (ours, theirs) = (registry(&zk), registry(&other));
    let held = within(ours.bind_for_session("hosts/web", "1")).await.unwrap();
    assert_eq!((held.name(), held.is_trusted()), ("hosts/web", true));
    assert!(is_taken(theirs.bind("hosts/web", "2").await));
    theirs.bind("hosts/web/disk", "below").await.unwrap();
    server.expire_session(zk.session().id());
    within(held.lost()).await;
    assert!(!held.is_trusted());
    until_unbound(&theirs, "hosts/web").await;
    let next = within(theirs.bind_for_session("hosts/web", "2")).await.unwrap();
    assert!(next.token() > held.token());
    assert_eq!(within(held.unbind()).await, Err(Error::Lost));
    assert_eq!(payload_of(&ours, "hosts/web").await.as_deref(), Some("2"));
    // Another client may unbind it.
    ours.unbind("hosts/web").await.unwrap();
    within(next.lost()).await;
    let again = within(theirs.bind_for_session("hosts/web", "3")).await.unwrap();
    drop(next);
    other.sync("/").await.unwrap();
    assert_eq!(payload_of(&ours, "hosts/web").await.as_deref(), Some("3"), "not the former's");
    std::thread::spawn(move || drop(again)).join().unwrap();
    until_unbound(&ours, "hosts/web").await;
    eventually(|| server.ephemerals(other.session().id()).is_empty()).await;
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn aliases_are_followed_and_loops_are_reported() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let names = registry(&zk).aliases_max(3);
    names.alias("b", "c/d").await.unwrap();
    names.alias("a", "b").await.unwrap();
    assert_eq!(payload_of(&names, "a").await, None, "there is nothing at its end yet");
    names.bind("c/d", "x").await.unwrap();
    let found = names.lookup("a").await.unwrap();
    let (name, payload) = found.map(|Resolved { name, payload, .. }| (name, payload)).unwrap();
    assert_eq!((&*name, &payload[..]), ("c/d", &b"x"[..]));
    let text = |error: Error| error.to_string();
    let refused = text(names.alias("self", "self").await.unwrap_err());
    assert!(refused.ends_with("its aliases form a loop: self -> self"), "{refused}");
    names.unbind("c/d").await.unwrap();
    let refused = text(names.alias("c/d", "a").await.unwrap_err());
    assert!(refused.ends_with("a loop: c/d -> a -> b -> c/d"), "{refused}");
    assert_eq!(payload_of(&names, "c/d").await, None, "it was not made");
    // Two that were made at the same time, neither of which could know of the other.
    for (name, other) in [("one", "two"), ("two", "one")] {
        zk.create(&format!("/names/{name}/@value"), format!("{{\"alias\":{other:?}}}\n"))
            .parents()
            .await
            .unwrap();
    }
    let cached = within(names.cached()).await.unwrap();
    let expected = "the name one cannot be resolved: its aliases form a loop: one -> two -> one";
    assert_eq!(text(names.lookup("one").await.unwrap_err()), expected);
    assert_eq!(text(cached.lookup("one").unwrap_err()), expected);
    names.rebind("two", "y").await.unwrap();
    assert_eq!(payload_of(&names, "one").await.as_deref(), Some("y"));
    for (name, other) in [("4", "5"), ("3", "4"), ("2", "3")] {
        names.alias(name, other).await.unwrap();
    }
    assert!(matches!(names.alias("1", "2").await, Err(Error::Unresolvable { .. })));
    assert_eq!(payload_of(&names, "2").await, None);
    zk.create("/names/bad/@value", "no header").parents().await.unwrap();
    assert!(matches!(names.lookup("bad").await, Err(Error::Codec { .. })));
}

#[tokio::test]
async fn cached_names_are_looked_up_without_a_request() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, behind) = (client(&server).await, client_behind(&proxy).await);
    let names = registry(&zk);
    names.bind("a/b", "1").await.unwrap();
    names.alias("c", "a/b").await.unwrap();
    names.next_id("a").await.unwrap();
    let cached = within(registry(&behind).cached()).await.unwrap();
    let before = proxy.traffic().requests_in_all();
    assert_eq!(cached.lookup("c").unwrap().unwrap().payload, "1");
    assert_eq!(cached.lookup("none").unwrap(), None);
    assert!(cached.lookup("a//b").is_err());
    assert!(cached.is_synced());
    assert_eq!(proxy.traffic().requests_in_all(), before);
    names.rebind("a/b", "2").await.unwrap();
    let is_two = |found: Option<&Resolved>| found.is_some_and(|found| found.payload == "2");
    within(cached.wait_until("c", is_two)).await.unwrap();
    names.unbind("c").await.unwrap();
    assert_eq!(within(cached.wait_until("c", |found| found.is_none())).await.unwrap(), None);
    proxy.partition();
    names.unbind("a/b").await.unwrap();
    assert_eq!(cached.lookup("a/b").unwrap().unwrap().payload, "2", "the last known state");
    proxy.heal();
    within(cached.wait_until("a/b", |found| found.is_none())).await.unwrap();
    behind.close().await.unwrap();
    let closed = within(cached.wait_until("a/b", |found| found.is_some())).await.unwrap_err();
    assert_eq!(closed.client_kind(), Some(&ErrorKind::Closed));
}

#[tokio::test]
async fn ids_below_a_name_are_issued_once_and_are_not_names() {
    let server = TestServer::start();
    let (ours, theirs) = (registry(&client(&server).await), registry(&client(&server).await));
    let mut ids = Vec::new();
    for names in [&ours, &theirs, &ours] {
        ids.push(names.next_id("jobs").await.unwrap());
    }
    assert_eq!(ids, [0, 1, 2]);
    assert_eq!(theirs.next_id("other").await, Ok(0));
    assert_eq!(ours.list("jobs").await.unwrap(), Vec::<String>::new());
    ours.bind(&format!("jobs/{}", ids[2]), "x").await.unwrap();
    assert_eq!(ours.list("jobs").await.unwrap(), ["2"]);
}

#[tokio::test]
async fn a_cut_at_any_request_binds_and_unbinds_once() {
    sweep(async |run| {
        let names = NameRegistry::new(&run.zk, &run.path).unwrap();
        let others = NameRegistry::new(&client(run.server).await, &run.path).unwrap();
        names.bind("a/b", "1").await.unwrap();
        names.alias("c", "a/b").await.unwrap();
        names.rebind("a/b", "2").await.unwrap();
        assert_eq!(payload_of(&others, "c").await.as_deref(), Some("2"));
        names.unbind("a/b").await.unwrap();
        others.bind("a/b", "3").await.unwrap();
        let held: SessionName = names.bind_for_session("a", "4").await.unwrap();
        assert_eq!(run.own_nodes(), [format!("{}/a/@value", run.path)]);
        held.unbind().await.unwrap();
        assert_eq!(payload_of(&others, "a").await, None);
        assert_eq!(payload_of(&others, "a/b").await.as_deref(), Some("3"));
    })
    .await;
}

#[tokio::test]
async fn a_lost_reply_to_unbinding_does_not_unbind_the_next_one() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, behind) = (client(&server).await, client_behind(&proxy).await);
    let (ours, theirs) = (registry(&behind), registry(&zk));
    ours.bind("a", "1").await.unwrap();
    let rule = proxy.once(OpCode::Delete, Fault::HoldReply);
    let unbinding = tokio::spawn(async move { ours.unbind("a").await });
    within(rule.until_fired()).await;
    theirs.bind("a", "2").await.unwrap();
    proxy.cut();
    within(unbinding).await.unwrap().unwrap();
    assert_eq!(payload_of(&theirs, "a").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_lost_reply_to_binding_is_unknown_if_another_has_the_name_by_now() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, behind) = (client(&server).await, client_behind(&proxy).await);
    let (ours, theirs) = (registry(&behind), registry(&zk));
    let rule = Rule::new(Fault::HoldReply).on(OpCode::Create2).path_containing("@value");
    let rule = proxy.add_rule(rule);
    theirs.bind("a/x", "").await.unwrap();
    let binding = tokio::spawn(async move { ours.bind("a", "1").await });
    within(rule.until_fired()).await;
    theirs.unbind("a").await.unwrap();
    theirs.bind("a", "2").await.unwrap();
    proxy.cut();
    let error = within(binding).await.unwrap().unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::NodeExists));
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_binding_for_a_session_that_is_dropped_leaves_nothing() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, behind) = (client(&server).await, client_behind(&proxy).await);
    registry(&zk).bind("a/x", "").await.unwrap();
    let rule = proxy.once(OpCode::Create2, Fault::HoldReply);
    let names = registry(&behind);
    let binding = tokio::spawn(async move { names.bind_for_session("a", "1").await });
    within(rule.until_fired()).await;
    assert!(registry(&zk).lookup("a").await.unwrap().is_some());
    binding.abort();
    rule.release();
    until_unbound(&registry(&zk), "a").await;
}

#[tokio::test]
async fn bad_names_are_refused_and_leave_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for base in ["", "/", "names", "/a//b"] {
        assert!(NameRegistry::new(&zk, base).is_err(), "{base:?}");
    }
    let names = registry(&zk);
    for name in ["", "/a", "a/", "a//b", "@value", "a/@ids", "a/..", "a\0"] {
        assert!(names.bind(name, "").await.is_err(), "{name:?}");
        assert!(names.bind_for_session(name, "").await.is_err(), "{name:?}");
        assert!(names.alias(name, "a").await.is_err(), "{name:?}");
        assert!(names.alias("a", name).await.is_err(), "{name:?}");
        assert!(names.lookup(name).await.is_err(), "{name:?}");
        assert!(names.list(name).await.is_err(), "{name:?}");
        assert!(names.next_id(name).await.is_err(), "{name:?}");
    }
    assert!(zk.exists("/names").await.unwrap().is_none());
}
