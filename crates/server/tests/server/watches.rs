//! Watches: each is triggered once, in order, and before any read that shows the change.

use std::sync::atomic::{AtomicBool, Ordering};

use herdsman_proto::request::CreateRequest;
use herdsman_proto::{
    Acl, EventType, Id, JuteReader, OpCode, Perms, ReadRequest, Request, Stat, WriteRequest, Xid,
};
use herdsman_testing::TestServer;

use crate::client::{Client, exists, get, set};

#[test]
fn a_watch_event_precedes_the_read_that_shows_it() {
    const ROUNDS: usize = 300;
    let server = TestServer::start();
    let mut writer = Client::connect(server.address());
    let mut reader = Client::connect(server.address());
    writer.create("/w", b"", 0).ok();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                writer.set("/w", b"x").ok();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let (_, watched) = reader.get("/w", true).unwrap();
            reader.events.clear();
            read_until_notified(&mut reader, watched.version);
            if reader.events.is_empty() && done.load(Ordering::Acquire) {
                break;
            }
        }
    });
}

/// Reads in bursts until the event arrives; no reply may show a newer version before it.
fn read_until_notified(reader: &mut Client, watched_version: i32) {
    for _ in 0..1000 {
        let burst: Vec<_> = (0..8).map(|_| reader.send(&get("/w", false))).collect();
        for _ in burst {
            let reply = reader.receive_reply().unwrap();
            let mut body = reply.ok();
            body.buffer().unwrap();
            let version = Stat::decode(&mut body).unwrap().version;
            let notified = !reader.events.is_empty();
            assert!(
                notified || version == watched_version,
                "version {version} was shown before its event"
            );
        }
        if !reader.events.is_empty() {
            return;
        }
    }
}

#[test]
fn events_carry_the_zxid_of_the_change_and_come_once() {
    let server = TestServer::start();
    let mut watcher = Client::connect(server.address());
    let mut writer = Client::connect(server.address());
    writer.create("/x", b"", 0).ok();
    watcher.get("/x", true).unwrap();
    let changed = writer.set("/x", b"1").zxid;
    writer.set("/x", b"2").ok();
    watcher.ping().unwrap();
    assert_eq!(watcher.events, [(EventType::NodeDataChanged, "/x".to_owned(), changed)]);
}

#[test]
fn a_closed_connection_takes_its_watches_with_it() {
    let server = TestServer::start();
    let mut watcher = Client::connect(server.address());
    let mut other = Client::connect(server.address());
    other.create("/x", b"", 0).ok();
    watcher.get("/x", true).unwrap();
    let session = watcher.session;
    drop(watcher);
    let mut again = Client::reattach(server.address(), session).unwrap();
    other.set("/x", b"1").ok();
    again.ping().unwrap();
    assert!(again.events.is_empty());
}

#[test]
fn what_changed_during_an_absence_is_told_before_the_reply() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let since = client.create("/gone", b"", 0).zxid;
    client.create("/same", b"", 0).ok();
    let since = since.max(client.get("/same", false).unwrap().1.mzxid);
    client.delete("/gone").ok();
    let watches = herdsman_proto::request::SetWatches {
        relative_zxid: since,
        data: vec!["/gone".into(), "/same".into()],
        ..Default::default()
    };
    client.send(&Request::Read(ReadRequest::SetWatches(watches)));
    let event = client.receive().unwrap();
    assert_eq!((event.xid, event.zxid.0), (Xid::NOTIFICATION, -1));
    let (kind, path) =
        herdsman_proto::WatchedEvent::decode(&mut JuteReader::new(&event.body)).unwrap();
    assert_eq!((kind, path.as_str()), (EventType::NodeDeleted, "/gone"));
    client.receive().unwrap().ok();
    client.call(&set("/same", b"1")).ok();
    assert_eq!(client.events.len(), 1);
}

/// A znode that any client may change and only its owner may read.
fn create_shut(path: &str) -> Request<'_> {
    let owner = Acl { perms: Perms::ALL, id: Id::new("digest", "owner:hash") };
    Request::Write(WriteRequest::Create(CreateRequest {
        op: OpCode::Create,
        path: path.into(),
        data: Some(b""),
        acl: vec![Acl::world(Perms::WRITE), owner],
        flags: 0,
        ttl_ms: None,
    }))
}

#[test]
fn a_watcher_who_may_not_read_a_znode_hears_nothing_of_it() {
    let server = TestServer::start();
    let mut writer = Client::connect(server.address());
    let mut stranger = Client::connect(server.address());
    let watch = ReadRequest::AddWatch { path: "/".into(), recursive: true };
    stranger.call(&Request::Read(watch)).ok();
    writer.call(&create_shut("/shut")).ok();
    writer.set("/shut", b"no client may read this").ok();
    writer.create("/open", b"", 0).ok();
    stranger.call(&exists("/open")).ok();
    let heard: Vec<_> = stranger.events.iter().map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(heard, ["/open"]);
}
