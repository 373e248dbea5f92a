//! Operations that concern very many znodes, watchers or sessions: their costs must not grow with what they need not
//! touch, nor faster than what they do.

use std::hint::black_box;

use herdsman_node::ConnId;
use herdsman_node::sessions::Sessions;
use herdsman_proto::request::WatcherType;
use herdsman_proto::txn::{CreateKind, CreateTxn};
use herdsman_proto::{Id, ReadRequest, SessionId, Txn, WriteRequest};
use herdsman_tree::watches::{TableKind, WatchMode};
use herdsman_tree::{Caller, Events, Outcome, Overlay, StepLimit, Tree, Watcher, read};

use crate::cases::Operation;
use crate::fixture;

/// Groups of the large tree, which has 100,000 items.
const GROUPS: usize = 1000;
const ITEMS: i32 = 100_000;
/// Ephemerals of a session.
const EPHEMERALS: usize = 10_000;

fn answer(tree: &Tree, request: &ReadRequest<'_>, out: &mut Vec<u8>) {
    let ids = [Id::new("ip", "127.0.0.1")];
    let reader = read::ReadCaller { session: fixture::SESSION, watcher: Watcher(1), ids: &ids };
    out.clear();
    let answered = tree.read(reader, request, out);
    assert_eq!(answered, Ok(()));
}

/// getAllChildrenNumber of all items with their groups.
pub fn count() -> Operation {
    let tree = fixture::tree(GROUPS);
    let mut out = Vec::new();
    let request = ReadRequest::GetAllChildrenNumber { path: "/bench".into() };
    Box::new(move |_| {
        answer(&tree, black_box(&request), &mut out);
        assert_eq!(out, (ITEMS + GROUPS as i32).to_be_bytes());
    })
}

/// getEphemerals of a session with very many, of which one is asked for.
pub fn ephemerals() -> Operation {
    let mut tree = fixture::small_tree();
    let path = |number: usize| format!("/ephemeral-{number:05}");
    for number in 0..EPHEMERALS {
        let mut entry = fixture::create_entry(number, &path(number));
        if let Txn::Create(create) = &mut entry.txn {
            create.kind = CreateKind::Plain { ephemeral: true, with_stat: false };
        }
        tree.replay(&entry);
    }
    assert_eq!(tree.ephemerals_of(fixture::SESSION), EPHEMERALS);
    let mut out = Vec::new();
    Box::new(move |index| {
        let prefix = path(EPHEMERALS - 1 - index);
        let request = ReadRequest::GetEphemerals { prefix: Some(prefix.as_str().into()) };
        answer(&tree, black_box(&request), &mut out);
        assert_eq!(out.len(), 4 + 4 + prefix.len());
    })
}

/// Creates and deletes the totals of a quota on all items.
pub fn quota() -> Operation {
    let mut tree = fixture::tree(GROUPS);
    let quota = "/zookeeper/quota/bench";
    let stats = format!("{quota}/zookeeper_stats");
    for (index, path) in [quota.to_owned(), format!("{quota}/zookeeper_limits")].iter().enumerate()
    {
        tree.replay(&fixture::create_entry(index, path));
    }
    let mut events = Events::new();
    Box::new(move |index| {
        let create = fixture::create_entry(2 + 2 * index, &stats);
        let delete = Txn::Delete { path: stats.as_str().into(), container: false };
        let delete = fixture::entry(3 + 2 * index, delete);
        assert!(matches!(tree.apply(black_box(&create), &mut events), Outcome::Created { .. }));
        let (_, used) = tree.quota("/bench").expect("it has limits and totals");
        assert_eq!(used.count, i64::from(ITEMS) + GROUPS as i64 + 1);
        tree.apply(black_box(&delete), &mut events);
    })
}

/// 1,000 one-shot and persistent watchers of a path come, are notified, and go.
pub fn watchers_1000() -> Operation {
    watchers(1000)
}

/// The same with 8,000.
pub fn watchers_8000() -> Operation {
    watchers(8000)
}

fn watchers(count: u64) -> Operation {
    let tree = fixture::small_tree();
    let path = fixture::group_path(0);
    let all: Vec<_> = (0..count).map(Watcher).collect();
    Box::new(move |_| {
        let mut watches = tree.watches();
        for &watcher in &all {
            watches.add(TableKind::Data, &path, watcher).expect("there is no limit");
            let added = watches.add_persistent(&path, watcher, WatchMode::Persistent);
            added.expect("there is no limit");
        }
        assert_eq!(watches.trigger(TableKind::Data, black_box(&path)).len(), all.len());
        assert!(!watches.contains(&path, WatcherType::Data, all[0]));
        all.iter().for_each(|&watcher| watches.remove_watcher(watcher));
        assert_eq!(watches.count(), 0);
    })
}

/// 500 sessions with an ephemeral each end at once.
pub fn close_500() -> Operation {
    close_sessions(500)
}

/// The same with 4,000.
pub fn close_4000() -> Operation {
    close_sessions(4000)
}

/// The ephemerals are still in flight, and so are the ends of the other sessions: a leader that is asked for both by
/// thousands of clients has not applied any of it yet.
fn close_sessions(count: usize) -> Operation {
    let tree = fixture::small_tree();
    let paths: Vec<_> = (0..count).map(|number| format!("/ephemeral-{number:05}")).collect();
    let ids = [Id::new("ip", "127.0.0.1")];
    Box::new(move |_| {
        let mut overlay = Overlay::new(fixture::HASH_SEED);
        let header = |index: usize| {
            let session = SessionId(fixture::SESSION.0 + (index % count) as i64);
            herdsman_proto::TxnHeader { session, ..fixture::txn_header(index) }
        };
        for (index, path) in paths.iter().enumerate() {
            let caller = Caller { ids: &ids, refused: None, ephemerals_refused: None };
            let mut request = fixture::create_request(path);
            if let WriteRequest::Create(create) = &mut request {
                create.flags = 1;
            }
            let prepared = overlay.prepare(&tree, header(index), caller, &request);
            assert!(matches!(prepared.txn, Txn::Create(CreateTxn { .. })));
        }
        for index in count..2 * count {
            let closed = overlay.prepare_close_session(&tree, header(index));
            assert_eq!(black_box(closed).txn.changes(), 1);
        }
        overlay.applied(header(2 * count).zxid);
        assert!(overlay.is_empty());
    })
}

/// Children that one multi creates and deletes.
const CHILDREN: usize = 100;

/// A multi below a znode with 4 KiB of data.
pub fn children_below_4k() -> Operation {
    children_below(4 << 10)
}

/// The same below one with 1 MiB.
pub fn children_below_1m() -> Operation {
    children_below(1 << 20)
}

/// Each create and delete changes the stat of the parent, and so its digest, which covers its data.
fn children_below(data_bytes: usize) -> Operation {
    let mut tree = fixture::small_tree();
    let mut parent = fixture::create_entry(0, "/large");
    if let Txn::Create(create) = &mut parent.txn {
        create.data = Some(vec![0x5a; data_bytes].into());
    }
    tree.replay(&parent);
    let paths: &'static [String] =
        (0..CHILDREN).map(|child| format!("/large/{child:03}")).collect::<Vec<_>>().leak();
    let creates = paths.iter().map(|path| fixture::create_request(path));
    let deletes =
        paths.iter().map(|path| WriteRequest::Delete { path: path.as_str().into(), version: -1 });
    let request = WriteRequest::Multi(creates.chain(deletes).collect());
    let ids = [Id::new("ip", "127.0.0.1")];
    let (mut overlay, mut events) = (Overlay::new(fixture::HASH_SEED), Events::new());
    Box::new(move |index| {
        let header = fixture::txn_header(1 + index);
        let caller = Caller { ids: &ids, refused: None, ephemerals_refused: None };
        let entry = overlay.prepare(&tree, header, caller, black_box(&request));
        let outcome = tree.apply(&entry, &mut events);
        assert!(matches!(outcome, Outcome::Multi(results) if results.len() == 2 * CHILDREN));
        overlay.applied(header.zxid);
        assert!(entry.digest.is_some_and(|digest| tree.has_digest(&digest)));
    })
}

/// The first 100 watches of a session that has 1,000 persistent ones.
pub fn list_watches_1000() -> Operation {
    list_watches(1000)
}

/// The same with 20,000.
pub fn list_watches_20000() -> Operation {
    list_watches(20_000)
}

fn list_watches(count: usize) -> Operation {
    let tree = fixture::small_tree();
    for number in 0..count {
        let path = format!("/watched-{number:05}");
        let added = tree.watches().add_persistent(&path, Watcher(1), WatchMode::Persistent);
        added.expect("there is no limit");
    }
    let limit = StepLimit { znodes: 100, bytes: usize::MAX };
    Box::new(move |_| {
        let listed = tree.watches().of_watcher(black_box(Watcher(1)), limit);
        assert_eq!(listed.len(), 100);
    })
}

/// A change at a depth of 250, with a recursive watch of the root.
pub fn notify_deep_250() -> Operation {
    notify_deep(250)
}

/// The same at a depth of 5,000.
pub fn notify_deep_5000() -> Operation {
    notify_deep(5000)
}

fn notify_deep(depth: usize) -> Operation {
    let tree = fixture::small_tree();
    let added = tree.watches().add_persistent("/", Watcher(1), WatchMode::PersistentRecursive);
    added.expect("there is no limit");
    let path = "/a".repeat(depth);
    Box::new(move |_| {
        let notified = tree.watches().trigger(TableKind::Data, black_box(&path));
        assert_eq!(notified, [Watcher(1)]);
    })
}

/// A page of 10 local sessions beside 1,000 global ones.
pub fn local_sessions_1000() -> Operation {
    local_sessions(1000)
}

/// The same beside 20,000.
pub fn local_sessions_20000() -> Operation {
    local_sessions(20_000)
}

fn local_sessions(global: usize) -> Operation {
    const LOCAL: usize = 10;
    let mut sessions = Sessions::new(1, fixture::WALL_MS, 2000, 125);
    for _ in 0..global {
        let id = sessions.allocate();
        sessions.open(id, 30_000, None, 0);
    }
    for _ in 0..LOCAL {
        let id = sessions.allocate();
        sessions.open_local(id, 30_000, ConnId(1), 0);
    }
    Box::new(move |_| {
        let page = black_box(&sessions).local_after(SessionId(i64::MIN));
        assert_eq!((page.count(), sessions.local_len()), (LOCAL, LOCAL));
    })
}
