//! Stands in for the driver: keeps the time and the log, carries out what the node asks for, and
//! passes every output to an observer.

use std::sync::Arc;

use herdsman_node::sweeper::SweepSettings;
use herdsman_node::{
    Input, LeaderServes, LocalSessions, Node, NodeSettings, Now, Output, Outputs, SessionPasswords,
};
use herdsman_proto::txn::Entry;
use herdsman_proto::{Id, Zxid};
use herdsman_tree::owner::OwnerRules;
use herdsman_tree::{Tree, TreeOptions};

/// When every test begins.
pub const WALL_MS: i64 = 1_700_000_000_000;

pub fn settings() -> NodeSettings {
    NodeSettings {
        server_id: 1,
        tick_ms: 1000,
        session_timeout_ms_min: 2000,
        session_timeout_ms_max: 20_000,
        touch_step_ms: 0,
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
        hash_seed: 0,
    }
}

pub fn options() -> TreeOptions {
    TreeOptions {
        owner_rules: OwnerRules { extended_types: true, ..OwnerRules::default() },
        ..TreeOptions::default()
    }
}

/// A node, its tree, its log and its clock.
pub struct Driver {
    pub node: Node,
    pub tree: Tree,
    pub now_ms: u64,
    /// Every txn the node asked to append.
    pub log: Vec<Entry>,
    /// The last one that was reported durable.
    pub flushed: Zxid,
    settings: NodeSettings,
}

impl Driver {
    pub fn new(settings: NodeSettings, tree: Tree) -> Self {
        let node = Node::new(settings.clone(), &tree, now(0));
        Driver { node, flushed: tree.last_zxid(), tree, now_ms: 0, log: Vec::new(), settings }
    }

    /// One input, then everything that became committed by it. Outputs in order.
    pub fn step(&mut self, input: Input<'_>, see: &mut dyn FnMut(&Output, &[u8])) {
        let mut out = Outputs::default();
        let now = now(self.now_ms);
        if let Input::Flushed { zxid } = input {
            self.flushed = self.flushed.max(zxid);
        }
        self.node.step(now, input, &self.tree, &mut out);
        self.carry_out(&mut out, see);
        while self.node.wants_tree() {
            self.node.apply(now, &mut self.tree, 2, &mut out);
            self.carry_out(&mut out, see);
        }
    }

    /// The process starts again from what was applied.
    pub fn restart(&mut self, see: &mut dyn FnMut(&Output, &[u8])) {
        let now = now(self.now_ms);
        self.node = Node::new(self.settings.clone(), &self.tree, now);
        let mut out = Outputs::default();
        self.node.close_orphans(now, &self.tree, &mut out);
        self.carry_out(&mut out, see);
    }

    fn carry_out(&mut self, out: &mut Outputs, see: &mut dyn FnMut(&Output, &[u8])) {
        for output in &one_for_each_watcher(out) {
            if let Output::Append { payload, .. } = output {
                let entry = Entry::decode(&out.bytes[payload.clone()]);
                self.log.push(entry.expect("what is appended can be read again"));
            }
            see(output, &out.bytes);
        }
        out.clear();
    }

    /// The last txn that the log was given.
    pub fn last_appended(&self) -> Zxid {
        self.log.last().map_or(self.flushed, |entry| entry.header.zxid)
    }
}

/// The outputs, with a `Send` for each watcher of an event.
pub fn one_for_each_watcher(out: &Outputs) -> Vec<Output> {
    let mut list = Vec::new();
    for output in &out.list {
        match output {
            Output::Event { frame, watchers, .. } => {
                let watchers = out.watchers[watchers.clone()].iter();
                let frames = || frame.clone();
                list.extend(watchers.map(|conn| Output::Send {
                    conn: *conn,
                    frames: frames(),
                    answers: None,
                }));
            }
            other => list.push(other.clone()),
        }
    }
    list
}

fn now(now_ms: u64) -> Now {
    Now { monotonic_ms: now_ms, wall_ms: WALL_MS + now_ms as i64 }
}

/// What a connection from this machine is before it proves more.
pub fn address() -> Arc<[Id]> {
    Arc::from([Id::new("ip", "127.0.0.1")])
}
