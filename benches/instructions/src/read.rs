//! Reads: a decoded request → its whole reply in the output buffer, as in a connection.
//! Decoding is a separate case ([`crate::decode`]).

use std::hint::black_box;

use herdsman_proto::limits::{ACL_ENTRIES_MAX, CONNECTION_IDS_MAX};
use herdsman_proto::{Acl, ErrorCode, Id, Perms, ReadRequest, Xid, reply};
use herdsman_tree::watches::TableKind;
use herdsman_tree::{Tree, Watcher, read};

use crate::cases::Operation;
use crate::fixture::{self, DATA, GROUPS, ITEMS_OF_GROUP, SESSION};

/// New watches of a run of `read-and-watch`.
pub const WATCHED: usize = 200;
/// Groups of the large tree, which has 100,000 items.
const GROUPS_OF_LARGE_TREE: usize = 1000;
/// Existing watches. With this many, the tables have room for those of a run: their growth
/// is not part of the cost of an ordinary watch.
const WATCHED_BEFORE: usize = 1000;
const WATCHER: Watcher = Watcher(1);

/// One connection, the tree it reads and the buffer of its replies.
struct Connection {
    tree: Tree,
    ids: Vec<Id>,
    out: Vec<u8>,
}

impl Connection {
    fn new(tree: Tree) -> Self {
        Connection { tree, ids: vec![Id::new("ip", "127.0.0.1")], out: Vec::with_capacity(1 << 16) }
    }

    /// Executes a read. Returns the length of the frame. The buffer is cleared first, as after a write to the
    /// socket.
    fn answer(&mut self, request: &ReadRequest<'_>) -> usize {
        let Connection { tree, ids, out } = self;
        let reader = read::ReadCaller { session: SESSION, watcher: WATCHER, ids };
        out.clear();
        let result =
            reply::reply(out, Xid(7), tree.last_zxid(), |out| tree.read(reader, request, out));
        assert!(result.is_ok(), "a znode that everyone may read");
        black_box(&*out).len()
    }
}

/// getData of different znodes of a large tree.
pub fn get_data() -> Operation {
    let mut connection = Connection::new(fixture::tree(GROUPS_OF_LARGE_TREE));
    let requests: Vec<_> = (0..64)
        .map(|index| fixture::item_path(GROUPS_OF_LARGE_TREE, index * 997))
        .map(|path| ReadRequest::GetData { path: path.into(), watch: false })
        .collect();
    Box::new(move |index| {
        let bytes = connection.answer(black_box(&requests[index % requests.len()]));
        assert!(bytes > DATA.len());
    })
}

/// exists of different znodes that exist.
pub fn exists() -> Operation {
    let mut connection = Connection::new(fixture::small_tree());
    let requests: Vec<_> = fixture::item_paths(64)
        .into_iter()
        .map(|path| ReadRequest::Exists { path: path.into(), watch: false })
        .collect();
    Box::new(move |index| {
        let bytes = connection.answer(black_box(&requests[index % requests.len()]));
        assert!(bytes > 0);
    })
}

/// getChildren of groups.
pub fn get_children() -> Operation {
    let mut connection = Connection::new(fixture::small_tree());
    let requests: Vec<_> = (0..GROUPS)
        .map(fixture::group_path)
        .map(|path| ReadRequest::GetChildren { path: path.into(), watch: false, with_stat: false })
        .collect();
    Box::new(move |index| {
        let bytes = connection.answer(black_box(&requests[index % requests.len()]));
        assert!(bytes > ITEMS_OF_GROUP * "item-0000".len());
    })
}

/// getData with a watch, each time on another znode.
pub fn and_watch() -> Operation {
    let mut connection = Connection::new(fixture::small_tree());
    let mut paths = fixture::item_paths(2 * WATCHED + WATCHED_BEFORE);
    for path in paths.split_off(2 * WATCHED) {
        let added = connection.tree.watches().add(TableKind::Data, &path, WATCHER);
        added.expect("there is no limit");
    }
    let requests: Vec<_> = paths
        .into_iter()
        .map(|path| ReadRequest::GetData { path: path.into(), watch: true })
        .collect();
    Box::new(move |index| {
        connection.answer(black_box(&requests[index]));
        assert_eq!(connection.tree.watches().count(), WATCHED_BEFORE + index + 1);
    })
}

/// getData of a znode with the longest ACL, by a client with the maximum number of ids, none of which is in the ACL.
pub fn refused() -> Operation {
    let id = |user: &str, number: usize| Id::new("digest", &format!("{user}{number:0>980}:hash"));
    let acl = (0..ACL_ENTRIES_MAX).map(|i| Acl { perms: Perms::ALL, id: id("entry", i) });
    let tree = fixture::guarded_tree("/guarded", acl.collect());
    let ids: Vec<_> = (0..CONNECTION_IDS_MAX).map(|i| id("other", i)).collect();
    let request = ReadRequest::GetData { path: "/guarded".into(), watch: false };
    let mut out = Vec::new();
    Box::new(move |_| {
        let reader = read::ReadCaller { session: SESSION, watcher: WATCHER, ids: &ids };
        let answer = tree.read(reader, black_box(&request), &mut out);
        assert_eq!(answer, Err(ErrorCode::NoAuth));
    })
}
