//! Queues at servers before 3.7, which do not return the stat of what a transaction creates: it is read afterwards,
//! and that may fail although the transaction was applied.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Outcome};
use herdsman_recipes::queue::{Queue, WorkQueue};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client_behind, eventually, within};
use crate::other_server::OtherServer;

async fn older_server() -> (TestServer, TestProxy) {
    let server = TestServer::start();
    let older = OtherServer::start(server.address()).await;
    older.tell_no_stats();
    let proxy = TestProxy::start(older.address());
    (server, proxy)
}

#[tokio::test]
async fn a_take_whose_lock_cannot_be_read_leaves_no_lock() {
    let (server, proxy) = older_server().await;
    let options = Client::options().deadline(Duration::from_millis(300));
    let zk = within(options.connect(&proxy.connect_string())).await.unwrap();
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    within(queue.offer("a")).await.unwrap();
    within(within(queue.take()).await.unwrap().give_back()).await.unwrap();
    let read = Rule::new(Fault::HoldReply).on(OpCode::Exists).path_containing("/q-locks/");
    let held = proxy.add_rule(read);
    let error = within(queue.poll()).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::DeadlineExceeded));
    assert_eq!((error.outcome(), held.fired()), (Outcome::Applied, 1));
    held.release();
    let locks = || server.ephemerals(zk.session().id()).into_iter();
    eventually(|| !locks().any(|path| path.starts_with("/q-locks/"))).await;
    assert!(within(queue.take()).await.is_ok());
}

#[tokio::test]
async fn an_item_is_not_lost_with_the_read_of_its_receipt() {
    let (server, proxy) = older_server().await;
    let zk = client_behind(&proxy).await;
    within(Queue::new(&zk, "/q").unwrap().offer("a")).await.unwrap();
    // Its first transaction creates a receipt.
    let queue = Queue::new(&zk, "/q").unwrap();
    let read = Rule::new(Fault::CutBeforeReply).on(OpCode::Exists).path_containing("/q-receipts/");
    let lost = proxy.add_rule(read);
    proxy.refuse_connections();
    let session = zk.session().id();
    let polling = tokio::spawn(async move { queue.poll().await });
    within(lost.until_fired()).await;
    server.expire_session(session);
    proxy.accept_connections();
    assert_eq!(within(polling).await.unwrap().unwrap().unwrap(), "a");
}
