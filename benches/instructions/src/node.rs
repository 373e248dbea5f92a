//! The state machine of a standalone server: a request goes in, its txn is reported durable, the reply is returned.
//! This is the path of a write without sockets, threads and disk.

use std::hint::black_box;
use std::sync::Arc;

use herdsman_node::sweeper::SweepSettings;
use herdsman_node::{
    ClientRequest, ConnId, Input, LeaderServes, LocalSessions, Node, NodeSettings, Now, Output,
    Outputs, SessionPasswords,
};
use herdsman_proto::{ConnectRequest, Id, SessionId, WriteRequest, Xid, Zxid};
use herdsman_tree::Tree;
use herdsman_tree::watches::TableKind;

use crate::cases::Operation;
use crate::fixture;

/// Changes of a run of `node-fire-watch`. Each triggers the watches of a znode, so all znodes of a run
/// are watched in advance.
pub const FIRED: usize = 10;
/// Watching connections for each of these.
const WATCHERS: u64 = 100;
/// Different znodes whose data is replaced.
const SET: usize = 64;
const NOW: Now = Now { monotonic_ms: 1_000, wall_ms: fixture::WALL_MS };

struct Server {
    node: Node,
    tree: Tree,
    out: Outputs,
}

impl Server {
    fn new() -> Self {
        let tree = fixture::small_tree();
        Server { node: Node::new(settings(), &tree, NOW), tree, out: Outputs::default() }
    }

    fn connect(&mut self, conn: ConnId) {
        let request = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 30_000,
            session: SessionId::NONE,
            password: &[0; 16],
            read_only: Some(false),
        };
        let ids = Arc::from([Id::new("ip", "127.0.0.1")]);
        self.settle(Input::Connect { conn, request, ids });
        let is_attached = |output: &Output| matches!(output, Output::Attached { .. });
        assert!(self.out.list.iter().any(is_attached), "{:?}", self.out.list);
    }

    /// Runs a write. Returns the number of frames that were sent to its client and to watchers.
    fn write(&mut self, conn: ConnId, index: usize, request: WriteRequest<'_>) -> usize {
        let xid = Xid(fixture::txn_header(index).cxid);
        self.settle(Input::Request {
            conn,
            xid,
            request: ClientRequest::Write(request),
            body: &[],
        });
        let out = black_box(&self.out);
        let is_sent = |output: &&Output| matches!(output, Output::Send { .. });
        out.list.iter().filter(is_sent).count() + out.watchers.len()
    }

    /// Runs one input and the txn that it proposes to their end.
    fn settle(&mut self, input: Input<'_>) {
        let Server { node, tree, out } = self;
        out.clear();
        node.step(NOW, input, tree, out);
        let zxid = match out.list.as_slice() {
            [Output::Append { zxid, .. }] => *zxid,
            other => panic!("expected a txn for the log, not {other:?}"),
        };
        node.step(NOW, Input::Flushed { zxid }, tree, out);
        assert!(node.wants_tree());
        node.apply(NOW, tree, 1, out);
    }
}

fn settings() -> NodeSettings {
    NodeSettings {
        server_id: 1,
        tick_ms: 2000,
        session_timeout_ms_min: 4000,
        session_timeout_ms_max: 40_000,
        touch_step_ms: 125,
        sweep: SweepSettings {
            interval_ms: 60_000,
            per_minute_max: 10_000,
            never_used_ms_max: None,
        },
        leader_serves: LeaderServes::Clients,
        local_sessions: LocalSessions::Off,
        read_only_after_ms: None,
        epoch_txns_max: u32::MAX,
        passwords: SessionPasswords::Apache,
        voters_min: 2,
        ephemerals_per_txn_max: 1024,
        hash_seed: fixture::HASH_SEED,
    }
}

/// A setData of a single client, without watchers.
pub fn set_data() -> Operation {
    let mut server = Server::new();
    server.connect(ConnId(0));
    let paths = fixture::item_paths(SET);
    Box::new(move |index| {
        let request = fixture::set_data_request(black_box(&paths[index % paths.len()]));
        assert_eq!(server.write(ConnId(0), index, request), 1);
    })
}

/// A setData of a watched znode.
pub fn fire_watch() -> Operation {
    let mut server = Server::new();
    server.connect(ConnId(0));
    let paths = fixture::item_paths(2 * FIRED);
    for conn in (1..=WATCHERS).map(ConnId) {
        server.connect(conn);
        for path in &paths {
            let added = server.tree.watches().add(TableKind::Data, path, conn.watcher());
            added.expect("there is no limit");
        }
    }
    Box::new(move |index| {
        let request = fixture::set_data_request(black_box(&paths[index]));
        assert_eq!(server.write(ConnId(0), index, request), 1 + WATCHERS as usize);
    })
}
