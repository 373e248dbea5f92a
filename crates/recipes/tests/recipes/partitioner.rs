//! Items divided among members: never two owners, and in the end always one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use herdsman_client::{Client, ConnectionState, EventType, PersistentWatch, WatchUpdate};
use herdsman_recipes::partitioner::{Partitioner, Release, Update};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{SESSION_TIMEOUT, client, client_behind, eventually, within};

fn items(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("i{number:02}")).collect()
}

async fn join(zk: &Client, member: &str, count: usize) -> Partitioner {
    let options = Partitioner::of(zk, "/p", member, items(count));
    within(options.settle(Duration::from_millis(20)).join()).await.unwrap()
}

/// The names of the items that the next update reports as acquired.
async fn acquired(partitioner: &mut Partitioner) -> BTreeSet<String> {
    match within(partitioner.next()).await {
        Some(Update::Acquired(items)) => items.into_iter().map(|owned| owned.item).collect(),
        other => panic!("{other:?}"),
    }
}

async fn release(partitioner: &mut Partitioner) -> Release {
    match within(partitioner.next()).await {
        Some(Update::Release(release)) => release,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_member_gets_everything_and_leaves_nothing() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut alone = join(&zk, "a", 5).await;
    assert_eq!(acquired(&mut alone).await.len(), 5);
    assert_eq!(alone.owned().len(), 5);
    let owner = other.get("/p/owners/i00").await.unwrap().data;
    assert!(owner.starts_with(br#"{"member":"a","#), "{owner:?}");
    within(alone.leave()).await;
    assert_eq!(server.ephemerals(zk.session().id()), Vec::<String>::new());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_new_member_gets_items_only_after_they_were_released() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = join(&zk, "a", 4).await;
    acquired(&mut a).await;
    let mut b = join(&other, "b", 4).await;
    let asked = release(&mut a).await;
    let moving: BTreeSet<String> = asked.items().map(str::to_owned).collect();
    assert_eq!(moving.len(), 2, "no more than needed");
    assert_eq!((a.owned().len(), b.owned().len()), (4, 0), "not confirmed yet");
    for item in &moving {
        let owner = zk.get(&format!("/p/owners/{item}")).await.unwrap().stat.ephemeral_owner;
        assert_eq!(owner, zk.session().id().0);
    }
    asked.confirm();
    let mut got = BTreeSet::new();
    while got.len() < 2 {
        got.extend(acquired(&mut b).await);
    }
    assert_eq!(got, moving);
    within(b.leave()).await;
    let mut back = BTreeSet::new();
    while back.len() < 2 {
        back.extend(acquired(&mut a).await);
    }
    assert_eq!(back, moving);
}

#[tokio::test]
async fn members_that_share_a_client_do_not_take_each_others_items() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut a = join(&zk, "a", 4).await;
    acquired(&mut a).await;
    let mut b = join(&zk, "b", 4).await;
    release(&mut a).await.confirm();
    let mut got = BTreeSet::new();
    while got.len() < 2 {
        got.extend(acquired(&mut b).await);
    }
    within(b.leave()).await;
    let mut back = BTreeSet::new();
    while back.len() < 2 {
        back.extend(acquired(&mut a).await);
    }
    assert_eq!(back, got);
}

/// Owner nodes of the same id and session used to be taken for a member's own.
#[tokio::test]
async fn members_with_one_id_on_one_client_do_not_take_each_others_items() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut first = join(&zk, "a", 2).await;
    assert_eq!(acquired(&mut first).await.len(), 2);
    let mut second = join(&zk, "a", 3).await;
    assert_eq!(acquired(&mut second).await, BTreeSet::from(["i02".to_owned()]));
    within(first.leave()).await;
    let mut got = BTreeSet::new();
    while got.len() < 2 {
        got.extend(acquired(&mut second).await);
    }
    assert_eq!(second.owned().len(), 3);
}

/// A member that waited for a reply used not to notice that its session was lost before it gave up on that reply,
/// after several session timeouts.
#[tokio::test]
async fn a_member_that_waits_for_a_reply_knows_when_its_items_are_lost() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let mut a = join(&zk, "a", 4).await;
    acquired(&mut a).await;
    let mut b = join(&other, "b", 4).await;
    release(&mut a).await.confirm();
    let mut got = BTreeSet::new();
    while got.len() < 2 {
        got.extend(acquired(&mut b).await);
    }
    let held = proxy.add_rule(
        Rule::new(Fault::HoldRequest).on(OpCode::Create2).path_containing("/p/owners/").always(),
    );
    within(b.leave()).await;
    within(held.until_fired()).await;
    proxy.partition();
    assert_eq!(a.owned().len(), 2);
    let session = zk.session();
    within(session.wait_for(|state| state == ConnectionState::Lost || state.is_final())).await;
    // The clock does not advance between the two.
    let noticed = tokio::time::timeout(SESSION_TIMEOUT / 4, async {
        while !a.owned().is_empty() {
            tokio::task::yield_now().await;
        }
    });
    noticed.await.expect("the loss of the items is noticed with that of the session");
    assert!(matches!(within(a.next()).await, Some(Update::Lost(lost)) if lost.len() == 2));
}

/// A user that reads no updates must not keep the member from noticing anything.
#[tokio::test]
async fn a_member_whose_updates_are_not_read_knows_when_its_items_are_lost() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut a = join(&zk, "a", 1).await;
    // Eight updates may wait, and each round makes two. The last ones do not fit.
    for _ in 0..5 {
        eventually(|| a.owned().len() == 1).await;
        server.expire_session(zk.session().id());
        eventually(|| a.owned().is_empty()).await;
    }
    for _ in 0..5 {
        assert_eq!(acquired(&mut a).await.len(), 1);
        assert!(matches!(within(a.next()).await, Some(Update::Lost(_))));
    }
    assert_eq!(acquired(&mut a).await.len(), 1);
}

#[tokio::test]
async fn dropping_a_partitioner_releases_its_items() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = join(&zk, "a", 2).await;
    acquired(&mut a).await;
    drop(a);
    let mut b = join(&other, "b", 2).await;
    let mut got = BTreeSet::new();
    while got.len() < 2 {
        got.extend(acquired(&mut b).await);
    }
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

/// A session that was given up may turn out to be alive, and with it the owner nodes.
#[tokio::test]
async fn a_member_that_leaves_without_a_connection_keeps_no_items() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let mut a = join(&zk, "a", 2).await;
    acquired(&mut a).await;
    let session = zk.session();
    server.kill();
    assert!(matches!(within(a.next()).await, Some(Update::Lost(lost)) if lost.len() == 2));
    drop(a);
    server.start_again();
    within(session.wait_for(|state| state.is_connected())).await;
    eventually(|| server.ephemerals(session.id()).is_empty()).await;
    assert!(server.has_session(session.id()));
}

#[tokio::test]
async fn a_member_that_leaves_before_it_knows_of_an_item_does_not_keep_it() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    other.create("/p/owners", "").parents().await.unwrap();
    let rule = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).path_containing("/owners/i00");
    let lost = proxy.add_rule(rule);
    // The open connection stays until the reply is lost.
    proxy.refuse_connections();
    let a = join(&zk, "a", 1).await;
    within(lost.until_fired()).await;
    assert!(other.exists("/p/owners/i00").await.unwrap().is_some());
    drop(a);
    proxy.accept_connections();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

#[tokio::test]
async fn the_end_of_a_session_is_reported_and_tokens_grow() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = join(&zk, "a", 2).await;
    acquired(&mut a).await;
    let tokens: BTreeMap<_, _> =
        a.owned().into_iter().map(|owned| (owned.item, owned.token)).collect();
    let mut b = join(&other, "b", 2).await;
    let asked = release(&mut a).await;
    server.expire_session(zk.session().id());
    let Some(Update::Lost(lost)) = within(a.next()).await else { panic!("it is lost") };
    assert_eq!(lost.len(), 2);
    // A confirmation that arrives too late must not take away what is acquired meanwhile.
    let confirmed_late = asked;
    let mut seen = 0;
    while seen < 1 {
        seen += acquired(&mut b).await.len();
    }
    eventually(|| a.owned().len() + b.owned().len() == 2).await;
    confirmed_late.confirm();
    for owned in a.owned().into_iter().chain(b.owned()) {
        assert!(owned.token > tokens[&owned.item]);
    }
}

fn tokens(partitioner: &Partitioner) -> BTreeMap<String, u64> {
    partitioner.owned().into_iter().map(|owned| (owned.item, owned.token)).collect()
}

/// The session turns out to be alive, so the items are acquired again with the same owner nodes.
#[tokio::test]
async fn a_confirmation_from_before_a_loss_gives_up_nothing() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = join(&zk, "a", 4).await;
    assert_eq!(acquired(&mut a).await.len(), 4);
    let before = tokens(&a);
    let b = join(&other, "b", 4).await;
    let late = release(&mut a).await;
    within(b.leave()).await;
    server.kill();
    assert!(matches!(within(a.next()).await, Some(Update::Lost(lost)) if lost.len() == 4));
    server.start_again();
    assert_eq!(acquired(&mut a).await.len(), 4);
    assert_eq!(tokens(&a), before);
    late.confirm();
    // It is handled before the next request to release.
    let _c = join(&other, "c", 4).await;
    let _asked = release(&mut a).await;
    assert_eq!(tokens(&a), before);
}

/// The member's task cannot notice it while the program blocks its thread.
#[tokio::test]
async fn a_blocked_program_owns_nothing_after_a_session_timeout() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut a = join(&zk, "a", 2).await;
    acquired(&mut a).await;
    assert_eq!(a.owned().len(), 2);
    std::thread::sleep(zk.session().timeout());
    assert_eq!(a.owned(), []);
}

#[tokio::test]
async fn a_deleted_owner_node_is_a_lost_item() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = join(&zk, "a", 2).await;
    acquired(&mut a).await;
    other.delete("/p/owners/i01").await.unwrap();
    let Some(Update::Lost(lost)) = within(a.next()).await else { panic!("it is lost") };
    assert_eq!(lost, BTreeSet::from(["i01".to_owned()]));
    assert_eq!(acquired(&mut a).await, lost);
}

#[tokio::test]
async fn foreign_nodes_are_left_alone() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/p/owners/foreign", "?").parents().await.unwrap();
    zk.create("/p/owners/i00", "by hand").await.unwrap();
    let mut a = join(&zk, "a", 2).await;
    assert_eq!(acquired(&mut a).await, BTreeSet::from(["i01".to_owned()]));
    zk.delete("/p/owners/i00").await.unwrap();
    assert_eq!(acquired(&mut a).await, BTreeSet::from(["i00".to_owned()]));
    assert_eq!(zk.get("/p/owners/foreign").await.unwrap().data, "?");
}

#[tokio::test]
async fn an_item_whose_creation_was_not_answered_is_still_ours() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let rule = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).path_containing("/owners/i01");
    let lost = proxy.add_rule(rule);
    let mut a = join(&zk, "a", 3).await;
    let mut got = BTreeSet::new();
    while got.len() < 3 {
        got.extend(acquired(&mut a).await);
    }
    assert_eq!(lost.fired(), 1);
    // The same for the deletion of what was released.
    let lost = proxy.once(OpCode::Delete, Fault::CutBeforeReply);
    let mut b = join(&other, "b", 3).await;
    release(&mut a).await.confirm();
    assert_eq!(acquired(&mut b).await.len(), 1);
    eventually(|| lost.fired() == 1).await;
    eventually(|| (a.owned().len(), b.owned().len()) == (2, 1)).await;
}

#[tokio::test]
async fn it_survives_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = join(&zk, "a", 2).await;
    acquired(&mut a).await;
    server.restart();
    let mut b = join(&other, "b", 2).await;
    release(&mut a).await.confirm();
    assert_eq!(acquired(&mut b).await.len(), 1);
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let none: [&str; 0] = [];
    within(Partitioner::of(&zk, "/p", "a", none).join()).await.unwrap_err();
    for (path, member, item) in [
        ("p", "a", "i"),
        ("", "a", "i"),
        ("/p", "", "i"),
        ("/p", "a/b", "i"),
        ("/p", "a", ""),
        ("/p", "a", "i/j"),
        ("/p", "a", ".."),
    ] {
        within(Partitioner::of(&zk, path, member, [item]).join()).await.unwrap_err();
    }
    assert!(zk.exists("/p").await.unwrap().is_none());
}

/// The worker of each item, as the members themselves know it. Entering twice is the error that this recipe must
/// prevent.
#[derive(Clone, Default)]
struct Workers(Arc<Mutex<BTreeMap<String, String>>>);

impl Workers {
    fn enter(&self, member: &str, item: &str) {
        let before = self.0.lock().unwrap().insert(item.to_owned(), member.to_owned());
        assert_eq!(before, None, "{item} has two workers, now {member}");
    }

    fn leave(&self, item: &str) {
        self.0.lock().unwrap().remove(item);
    }

    /// Returns whether all items are worked on, by all members, and no member has two more than another.
    fn is_shared_evenly(&self, items: usize, members: usize) -> bool {
        let workers = self.0.lock().unwrap();
        let mut shares = BTreeMap::<&str, usize>::new();
        for worker in workers.values() {
            *shares.entry(worker).or_default() += 1;
        }
        let least = shares.values().min().copied().unwrap_or_default();
        let most = shares.values().max().copied().unwrap_or_default();
        workers.len() == items && shares.len() == members && most - least <= 1
    }
}

/// Works until it receives the signal to stop.
async fn work(
    zk: Client,
    member: String,
    count: usize,
    workers: Workers,
    stop: tokio::sync::oneshot::Receiver<()>,
) {
    let mut partitioner = join(&zk, &member, count).await;
    let mut ours = BTreeSet::new();
    let mut stop = stop;
    loop {
        let update = tokio::select! {
            update = partitioner.next() => update.expect("the client lives"),
            _ = &mut stop => break,
        };
        match update {
            Update::Acquired(items) => {
                for owned in items {
                    workers.enter(&member, &owned.item);
                    ours.insert(owned.item);
                }
            }
            Update::Release(release) => {
                // Stopping takes a while; the items must wait for that.
                tokio::time::sleep(Duration::from_millis(20)).await;
                for item in release.items() {
                    workers.leave(item);
                    ours.remove(item);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    for item in &ours {
        workers.leave(item);
    }
    // Items that were acquired, but whose update was not read, were not worked on.
    within(partitioner.leave()).await;
}

#[tokio::test]
async fn members_that_join_and_leave_never_work_on_the_same_item() {
    const ITEMS: usize = 12;
    let server = TestServer::start();
    let workers = Workers::default();
    let mut rng = fastrand::Rng::with_seed(4);
    let mut members = Vec::new();
    for round in 0..14 {
        if members.len() < 2 || (members.len() < 5 && rng.bool()) {
            let (stop, stopped) = tokio::sync::oneshot::channel();
            let zk = client(&server).await;
            let member = format!("m{round}");
            let working = work(zk, member, ITEMS, workers.clone(), stopped);
            members.push((stop, tokio::spawn(working)));
        } else {
            let (stop, working) = members.swap_remove(rng.usize(..members.len()));
            stop.send(()).unwrap();
            within(working).await.unwrap();
        }
        eventually(|| {
            assert!(members.iter().all(|(_, working)| !working.is_finished()));
            workers.is_shared_evenly(ITEMS, members.len())
        })
        .await;
    }
}

/// Reads the history of the owner nodes until it has seen `end`: creation and deletion must alternate, or the item
/// had two owners. Returns how often items changed owners.
async fn check_history(mut history: PersistentWatch, end: &str) -> usize {
    let mut alive = BTreeSet::new();
    let mut created = 0;
    loop {
        let WatchUpdate::Event(event) = within(history.next()).await.expect("the stream continues")
        else {
            panic!("part of the history is missing");
        };
        let item = event.path.strip_prefix("/p/owners/").unwrap_or_default().to_owned();
        if item == end {
            return created;
        }
        match event.kind {
            EventType::NodeCreated if !item.is_empty() => {
                assert!(alive.insert(item.clone()), "{item} was created twice");
                created += 1;
            }
            EventType::NodeDeleted if !item.is_empty() => {
                assert!(alive.remove(&item), "{item} was deleted twice");
            }
            _ => {}
        }
    }
}

/// Reads updates and confirms what is asked, until the task is aborted.
async fn confirm_all(mut partitioner: Partitioner, tokens: Arc<Mutex<BTreeMap<String, u64>>>) {
    while let Some(update) = partitioner.next().await {
        if let Update::Acquired(items) = update {
            for owned in items {
                let before = tokens.lock().unwrap().insert(owned.item, owned.token);
                assert!(before.is_none_or(|before| before != owned.token), "one token, two owners");
            }
        }
    }
}

#[tokio::test]
async fn members_that_die_at_random_lose_no_item() {
    const ITEMS: usize = 8;
    let server = TestServer::start();
    let reader = client(&server).await;
    let history = reader.watch("/p/owners").recursive().await.unwrap();
    let tokens = Arc::<Mutex<BTreeMap<String, u64>>>::default();
    let mut rng = fastrand::Rng::with_seed(9);
    let mut members = Vec::new();
    for number in 0..3 {
        let zk = client(&server).await;
        let partitioner = join(&zk, &format!("m{number}"), ITEMS).await;
        members.push((zk, tokio::spawn(confirm_all(partitioner, tokens.clone()))));
    }
    for round in 3..15 {
        let victim = rng.usize(..members.len());
        if rng.bool() {
            // It joins again in its next session.
            server.expire_session(members[victim].0.session().id());
        } else {
            // It does not return, and another one joins.
            let (zk, working) = members.swap_remove(victim);
            working.abort();
            server.expire_session(zk.session().id());
            drop(zk);
            let zk = client(&server).await;
            let partitioner = join(&zk, &format!("m{round}"), ITEMS).await;
            members.push((zk, tokio::spawn(confirm_all(partitioner, tokens.clone()))));
        }
    }
    within(async {
        let all: BTreeSet<String> = items(ITEMS).into_iter().collect();
        loop {
            let owners = reader.children("/p/owners").watch().await;
            match owners {
                Ok((owners, _)) if owners.names.iter().cloned().collect::<BTreeSet<_>>() == all => {
                    break;
                }
                Ok((_, watch)) => drop(watch.await),
                // The server deletes a container without children.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert!(members.iter().all(|(_, working)| !working.is_finished()));
    reader.create("/p/owners/the-end", "").await.unwrap();
    assert!(check_history(history, "the-end").await >= ITEMS);
}
