//! The recipes view against real recipes: it must show what the clients do.

use herdsman_client::Client;
use herdsman_recipes::discovery::ServiceInstance;
use herdsman_recipes::election::ElectionLayout;
use herdsman_recipes::{
    Barrier, CountDownLatch, DelayQueue, DoubleBarrier, Election, Group, HoldOptions, Layout,
    LeaderLatch, Lock, NaiveLock, PriorityQueue, Queue, Race, Registry, RwLock, Semaphore,
    TicketQueue, WorkQueue,
};
use serde_json::{Value, json};
use std::time::Duration;

use super::{alice_only, at, each, recipes, session_of, until, until_children};
use crate::api::rest::{ALICE, Ask, Rest};

async fn clients(rest: &Rest) -> (Client, Client) {
    (rest.client().await, rest.client().await)
}

#[tokio::test]
async fn a_lock_shows_its_holder_and_waiters_in_order() {
    let rest = Rest::start();
    let (one, other) = clients(&rest).await;
    for (path, layout, name) in
        [("/locks/c", Layout::Curator, "curator"), ("/locks/k", Layout::Kazoo, "kazoo")]
    {
        let lock = Lock::new(&one, path)
            .unwrap()
            .layout(layout)
            .options(&HoldOptions::new().owner("first"));
        let held = lock.acquire().await.unwrap();
        let waiting: Vec<_> = ["second", "third"]
            .into_iter()
            .map(|owner| {
                Lock::new(&other, path)
                    .unwrap()
                    .layout(layout)
                    .options(&HoldOptions::new().owner(owner))
            })
            .collect();
        let second = tokio::spawn({
            let lock = waiting[0].clone();
            async move { lock.acquire().await }
        });
        until_children(&one, path, 2).await;
        let third = tokio::spawn({
            let lock = waiting[1].clone();
            async move { lock.acquire().await }
        });
        until_children(&one, path, 3).await;

        let view = recipes(&rest);
        let lock = at(&view["locks"], path);
        assert_eq!((&lock["layout"], &lock["kind"]), (&json!(name), &json!("lock")));
        let holder = &lock["holders"][0];
        assert_eq!(holder["node"], held.name());
        assert_eq!(
            (&holder["payload"], &holder["session"]),
            (&json!("first"), &json!(session_of(&one)))
        );
        assert!(holder["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
        let stat = one.exists(held.path()).await.unwrap().unwrap();
        assert_eq!(holder["since_ms"], stat.ctime);
        let waiters = &lock["waiters"];
        assert_eq!(each(waiters, "payload"), ["second", "third"]);
        assert_eq!(each(waiters, "session"), [&json!(session_of(&other)); 2]);
        assert_eq!(waiters[0]["waits_for"], json!([held.name()]));
        assert_eq!(waiters[1]["waits_for"], json!([waiters[0]["node"]]));
        assert_eq!((&lock["holders_total"], &lock["waiters_total"]), (&json!(1), &json!(2)));

        held.release().await.unwrap();
        let held = second.await.unwrap().unwrap();
        let view = recipes(&rest);
        assert_eq!(at(&view["locks"], path)["holders"][0]["node"], held.name());
        held.release().await.unwrap();
        third.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn readers_share_a_lock_and_a_writer_waits_for_all_of_them() {
    let rest = Rest::start();
    let (one, other) = clients(&rest).await;
    let lock = RwLock::new(&one, "/rw").unwrap();
    let (first, second) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let writer = RwLock::new(&other, "/rw").unwrap();
    let _writer = tokio::spawn(async move { writer.write().await });
    until_children(&one, "/rw", 3).await;
    let view = recipes(&rest);
    let lock = at(&view["locks"], "/rw");
    assert_eq!(lock["kind"], "read-write lock");
    assert_eq!(each(&lock["holders"], "mode"), ["read", "read"]);
    assert_eq!(each(&lock["waiters"], "mode"), ["write"]);
    assert_eq!(lock["waiters"][0]["waits_for"], json!([first.name(), second.name()]));
}

#[tokio::test]
async fn two_sessions_that_wait_for_each_other_are_found() {
    let rest = Rest::start();
    let (one, other) = clients(&rest).await;
    let lock = |client: &Client, path: &str| Lock::new(client, path).unwrap();
    let _x = lock(&one, "/locks/x").acquire().await.unwrap();
    let _y = lock(&other, "/locks/y").acquire().await.unwrap();
    let (wants_y, wants_x) = (lock(&one, "/locks/y"), lock(&other, "/locks/x"));
    let _one = tokio::spawn(async move { wants_y.acquire().await });
    until_children(&one, "/locks/y", 2).await;
    assert_eq!(recipes(&rest)["deadlocks"], json!([]));
    let second = tokio::spawn(async move { wants_x.acquire().await });
    until_children(&one, "/locks/x", 2).await;

    let view = recipes(&rest);
    assert_eq!(view["deadlocks"].as_array().unwrap().len(), 1, "{view}");
    let deadlock = &view["deadlocks"][0];
    let stuck = |client: &Client, holds: &str, waits_for: &str| json!({ "session": session_of(client), "holds": holds, "waits_for": waits_for });
    let (first, then) =
        (stuck(&one, "/locks/x", "/locks/y"), stuck(&other, "/locks/y", "/locks/x"));
    let cycle = deadlock["cycle"].as_array().unwrap();
    assert!(cycle.len() == 2 && cycle.contains(&first) && cycle.contains(&then), "{deadlock}");
    assert!(deadlock["text"].as_str().unwrap().contains("waits for /locks/x held by"));

    // Releasing one of the locks breaks the cycle.
    second.abort();
    until("end of the deadlock", || (recipes(&rest)["deadlocks"] == json!([])).then_some(())).await;
}

#[tokio::test]
async fn a_semaphore_shows_its_holders_and_waiters() {
    let rest = Rest::start();
    let (one, other) = clients(&rest).await;
    let semaphore = Semaphore::new(&one, "/limits/s", 2).unwrap();
    let (first, second) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let wanted = Semaphore::new(&other, "/limits/s", 2).unwrap();
    let _third = tokio::spawn(async move { wanted.acquire().await });
    // It waits in the queue and has created its own lease, which does not count yet.
    until_children(&one, "/limits/s/leases", 3).await;
    let view = recipes(&rest);
    let lock = at(&view["locks"], "/limits/s");
    assert_eq!(lock["kind"], "semaphore");
    assert_eq!(each(&lock["holders"], "node"), [first.name(), second.name()]);
    assert_eq!(each(&lock["waiters"], "session"), [&json!(session_of(&other))]);
    assert_eq!(lock["waiters"][0]["waits_for"], json!([first.name(), second.name()]));
    assert_eq!(view["locks"].as_array().unwrap().len(), 1, "{view}");
}

#[tokio::test]
async fn elections_show_their_leader_and_candidates() {
    let rest = Rest::start();
    let (one, other) = clients(&rest).await;
    let election = Election::new(&one, "/app/leader", "host-1").unwrap();
    let leads = election.campaign().await.unwrap();
    let next = Election::new(&other, "/app/leader", "host-2").unwrap();
    let _next = tokio::spawn(async move { next.campaign().await });
    until_children(&one, "/app/leader", 2).await;
    let latch = LeaderLatch::start(&one, "/app/latch", "host-1").unwrap();
    latch.wait_for_leadership().await.unwrap();
    let _race = Race::new(&one, "/app/post", "host-1").unwrap().campaign().await.unwrap();
    let kazoo = Election::new(&one, "/elections/k", "host-1").unwrap();
    let _kazoo = kazoo.layout(ElectionLayout::Kazoo).campaign().await.unwrap();

    let view = recipes(&rest);
    let elections = &view["elections"];
    assert_eq!(each(elections, "path"), ["/app/latch", "/app/leader", "/app/post", "/elections/k"]);
    for election in elections.as_array().unwrap() {
        assert_eq!(election["leader"]["payload"], "host-1", "{election}");
        assert_eq!(election["leader"]["session"], session_of(&one));
    }
    let fair = at(elections, "/app/leader");
    assert_eq!(each(&fair["candidates"], "payload"), ["host-2"]);
    assert_eq!(fair["candidates"][0]["waits_for"], json!([fair["leader"]["node"]]));
    assert_eq!(view["locks"], json!([]));
    drop(leads);
}

#[tokio::test]
async fn queues_show_their_depth_and_what_is_in_work() {
    let rest = Rest::start();
    let client = rest.client().await;
    let plain = Queue::new(&client, "/q/plain").unwrap();
    for item in ["a", "b", "c"] {
        plain.offer(item).await.unwrap();
    }
    let work = WorkQueue::new(&client, "/q/work").unwrap();
    work.offer("a").await.unwrap();
    work.offer("b").await.unwrap();
    let _in_work = work.take().await.unwrap();
    let hour = Duration::from_secs(3600);
    DelayQueue::new(&client, "/q/delay").unwrap().offer(hour, "a").await.unwrap();
    PriorityQueue::new(&client, "/q/urgent").unwrap().offer(-5, "a").await.unwrap();
    let _ticket = TicketQueue::new(&client, "/q/tickets").unwrap().take_number().await.unwrap();
    let idle = Queue::new(&client, "/q/idle").unwrap();
    let _taker = tokio::spawn(async move { idle.take().await });
    until_children(&client, "/q/idle-consumers", 1).await;

    let view = recipes(&rest);
    let check = |path: &str, kind: &str, depth: u64, taken: Value, consumers: u64| {
        let queue = at(&view["queues"], path);
        assert_eq!((&queue["kind"], &queue["depth"]), (&json!(kind), &json!(depth)), "{queue}");
        assert_eq!((&queue["taken"], &queue["consumers_waiting"]), (&taken, &json!(consumers)));
        assert_eq!(queue["oldest_ms"].is_i64(), depth > 0);
    };
    check("/q/plain", "simple", 3, Value::Null, 0);
    check("/q/work", "work", 2, json!(1), 0);
    check("/q/delay", "delay", 1, Value::Null, 0);
    check("/q/urgent", "priority", 1, Value::Null, 0);
    check("/q/tickets", "tickets", 1, Value::Null, 0);
    check("/q/idle", "empty", 0, Value::Null, 1);
    assert_eq!(view["queues"].as_array().unwrap().len(), 6, "{view}");
    assert_eq!((&view["locks"], &view["groups"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn barriers_show_the_number_of_clients() {
    let rest = Rest::start();
    let client = rest.client().await;
    let double = DoubleBarrier::new(&client, "/jobs/42/together", 2).unwrap();
    let entering = tokio::spawn({
        let double = double.clone();
        async move { double.enter().await }
    });
    until_children(&client, "/jobs/42/together", 1).await;
    Barrier::new(&client, "/deploy/barrier").close().await.unwrap();
    let latch = CountDownLatch::new(&client, "/release/migrated", 2).unwrap();
    latch.count_down().await.unwrap();
    let barriers = |view: &Value| -> Vec<Value> {
        let shown = view["barriers"].as_array().unwrap().iter();
        shown
            .map(|one| json!([one["path"], one["kind"], one["members"], one["size"], one["open"]]))
            .collect()
    };
    let expected = [
        json!(["/deploy/barrier", "barrier", 0, null, false]),
        json!(["/jobs/42/together", "double barrier", 1, 2, false]),
        json!(["/release/migrated", "count-down latch", 1, 2, false]),
    ];
    assert_eq!(barriers(&recipes(&rest)), expected);
    let second = double.enter().await.unwrap();
    let first = entering.await.unwrap().unwrap();
    latch.count_down().await.unwrap();
    let expected = [
        json!(["/deploy/barrier", "barrier", 0, null, false]),
        json!(["/jobs/42/together", "double barrier", 2, 2, true]),
        json!(["/release/migrated", "count-down latch", 2, 2, true]),
    ];
    assert_eq!(barriers(&recipes(&rest)), expected);
    drop((first, second));
}

#[tokio::test]
async fn services_groups_and_single_locks_are_distinguished() {
    let rest = Rest::start();
    let client = rest.client().await;
    let registry: Registry<String> = Registry::new(&client, "/services").unwrap();
    let instance = ServiceInstance::new("web")
        .with_id("web-1")
        .with_address("10.0.0.1")
        .with_port(8080)
        .with_payload("zone-a".to_owned());
    let _registration = registry.register(instance).await.unwrap();
    let _member =
        Group::new(&client, "/cluster").unwrap().join("node-1", "10.0.0.1").await.unwrap();
    let _single = NaiveLock::new(&client, "/jobs/nightly").unwrap().acquire().await.unwrap();

    let view = recipes(&rest);
    let service = at(&view["services"], "/services/web");
    assert_eq!(service["name"], "web");
    let shown = &service["instances"][0];
    assert_eq!((&shown["id"], &shown["address"]), (&json!("web-1"), &json!("10.0.0.1")));
    assert_eq!((&shown["port"], &shown["payload"]), (&json!(8080), &json!("zone-a")));
    assert_eq!((&shown["session"], &shown["enabled"]), (&json!(session_of(&client)), &json!(true)));
    let members = &at(&view["groups"], "/cluster")["members"];
    assert_eq!(
        (each(members, "node"), each(members, "payload")),
        (vec![&json!("node-1")], vec![&json!("10.0.0.1")])
    );
    assert_eq!(view["groups"].as_array().unwrap().len(), 1, "{view}");
    let lock = at(&view["locks"], "/jobs/nightly");
    assert_eq!((&lock["layout"], &lock["kind"]), (&json!("herdsman"), &json!("lock")));
    assert_eq!(lock["holders"][0]["session"], session_of(&client));
}

#[tokio::test]
async fn unreadable_nodes_are_not_shown() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.authenticate("digest", ALICE).await.unwrap();
    client.create("/secret", "").acl(alice_only()).await.unwrap();
    let _hidden = Lock::new(&client, "/secret/lock").unwrap().acquire().await.unwrap();
    let shown = Lock::new(&client, "/open/lock").unwrap().acquire().await.unwrap();
    // A node that only Alice may read, in a directory that everyone may read.
    let node = "/open/lock/_c_x-lock-";
    client.create(node, "alice").ephemeral().sequential().acl(alice_only()).await.unwrap();

    let view = recipes(&rest);
    assert_eq!(each(&view["locks"], "path"), ["/open/lock"]);
    let lock = at(&view["locks"], "/open/lock");
    assert_eq!(
        (each(&lock["holders"], "node"), &lock["waiters"]),
        (vec![&json!(shown.name())], &json!([]))
    );
    assert!(!view.to_string().contains("secret"), "{view}");

    let view = rest.ask(&Ask::get("/api/v1/recipes").user(ALICE)).ok();
    assert_eq!(each(&view["locks"], "path"), ["/open/lock", "/secret/lock"]);
    assert_eq!(each(&at(&view["locks"], "/open/lock")["waiters"], "payload"), ["alice"]);

    let refusal = rest.get("/api/v1/recipes?path=/secret").refusal();
    assert_eq!(refusal, (403, "NoAuth".to_owned()));
}

#[tokio::test]
async fn a_part_of_the_tree_can_be_requested() {
    let rest = Rest::start();
    let client = rest.client().await;
    let _a = Lock::new(&client, "/a/lock").unwrap().acquire().await.unwrap();
    let _b = Lock::new(&client, "/b/lock").unwrap().acquire().await.unwrap();
    let view = rest.get("/api/v1/recipes?path=/a").ok();
    assert_eq!(each(&view["locks"], "path"), ["/a/lock"]);
    assert_eq!((&view["scanned"], &view["truncated"]), (&json!(3), &json!(false)));
    let view = rest.get("/api/v1/recipes?path=/a/lock").ok();
    assert_eq!(each(&view["locks"], "path"), ["/a/lock"]);
    let refusal = |target: &str| rest.get(target).refusal();
    assert_eq!(refusal("/api/v1/recipes?path=/none"), (404, "NoNode".to_owned()));
    assert_eq!(refusal("/api/v1/recipes?path=a//b"), (400, "BadRequest".to_owned()));
}
