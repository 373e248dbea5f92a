//! Masters that share one node at a fixed path instead of a line.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::master_worker::{Ending, Failure, Master, Role, Submitter, Task, Worker};
use herdsman_recipes::{Error, Events};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};
use crate::master_worker::assert_settled;

const NODE: &str = "/mw/master";

fn master(zk: &Client, id: &str) -> Master {
    Master::new(zk, "/mw").unwrap().id(id).single_node()
}

fn run(master: Master) -> (JoinHandle<Result<(), Error>>, Events<Role>) {
    let roles = master.roles();
    (tokio::spawn(async move { master.run().await }), roles)
}

async fn until(roles: &mut Events<Role>, role: Role) {
    while within(roles.next()).await != Some(role) {}
}

fn run_shouter(zk: &Client) -> JoinHandle<Result<(), Error>> {
    let worker = Worker::new(zk, "/mw", "w").unwrap();
    let shout = async |task: Task| Ok::<_, Failure>(task.payload().to_ascii_uppercase());
    tokio::spawn(async move { worker.run(shout).await })
}

async fn does_a_task(zk: &Client, payload: &'static str) {
    let submitter = Submitter::new(zk, "/mw").unwrap();
    let task = within(submitter.submit(payload)).await.unwrap();
    let expected = Bytes::from(payload.to_ascii_uppercase());
    assert_eq!(within(submitter.result(&task)).await.unwrap(), Ending::Done(expected));
}

#[tokio::test]
async fn the_next_master_takes_the_one_node_when_the_session_ends() {
    let server = TestServer::start();
    let (zk, other, third) = (client(&server).await, client(&server).await, client(&server).await);
    let (first, mut roles) = run(master(&zk, "first"));
    until(&mut roles, Role::Active).await;
    let node = third.get(NODE).await.unwrap();
    assert_eq!((node.data, node.stat.ephemeral_owner), ("first".into(), zk.session().id().0));
    let (_second, mut second_roles) = run(master(&other, "second"));
    let worker = run_shouter(&third);
    does_a_task(&third, "a").await;
    server.expire_session(zk.session().id());
    until(&mut second_roles, Role::Active).await;
    until(&mut roles, Role::Backup).await;
    assert_eq!(third.get(NODE).await.unwrap().data, "second");
    does_a_task(&third, "b").await;
    assert!(!first.is_finished(), "it stands by");
    first.abort();
    worker.abort();
    let _ = (first.await, worker.await);
    assert_settled(&third, 2).await;
}

#[tokio::test]
async fn a_step_of_a_master_that_was_deposed_is_refused() {
    let server = TestServer::start();
    let proxies = [TestProxy::start(server.address()), TestProxy::start(server.address())];
    let (first, second) = (client_behind(&proxies[0]).await, client_behind(&proxies[1]).await);
    let zk = client(&server).await;
    zk.create("/mw/assign/w", "").parents().await.unwrap();
    let hold = Rule::new(Fault::HoldRequest).on(OpCode::Multi).path_containing("/mw/assign/w/");
    let held = proxies.each_ref().map(|proxy| proxy.add_rule(hold.clone()));
    let (_first, mut first_roles) = run(master(&first, "first"));
    until(&mut first_roles, Role::Active).await;
    let (_second, mut second_roles) = run(master(&second, "second"));
    let _worker = run_shouter(&zk);
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = within(submitter.submit("a")).await.unwrap();
    within(held[0].until_fired()).await;
    // By hand: the session of the first master lives, and it is about to assign the task.
    zk.delete(NODE).await.unwrap();
    until(&mut second_roles, Role::Active).await;
    within(held[1].until_fired()).await;
    held[0].release();
    first.sync("/").await.unwrap();
    let status = zk.get(&format!("/mw/status/{task}")).await.unwrap();
    assert_eq!(status.data, r#"{"state":"waiting","attempts":0}"#);
    until(&mut first_roles, Role::Backup).await;
    held[1].release();
    let done = within(submitter.result(&task)).await.unwrap();
    assert_eq!(done, Ending::Done("A".into()));
}

#[tokio::test]
async fn a_master_that_stops_frees_the_node_and_leaves_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let (running, mut roles) = run(master(&zk, "a"));
    until(&mut roles, Role::Active).await;
    running.abort();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    eventually(|| server.watch_count() == 0).await;
    assert!(zk.exists(NODE).await.unwrap().is_none());
}

/// Cuts the connection of the master at each request in turn: the task is done, and everything is cleaned up.
async fn sweep(fault: Fault) {
    for skip in 0.. {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let (cut, whole) = (client_behind(&proxy).await, client(&server).await);
        let lost = proxy.add_rule(Rule::new(fault).skip(skip));
        let (running, _) = run(master(&cut, "m"));
        let worker = run_shouter(&whole);
        does_a_task(&whole, "a").await;
        running.abort();
        worker.abort();
        let _ = (running.await, worker.await);
        eventually(|| server.ephemerals(cut.session().id()).is_empty()).await;
        assert_settled(&whole, 1).await;
        if lost.fired() == 0 {
            assert!(skip > 5, "the fault was hardly ever triggered");
            return;
        }
    }
}

#[tokio::test]
async fn a_lost_request_of_the_single_master_is_survived() {
    sweep(Fault::CutBeforeRequest).await;
}

#[tokio::test]
async fn a_lost_reply_to_the_single_master_is_survived() {
    sweep(Fault::CutBeforeReply).await;
}

#[tokio::test]
async fn the_two_forms_do_not_mix() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let (line, mut roles) = run(Master::new(&zk, "/mw").unwrap());
    until(&mut roles, Role::Active).await;
    let refused = within(master(&other, "a").run()).await.unwrap_err();
    let text =
        "/mw/master is not the node of a master: masters in a line use this path, or have used it";
    assert_eq!(refused.to_string(), text);
    line.abort();
    let _ = line.await;
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    zk.delete(NODE).await.unwrap();
    let (_single, mut roles) = run(master(&zk, "a"));
    until(&mut roles, Role::Active).await;
    let refused = within(Master::new(&other, "/mw").unwrap().run()).await.unwrap_err();
    assert_eq!(refused.client_kind(), Some(&ErrorKind::NoChildrenForEphemerals));
}
