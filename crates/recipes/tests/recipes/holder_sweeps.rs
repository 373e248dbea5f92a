//! Recipes with ephemeral nodes when the connection is cut at any request: one node or none, and nothing that blocks
//! others. Each cycle ends without a node of the client's session, see [`sweep`].

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use herdsman_recipes::discovery::{Registry, ServiceInstance, ServiceType};
use herdsman_recipes::election::{CloseMode, Election, LeaderLatch, Selector};
use herdsman_recipes::lock::ReentrantRwLock;
use herdsman_recipes::membership::{Group, ShallowGroup};
use herdsman_recipes::messaging::Heartbeat;
use herdsman_recipes::monitor::Reporter;
use herdsman_recipes::partitioner::{Partitioner, Update};
use herdsman_recipes::persistent_node::{OnForeignNode, PersistentNode};
use herdsman_recipes::{
    DoubleBarrier, Error, Lock, MultiLock, ReentrantLock, Semaphore, WorkerIds,
};

use crate::common::{client, eventually};
use crate::lock_loss::{Run, sweep};

#[tokio::test]
async fn a_cut_at_any_request_of_a_worker_id_leaves_one_lease_or_none() {
    sweep(async |run| {
        let workers = WorkerIds::new(&run.zk, &run.path, 0..=1).unwrap().identity("host").unwrap();
        let node = |id| format!("{}/workers/{id}", run.path);
        let first = workers.lease().await.unwrap();
        assert_eq!((first.id(), run.own_nodes()), (0, vec![node(0)]));
        first.reserve_until(7).await.unwrap();
        first.reserve_until(9).await.unwrap();
        let other = client(run.server).await;
        let others = WorkerIds::new(&other, &run.path, 0..=1).unwrap();
        let second = others.lease().await.unwrap();
        assert_eq!(second.id(), 1);
        assert_eq!(workers.lease().await.unwrap_err(), Error::Full { limit: 2 });
        first.release().await.unwrap();
        assert_eq!(run.own_nodes(), [""; 0]);
        // The next owner begins after all that was reserved.
        let next = others.lease().await.unwrap();
        assert_eq!((next.id(), next.used_before_ms()), (0, 9));
        second.release().await.unwrap();
        let last = workers.lease().await.unwrap();
        assert_eq!((last.id(), run.own_nodes()), (1, vec![node(1)]));
        last.reserve_until(11).await.unwrap();
        drop(last);
        eventually(|| run.own_nodes().is_empty()).await;
        let again = others.lease().await.unwrap();
        assert_eq!((again.id(), again.used_before_ms()), (1, 11));
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_semaphore_with_a_shared_limit_leaves_no_lease() {
    sweep(async |run| {
        let limit = format!("{}-max", run.path);
        let other = client(run.server).await;
        other.create(&limit, 3_i32.to_be_bytes().to_vec()).parents().await.unwrap();
        let semaphore = Semaphore::with_shared_limit(&run.zk, &run.path, &limit).unwrap();
        let others = Semaphore::with_shared_limit(&other, &run.path, &limit).unwrap();
        let pair = semaphore.acquire_many(2).await.unwrap();
        assert_eq!(others.permits_taken().await.unwrap(), 2);
        assert!(others.try_acquire_many(2).await.unwrap().is_none());
        drop(pair);
        let all = others.acquire_many(3).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        drop(all);
        semaphore.acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_several_locks_leaves_all_or_none() {
    sweep(async |run| {
        let paths = ["a", "b"].map(|name| format!("{}/{name}", run.path));
        let locks = |zk| paths.iter().map(move |path| Lock::new(zk, path).unwrap());
        let locks_of_ours = MultiLock::new(locks(&run.zk)).unwrap();
        let other = client(run.server).await;
        let others = MultiLock::new(locks(&other)).unwrap();
        let guard = locks_of_ours.acquire().await.unwrap();
        assert_eq!(run.own_nodes().len(), 2);
        assert!(others.try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        let theirs = others.acquire().await.unwrap();
        assert!(locks_of_ours.try_acquire().await.unwrap().is_none());
        theirs.release().await.unwrap();
        drop(locks_of_ours.try_acquire().await.unwrap().expect("both are free"));
        others.acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_the_reentrant_locks_leaves_one_node_or_none() {
    sweep(async |run| {
        let lock = ReentrantLock::new(&run.zk, &run.path).unwrap();
        let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
        assert_eq!(run.own_nodes().len(), 1);
        outer.release().await.unwrap();
        assert_eq!(run.own_nodes().len(), 1);
        inner.release().await.unwrap();
        assert_eq!(run.own_nodes(), [""; 0]);
        let path = format!("{}-rw", run.path);
        let lock = ReentrantRwLock::new(&run.zk, &path).unwrap();
        let (writer, reader) = (lock.write().await.unwrap(), lock.read().await.unwrap());
        drop(writer);
        reader.release().await.unwrap();
        let other = client(run.server).await;
        let other = ReentrantRwLock::new(&other, &path).unwrap();
        other.write().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_latch_and_a_selector_leaves_no_candidate() {
    sweep(async |run| {
        let latch = LeaderLatch::start(&run.zk, &run.path, "a").unwrap();
        let first = latch.wait_for_leadership().await.unwrap();
        assert_eq!(latch.participants().await.unwrap().len(), 1);
        latch.close(CloseMode::NotifyLost).await.unwrap();
        eventually(|| run.own_nodes().is_empty()).await;
        let election = Election::new(&run.zk, &format!("{}-selector", run.path), "a").unwrap();
        let selector = Selector::new(election);
        let token = selector.run(async |term| term.token()).await.unwrap();
        assert!(token > first.token());
        let other = LeaderLatch::start(&client(run.server).await, &run.path, "b").unwrap();
        assert!(other.wait_for_leadership().await.unwrap().token() > first.token());
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_persistent_node_leaves_one_node_or_none() {
    sweep(async |run| {
        let other = client(run.server).await;
        let plain = PersistentNode::at(&run.zk, &run.path, "1").start().unwrap();
        plain.wait_until_present().await.unwrap();
        plain.set_data("2").await.unwrap();
        assert_eq!(other.get(&run.path).await.unwrap().data, "2");
        let base = format!("{}-n-", run.path);
        let numbered = PersistentNode::at(&run.zk, &base, "").sequential().start().unwrap();
        numbered.wait_until_present().await.unwrap();
        let nodes = || run.own_nodes().into_iter().filter(|path| !path.contains("-receipts/"));
        eventually(|| nodes().count() == 2).await;
        numbered.close().await.unwrap();
        assert_eq!(nodes().collect::<Vec<_>>(), [run.path.as_str()]);
        plain.close().await.unwrap();
        assert_eq!(other.exists(&run.path).await.unwrap(), None);

        // A node that another session has left is replaced.
        other.create(&run.path, "old").ephemeral().await.unwrap();
        let replacing = PersistentNode::at(&run.zk, &run.path, "new");
        let replacing = replacing.on_foreign_node(OnForeignNode::Replace).start().unwrap();
        replacing.wait_until_present().await.unwrap();
        assert_eq!(other.get(&run.path).await.unwrap().data, "new");
        drop(replacing);
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_member_leaves_one_member_or_none() {
    sweep(async |run| {
        let child = |name| format!("{}/{name}", run.path);
        let member = Group::new(&run.zk, &child("g")).unwrap().join("a", "1").await.unwrap();
        member.set_data("2").await.unwrap();
        let shallow = ShallowGroup::new(&run.zk, &child("s")).unwrap().join("a").await.unwrap();
        let machine = Reporter::start(&run.zk, &child("m"), "a", &1).await.unwrap();
        machine.publish(&2).await.unwrap();
        let heart = Heartbeat::start(&run.zk, &child("h"), "a").await.unwrap();
        heart.beat().await.unwrap();
        let expected = ["g/a", "h/a", "m/a", "s/a"].map(child);
        assert_eq!(BTreeSet::from_iter(run.own_nodes()), BTreeSet::from(expected));
        member.leave().await.unwrap();
        shallow.leave().await.unwrap();
        machine.close().await.unwrap();
        heart.stop().await.unwrap();
        assert_eq!(run.own_nodes(), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_registration_leaves_one_instance_or_none() {
    sweep(async |run| {
        let registry: Registry<u32> = Registry::new(&run.zk, &run.path).unwrap();
        let others: Registry<u32> = Registry::new(&client(run.server).await, &run.path).unwrap();
        let instance = |payload| ServiceInstance::new("web").with_id("a").with_payload(payload);
        for kind in [ServiceType::Dynamic, ServiceType::DynamicSequential] {
            let mut registration = registry.register(instance(1).with_type(kind)).await.unwrap();
            registration.update(instance(2).with_type(kind)).await.unwrap();
            let found = others.instances("web").await.unwrap();
            assert_eq!(found.instances, [registration.instance().clone()]);
            registration.unregister().await.unwrap();
            assert_eq!(others.instances("web").await.unwrap().instances, []);
        }
        drop(registry.register(instance(3)).await.unwrap());
    })
    .await;
}

/// Reads the updates of all members, and releases what others need, until each of them has this many items. At no
/// moment do two of them own the same one.
async fn until_owned<const N: usize>(mut members: [&mut Partitioner; N], counts: [usize; N]) {
    loop {
        let owned = members.each_ref().map(|member| member.owned());
        let items = || owned.iter().flatten().map(|owned| owned.item.as_str());
        assert_eq!(items().count(), items().collect::<BTreeSet<_>>().len(), "{owned:?}");
        if owned.map(|owned| owned.len()) == counts {
            return;
        }
        for member in members.each_mut() {
            match member.next().now_or_never() {
                Some(Some(Update::Release(release))) => release.confirm(),
                Some(None) => panic!("the client is closed"),
                Some(Some(_)) | None => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_partition_member_leaves_each_item_to_one() {
    sweep(async |run| {
        let other = client(run.server).await;
        let join = async |zk, member| {
            let options = Partitioner::of(zk, &run.path, member, ["1", "2"]);
            options.settle(Duration::from_millis(5)).join().await.unwrap()
        };
        let mut ours = join(&run.zk, "a").await;
        until_owned([&mut ours], [2]).await;
        let mut theirs = join(&other, "b").await;
        until_owned([&mut ours, &mut theirs], [1, 1]).await;
        ours.leave().await;
        assert_eq!(run.own_nodes(), [""; 0]);
        until_owned([&mut theirs], [2]).await;
        theirs.leave().await;
    })
    .await;
}

/// The other member of a barrier, which waits for the client that is cut.
async fn together(run: &Run<'_>, barrier: &DoubleBarrier, other: &DoubleBarrier) {
    let (ours, theirs) = tokio::join!(barrier.enter(), other.enter());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(run.own_nodes(), [ours.path()]);
    let (left, other_left) = tokio::join!(ours.leave(), theirs.leave());
    left.unwrap();
    other_left.unwrap();
    assert_eq!(run.own_nodes(), [""; 0]);
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_double_barrier_leaves_one_member_or_none() {
    sweep(async |run| {
        let barrier = DoubleBarrier::new(&run.zk, &run.path, 2).unwrap();
        let other = client(run.server).await;
        let others = DoubleBarrier::new(&other, &run.path, 2).unwrap();
        together(run, &barrier, &others).await;
        together(run, &barrier, &others).await;
        let limit = Duration::from_millis(5);
        assert_eq!(barrier.enter_within(limit).await.unwrap_err(), Error::TimedOut);
    })
    .await;
}
