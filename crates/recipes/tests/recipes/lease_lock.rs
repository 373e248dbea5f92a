//! Lease locks whose fence was changed by hand, and leases of any length. More tests of lease locks are in
//! `lock_loss`.

use std::time::Duration;

use herdsman_client::ErrorKind;
use herdsman_recipes::LeaseLock;
use herdsman_testing::TestServer;

use crate::common::{client, eventually, within};

/// Waiters used to compare the fence with the node, and never found that the two matched.
#[tokio::test]
async fn a_lease_lock_is_taken_over_although_its_fence_was_written_to() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0").await.unwrap();
    let lease = Duration::from_millis(1);
    let held = LeaseLock::new(&one, "/l", lease).unwrap().acquire().await.unwrap();
    two.set("/l-fence", "by hand").await.unwrap();
    let second = within(LeaseLock::new(&two, "/l", lease).unwrap().acquire()).await.unwrap();
    assert!(second.token() > held.token());
    two.delete("/l-fence").recursive().await.unwrap();
    let third = within(LeaseLock::new(&one, "/l", lease).unwrap().acquire()).await.unwrap();
    assert!(third.token() > second.token());
    for former in [&held, &second] {
        let error = former.fenced().set("/data", "x").await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Deposed);
    }
    third.fenced().set("/data", "1").await.unwrap();
    drop((held, second, third));
    eventually(|| server.ephemerals(one.session().id()).is_empty()).await;
    eventually(|| server.ephemerals(two.session().id()).is_empty()).await;
}

/// It used to panic when it had acquired the lock.
#[tokio::test]
async fn a_lease_may_be_as_long_as_a_duration_can_be() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let longest = LeaseLock::new(&one, "/l", Duration::MAX).unwrap();
    let held = within(longest.acquire()).await.unwrap();
    held.renew().await.unwrap();
    assert!(held.is_trusted());
    let waiting = tokio::spawn(async move { longest.acquire().await });
    eventually(|| server.watch_count() == 1).await;
    held.release().await.unwrap();
    within(waiting).await.unwrap().unwrap().release().await.unwrap();
    // As another program may have written it.
    let record = format!(r#"{{"lease_ms":{},"owner":"other"}}"#, u64::MAX);
    let node = one.create("/l", record).ephemeral().await.unwrap();
    let short = LeaseLock::new(&two, "/l", Duration::from_millis(1)).unwrap();
    let waiting = tokio::spawn(async move { short.acquire().await });
    eventually(|| server.watch_count() == 1).await;
    one.delete(&node.path).await.unwrap();
    within(waiting).await.unwrap().unwrap().release().await.unwrap();
}
