//! What continues through an outage also continues at a server that has lost its quorum and rejects all writes.

use std::time::Duration;

use herdsman_client::{Client, ConnectionState, ReadOnlyServers};
use herdsman_recipes::partitioner::{Partitioner, Update};
use herdsman_recipes::{HoldOptions, Layout, Lock, LostWhen, NaiveLock, Result};
use herdsman_server::ServesAs;
use herdsman_testing::{TestEnsemble, TestProxy, TestServer};

use crate::common::{SESSION_TIMEOUT, client_of, eventually, within};
use crate::other_server::{NOT_READ_ONLY, OtherServer, SYSTEM_ERROR};

/// Ends a hold while the server rejects writes, and waits until its node is deleted.
async fn is_released_after_refusals<H>(
    refusal: i32,
    acquire: impl AsyncFn(&Client) -> H,
    end: impl AsyncFnOnce(H) -> Result<()>,
) {
    let server = TestServer::start();
    let other = OtherServer::start(server.address()).await;
    let zk = client_of(&other.address().to_string()).await;
    let hold = within(acquire(&zk)).await;
    assert!(!server.ephemerals(zk.session().id()).is_empty());
    other.refuse_writes(refusal);
    let heal = async {
        eventually(|| other.refused() >= 3).await;
        other.accept_writes();
    };
    let (ended, ()) = within(async { tokio::join!(end(hold), heal) }).await;
    ended.unwrap();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

async fn dropped<H>(hold: H) -> Result<()> {
    drop(hold);
    Ok(())
}

#[tokio::test]
async fn a_lock_is_released_when_the_server_accepts_writes_again() {
    for refusal in [NOT_READ_ONLY, SYSTEM_ERROR] {
        for layout in [Layout::Curator, Layout::Apache] {
            let acquire = async |zk: &Client| {
                Lock::new(zk, "/lock").unwrap().layout(layout).acquire().await.unwrap()
            };
            is_released_after_refusals(refusal, acquire, async |guard| guard.release().await).await;
            is_released_after_refusals(refusal, acquire, dropped).await;
        }
        let acquire =
            async |zk: &Client| NaiveLock::new(zk, "/naive").unwrap().acquire().await.unwrap();
        is_released_after_refusals(refusal, acquire, async |guard| guard.release().await).await;
        is_released_after_refusals(refusal, acquire, dropped).await;
    }
}

#[tokio::test]
async fn a_deletion_in_the_background_waits_for_a_server_that_accepts_writes() {
    for refusal in [NOT_READ_ONLY, SYSTEM_ERROR] {
        let create = async |zk: &Client| {
            zk.create("/node", "").ephemeral().await.unwrap();
            zk.clone()
        };
        is_released_after_refusals(refusal, create, async |zk| {
            zk.delete("/node").in_background();
            Ok(())
        })
        .await;
    }
}

/// A session that was opened at such a server ends with it; so the client continues in its next one.
#[tokio::test]
async fn a_waiter_for_a_lock_waits_for_a_server_that_accepts_writes() {
    let mut ensemble = TestEnsemble::start_with("", |_, config| config.read_only_mode = true);
    ensemble.await_leader();
    let addresses: Vec<_> = ensemble.ids().map(|id| ensemble.address(id).to_string()).collect();
    let left = ensemble.follower();
    // A server without any data would not serve reads.
    let writer = within(Client::connect(&ensemble.address(left).to_string())).await.unwrap();
    within(writer.create("/written", "").send()).await.unwrap();
    within(writer.close()).await.unwrap();
    let stopped: Vec<_> = ensemble.ids().filter(|id| *id != left).collect();
    for id in &stopped {
        ensemble.stop(*id);
    }
    ensemble.await_role(left, ServesAs::ReadOnly);
    let options = Client::options().session_timeout(Duration::from_secs(30));
    let options = options.read_only_servers(ReadOnlyServers::Accepted);
    let zk = within(options.connect(&addresses.join(","))).await.unwrap();
    assert_eq!(zk.state(), ConnectionState::ReadOnly);
    let (fair, naive) = (Lock::new(&zk, "/fair").unwrap(), NaiveLock::new(&zk, "/naive").unwrap());
    let fair = tokio::spawn(async move { fair.acquire().await });
    let naive = tokio::spawn(async move { naive.acquire().await });
    // Their first requests have been rejected by now.
    within(zk.exists("/").send()).await.unwrap();
    ensemble.start_again(stopped[0]);
    within(fair).await.unwrap().unwrap().release().await.unwrap();
    within(naive).await.unwrap().unwrap().release().await.unwrap();
}

/// The majority may have ended the session meanwhile, and given the lock away.
#[tokio::test]
async fn a_read_only_server_does_not_keep_a_hold_alive() {
    let server = TestServer::start();
    let other = OtherServer::start(server.address()).await;
    let proxy = TestProxy::start(other.address());
    let options = Client::options().session_timeout(SESSION_TIMEOUT);
    let options = options.read_only_servers(ReadOnlyServers::Accepted);
    let zk = within(options.connect(&proxy.connect_string())).await.unwrap();
    let hold = HoldOptions::new().lost_when(LostWhen::SessionTimedOut);
    let guard = Lock::new(&zk, "/lock").unwrap().options(&hold).acquire().await.unwrap();
    let partitioner = Partitioner::of(&zk, "/p", "a", ["i"]).settle(Duration::from_millis(10));
    let mut partitioner = within(partitioner.join()).await.unwrap();
    assert!(matches!(within(partitioner.next()).await, Some(Update::Acquired(_))));
    other.serve_read_only(true);
    proxy.cut();
    within(zk.session().wait_for(|state| state == ConnectionState::ReadOnly)).await;
    assert!(guard.is_trusted());
    within(guard.lost()).await;
    assert!(!guard.is_trusted());
    assert!(matches!(within(partitioner.next()).await, Some(Update::Lost(_))));
    // There is nothing to do for the member before it hears of the session again.
    let before = proxy.traffic().requests_in_all();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(proxy.traffic().requests_in_all() < before + 50);
    other.serve_read_only(false);
    proxy.cut();
    assert!(matches!(within(partitioner.next()).await, Some(Update::Acquired(_))));
    assert!(guard.is_trusted());
}
