//! Test data, the same in every run: a tree of groups and items, with requests and txns for them.

use std::sync::Arc;

use herdsman_proto::request::{CreateRequest, RequestHeader};
use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{
    Acl, OpCode, Perms, Request, SessionId, StatPersisted, Txn, TxnDigest, TxnHeader, WriteRequest,
    Xid, Zxid,
};
use herdsman_tree::{Loader, Tree, TreeOptions};

/// Seeds every hash table.
pub const HASH_SEED: u64 = 1;
/// The session of all requests.
pub const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
/// The time of all requests.
pub const WALL_MS: i64 = 1_700_000_000_000;
/// The data of a znode: 100 bytes.
pub const DATA: [u8; 100] = [0x5a; 100];
/// Children of each group.
pub const ITEMS_OF_GROUP: usize = 100;
/// Groups of the small tree. The number of znodes hardly affects instructions, unlike caches, and
/// a large tree takes seconds to build under callgrind.
pub const GROUPS: usize = 20;

/// The last txn of a new tree; applied txns follow it.
const LAST_ZXID: Zxid = Zxid(0x1_0000_0000);

/// The path of a group.
pub fn group_path(group: usize) -> String {
    format!("/bench/group-{group:04}")
}

/// The path of the n-th item of the tree, counted so that neighbours are in different groups.
pub fn item_path(groups: usize, index: usize) -> String {
    format!("{}/item-{:04}", group_path(index % groups), index / groups)
}

/// The paths of the first items of the small tree.
pub fn item_paths(count: usize) -> Vec<String> {
    assert!(count <= GROUPS * ITEMS_OF_GROUP, "the small tree has fewer than {count} items");
    (0..count).map(|index| item_path(GROUPS, index)).collect()
}

/// Paths of znodes that the small tree does not have, spread over its groups.
pub fn new_paths(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{}/new-{index:04}", group_path(index % GROUPS))).collect()
}

/// The tree of most cases.
pub fn small_tree() -> Tree {
    tree(GROUPS)
}

/// A tree of this many groups, each with [`ITEMS_OF_GROUP`] items of 100 bytes.
pub fn tree(groups: usize) -> Tree {
    let options = TreeOptions { hash_seed: HASH_SEED, ..TreeOptions::default() };
    let mut loader = Loader::new(options);
    loader.session(SESSION, 30_000);
    loader.acl(1, open_acl());
    let stat = StatPersisted::created(Zxid(1), WALL_MS, 0);
    let mut put = |path: &str, data: &[u8]| {
        let loaded = loader.node(path, Some(data), 1, stat);
        loaded.expect("parents come before their children, once each");
    };
    for path in ["", "/zookeeper", "/zookeeper/quota", "/bench"] {
        put(path, &[]);
    }
    for group in 0..groups {
        put(&group_path(group), &[]);
    }
    for index in 0..groups * ITEMS_OF_GROUP {
        put(&item_path(groups, index), &DATA);
    }
    loader.finish(LAST_ZXID).expect("the root came first")
}

/// A tree of one znode with this ACL.
pub fn guarded_tree(path: &str, acl: Vec<Acl>) -> Tree {
    let mut loader = Loader::new(TreeOptions { hash_seed: HASH_SEED, ..TreeOptions::default() });
    loader.acl(1, open_acl());
    loader.acl(2, acl);
    let stat = StatPersisted::created(Zxid(1), WALL_MS, 0);
    for (path, acl) in [("", 1), ("/zookeeper", 1), ("/zookeeper/quota", 1), (path, 2)] {
        let loaded = loader.node(path, None, acl, stat);
        loaded.expect("parents come before their children, once each");
    }
    loader.finish(LAST_ZXID).expect("the root came first")
}

/// The open ACL, which nearly all znodes have.
pub fn open_acl() -> Vec<Acl> {
    vec![Acl::world(Perms::ALL)]
}

/// The header of the n-th txn of a run.
pub fn txn_header(index: usize) -> TxnHeader {
    let number = i32::try_from(index).expect("a case has fewer iterations");
    let zxid = Zxid(LAST_ZXID.0 + 1 + i64::from(number));
    TxnHeader { session: SESSION, cxid: number, zxid, time_ms: WALL_MS }
}

/// A prepared txn.
pub fn entry(index: usize, txn: Txn) -> Entry {
    let digest = TxnDigest { version: TxnDigest::VERSION, tree_digest: 0x1234_5678_9abc };
    Entry { header: txn_header(index), txn, digest: Some(digest) }
}

/// The n-th txn of a run, which replaces the data of a znode.
pub fn set_data_entry(index: usize, path: &str) -> Entry {
    let data = Some(Arc::from(&DATA[..]));
    entry(index, Txn::SetData { path: path.into(), data, version: 1, reconfig: false })
}

/// The n-th txn of a run, which creates a znode.
pub fn create_entry(index: usize, path: &str) -> Entry {
    let create = CreateTxn {
        kind: CreateKind::Plain { ephemeral: false, with_stat: false },
        path: path.into(),
        data: Some(Arc::from(&DATA[..])),
        acl: open_acl(),
        // It rises with every child, and this is more than any group has.
        parent_cversion: 1000 + txn_header(index).cxid,
    };
    entry(index, Txn::Create(create))
}

/// Replace the data of a znode, whatever its version.
pub fn set_data_request(path: &str) -> WriteRequest<'_> {
    WriteRequest::SetData { path: path.into(), data: Some(&DATA), version: -1 }
}

/// Create a persistent znode.
pub fn create_request(path: &str) -> WriteRequest<'_> {
    let (op, acl) = (OpCode::Create, open_acl());
    WriteRequest::Create(CreateRequest {
        op,
        path: path.into(),
        data: Some(&DATA),
        acl,
        flags: 0,
        ttl_ms: None,
    })
}

/// The part of a request's frame after the length.
pub fn payload(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    RequestHeader { xid: Xid(7), op: request.op().code() }.encode(&mut out);
    request.encode(&mut out);
    out
}
