//! The walk itself.

use herdsman_client::Op;
use herdsman_shell::subtree::walk::{AHEAD_MAX, RETAINED_MAX};
use herdsman_shell::subtree::{Fetch, SubtreeError, SystemZnodes, Visit, Walk, WalkOptions};
use herdsman_testing::TestServer;

use super::client;

async fn paths(walk: &mut Walk) -> Vec<String> {
    let mut paths = Vec::new();
    while let Some(visit) = walk.next().await.unwrap() {
        match visit {
            Visit::Znode(znode) => paths.push(znode.position.path),
            Visit::Unreadable(position) => panic!("{position:?}"),
        }
    }
    paths
}

#[tokio::test]
async fn parents_come_before_children_and_children_by_name() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for path in ["/b", "/b/x", "/a", "/a/y", "/a/y/z", "/a-b"] {
        zk.create(path, path).await.unwrap();
    }
    let mut walk = Walk::new(&zk, "/", WalkOptions::fetching(Fetch::Everything));
    assert_eq!(paths(&mut walk).await, ["/", "/a", "/a/y", "/a/y/z", "/a-b", "/b", "/b/x"]);
    let shallow = WalkOptions { depth_max: Some(1), ..WalkOptions::default() };
    assert_eq!(paths(&mut Walk::new(&zk, "/", shallow)).await, ["/", "/a", "/a-b", "/b"]);
    let root_only = WalkOptions { depth_max: Some(0), ..WalkOptions::default() };
    assert_eq!(paths(&mut Walk::new(&zk, "/a", root_only)).await, ["/a"]);
    let all = WalkOptions { system: SystemZnodes::Include, ..shallow };
    assert_eq!(paths(&mut Walk::new(&zk, "/", all)).await, ["/", "/a", "/a-b", "/b", "/zookeeper"]);
    let config = WalkOptions::fetching(Fetch::Stat);
    assert_eq!(paths(&mut Walk::new(&zk, "/zookeeper", config)).await.len(), 3);
}

#[tokio::test]
async fn below_a_chroot_zookeeper_is_an_ordinary_name() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/app/zookeeper", "").parents().await.unwrap();
    let inside = zk.namespace("/app").unwrap();
    let mut walk = Walk::new(&inside, "/", WalkOptions::default());
    assert_eq!(paths(&mut walk).await, ["/", "/zookeeper"]);
}

/// Every znode that was requested ahead is pushed far back by the children of the one before it, and
/// has to be requested again.
#[tokio::test]
async fn znodes_that_are_pushed_back_are_visited() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut expected = vec!["/t".to_owned()];
    zk.create("/t", "").await.unwrap();
    for outer in 0..4 {
        let parent = format!("/t/{outer}");
        let mut ops = vec![Op::create(&parent, "")];
        expected.push(parent.clone());
        for inner in 0..RETAINED_MAX + AHEAD_MAX {
            let path = format!("{parent}/{inner:04}");
            ops.push(Op::create(&path, path.clone()));
            expected.push(path);
        }
        zk.transaction(ops).await.unwrap();
    }
    let mut walk = Walk::new(&zk, "/t", WalkOptions::fetching(Fetch::Data));
    let mut walked = Vec::new();
    while let Some(Visit::Znode(znode)) = walk.next().await.unwrap() {
        if znode.position.depth == 2 {
            assert_eq!(znode.data, znode.position.path);
        }
        walked.push(znode.position.path);
    }
    assert_eq!(walked, expected);
    assert_eq!(walk.vanished(), 0);
}

#[tokio::test]
async fn what_vanishes_during_the_walk_is_counted() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/t", "").await.unwrap();
    let count = 3 * AHEAD_MAX;
    let ops = (0..count).map(|number| Op::create(&format!("/t/{number:04}"), ""));
    zk.transaction(ops).await.unwrap();
    let mut walk = Walk::new(&zk, "/t", WalkOptions::fetching(Fetch::Everything));
    // After the root, the children are listed, and the first of them requested.
    assert!(
        matches!(walk.next().await, Ok(Some(Visit::Znode(znode))) if znode.position.depth == 0)
    );
    assert!(walk.next().await.unwrap().is_some());
    zk.delete(&format!("/t/{:04}", count - 1)).await.unwrap();
    zk.delete(&format!("/t/{:04}", count - 7)).await.unwrap();
    assert_eq!(paths(&mut walk).await.len(), count - 3);
    assert_eq!(walk.vanished(), 2);
}

#[tokio::test]
async fn a_root_that_is_missing_is_an_error() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for options in
        [WalkOptions::default(), WalkOptions { depth_max: Some(0), ..WalkOptions::default() }]
    {
        let error = Walk::new(&zk, "/none", options).next().await.unwrap_err();
        assert!(
            matches!(&error, SubtreeError::Client(error) if error.path() == Some("/none")),
            "{error}"
        );
    }
    assert!(Walk::new(&zk, "none", WalkOptions::default()).next().await.is_err());
}
