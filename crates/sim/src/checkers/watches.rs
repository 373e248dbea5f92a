//! Watches: an event comes once for each watch, tells of the first change after the watch was set, and
//! comes before any answer that shows the change. Source: "what ZooKeeper guarantees about watches"
//! (Apache's programmer's guide).

use std::collections::BTreeMap;

use herdsman_proto::{ErrorCode, EventType, Zxid};

use super::{Checker, Fact, Reply};
use crate::chronicle::{Chronicle, Past, first_change};
use crate::client::Op;

/// What a watch hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Child,
}

impl Table {
    fn changes(self, past: &Past) -> &[(Zxid, EventType)] {
        match self {
            Table::Data => &past.data_changes,
            Table::Child => &past.child_changes,
        }
    }
}

/// Watches that are set, with the zxid of the answer that set them.
#[derive(Default)]
pub struct Watches {
    set: BTreeMap<(usize, String, Table), Zxid>,
}

impl Checker for Watches {
    fn name(&self) -> &'static str {
        "watches"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) => {
                self.check_none_missing(reply, chronicle)?;
                self.note(reply);
                Ok(())
            }
            Fact::Notified { client, kind, path, zxid } => {
                self.take(*client, *kind, path, *zxid, chronicle)
            }
            Fact::Disconnected { client } => {
                self.set.retain(|(owner, ..), _| owner != client);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Watches {
    fn check_none_missing(&self, reply: &Reply<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let first = (reply.client, String::new(), Table::Data);
        let last = (reply.client + 1, String::new(), Table::Data);
        for ((_, path, table), since) in self.set.range(first..last) {
            let changes = table.changes(chronicle.past(path));
            if let Some((zxid, kind)) = first_change(changes, *since, reply.zxid) {
                return Err(format!(
                    "client {} got an answer as of {} and no {kind:?} of {path} at {zxid}, watched since {since}",
                    reply.client, reply.zxid
                ));
            }
        }
        Ok(())
    }

    fn note(&mut self, reply: &Reply<'_>) {
        let (table, path) = match reply.op {
            Op::GetData { path, watch: true } if reply.code == 0 => (Table::Data, path),
            Op::Exists { path, watch: true }
                if reply.code == 0 || reply.code == ErrorCode::NoNode.code() =>
            {
                (Table::Data, path)
            }
            Op::GetChildren { path, watch: true } if reply.code == 0 => (Table::Child, path),
            _ => return,
        };
        // A second watch on the same path is the same watch.
        self.set.entry((reply.client, path.clone(), table)).or_insert(reply.zxid);
    }

    fn take(
        &mut self,
        client: usize,
        kind: EventType,
        path: &str,
        zxid: Zxid,
        chronicle: &Chronicle,
    ) -> Result<(), String> {
        let tables: &[Table] = match kind {
            EventType::NodeCreated | EventType::NodeDataChanged => &[Table::Data],
            EventType::NodeChildrenChanged => &[Table::Child],
            EventType::NodeDeleted => &[Table::Data, Table::Child],
        };
        let mut expected = false;
        for table in tables {
            let key = (client, path.to_owned(), *table);
            let Some(since) = self.set.remove(&key) else {
                continue;
            };
            let change = first_change(table.changes(chronicle.past(path)), since, zxid);
            if change != Some((zxid, kind)) {
                return Err(format!(
                    "client {client} got {kind:?} of {path} at {zxid}, watched since {since}, when {change:?} was due"
                ));
            }
            expected = true;
        }
        if expected {
            return Ok(());
        }
        Err(format!("client {client} got {kind:?} of {path} at {zxid} without a watch"))
    }
}
