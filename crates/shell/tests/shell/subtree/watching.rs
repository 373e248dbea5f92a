//! `watch`.

use herdsman_client::EventType;
use herdsman_shell::subtree::watch::{Change, ChangeKind, Reach, SubtreeChanges, WithData};
use herdsman_shell::{Streams, run_with};

use super::client;
use crate::world::{Captured, World, arguments};

async fn next(changes: &mut SubtreeChanges) -> (EventType, String, Option<Vec<u8>>) {
    match changes.next().await.unwrap().unwrap() {
        Change { kind: ChangeKind::Znode { event, path, node, .. }, .. } => {
            (event, path, node.map(|node| node.data.to_vec()))
        }
        gap => panic!("{gap:?}"),
    }
}

#[tokio::test]
async fn changes_are_reported_in_their_order() {
    let world = World::start();
    let zk = client(&world.server).await;
    zk.create("/app", "").await.unwrap();
    let mut all =
        SubtreeChanges::start(&zk, "/app", Reach::Recursive, WithData::Yes).await.unwrap();
    let mut alone = SubtreeChanges::start(&zk, "/app", Reach::Alone, WithData::No).await.unwrap();
    zk.create("/app/a", "1").await.unwrap();
    assert_eq!(next(&mut all).await, (EventType::NodeCreated, "/app/a".into(), Some(b"1".into())));
    assert_eq!(next(&mut alone).await, (EventType::NodeChildrenChanged, "/app".into(), None));
    zk.set("/app/a", "2").await.unwrap();
    let changed = (EventType::NodeDataChanged, "/app/a".into(), Some(b"2".into()));
    assert_eq!(next(&mut all).await, changed);
    zk.delete("/app/a").await.unwrap();
    assert_eq!(next(&mut all).await, (EventType::NodeDeleted, "/app/a".into(), None));
}

#[tokio::test]
async fn a_gap_is_reported_after_a_lost_connection() {
    let mut world = World::start();
    let zk = client(&world.server).await;
    let mut all = SubtreeChanges::start(&zk, "/", Reach::Recursive, WithData::No).await.unwrap();
    world.server.restart();
    let change = all.next().await.unwrap().unwrap();
    assert_eq!(change.kind, ChangeKind::Gap);
    zk.create("/late", "").await.unwrap();
    assert_eq!(next(&mut all).await.1, "/late");
}

#[test]
fn the_command_ends_after_the_given_number() {
    let world = World::start();
    let (out, errors) = (Captured::default(), Captured::default());
    let servers = world.server.connect_string();
    let words = ["-s", &servers, "--json", "watch", "/", "--data", "--count", "2"];
    let arguments = arguments(&words);
    let streams = Streams::new(std::io::empty(), out.clone(), errors.clone());
    let watching = std::thread::spawn(move || run_with(&arguments, streams));
    while !errors.text().contains("watching /") {
        std::thread::yield_now();
    }
    world.pipe_ok("create /a x\ndelete /a\ncreate /b\n");
    assert_eq!(watching.join().unwrap(), 0);
    let lines: Vec<serde_json::Value> =
        out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| (&line["event"], &line["path"])).collect();
    assert_eq!(events, [(&"created".into(), &"/a".into()), (&"deleted".into(), &"/a".into())]);
    assert!(lines[0]["zxid"].as_str().unwrap().starts_with("0x"));
}
