//! Containers and times to live: the sweep deletes a container only when it has had children and has none,
//! and a znode with a time to live only when it has no children and nothing was written to it for that
//! long, by the clock of the leader. Source: "container nodes" and "TTL nodes" (Apache's programmer's guide).
//!
//! That they do go is part of liveness: see [`crate::run`].

use std::collections::BTreeMap;

use herdsman_proto::txn::CreateKind;
use herdsman_proto::{SessionId, Stat, Txn, TxnHeader};

use super::{Checker, Fact, has_effect};
use crate::chronicle::Chronicle;

/// What each znode was created as, if it goes by itself.
#[derive(Default)]
pub struct Lifetimes {
    kinds: BTreeMap<String, CreateKind>,
}

impl Checker for Lifetimes {
    fn name(&self) -> &'static str {
        "lifetimes"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Committed { entry, .. } if has_effect(&entry.txn) => {
                self.take(&entry.header, &entry.txn, chronicle)
            }
            _ => Ok(()),
        }
    }
}

impl Lifetimes {
    fn take(&mut self, header: &TxnHeader, txn: &Txn, chronicle: &Chronicle) -> Result<(), String> {
        match txn {
            Txn::Create(create) => {
                self.kinds.insert(create.path.to_string(), create.kind);
                Ok(())
            }
            Txn::Delete { path, container: true } => {
                let Some(view) = chronicle.past(path).view_at(header.zxid) else {
                    return Err(format!(
                        "{}: the sweep deleted {path}, which is gone",
                        header.zxid
                    ));
                };
                let stat = view.decoded();
                if header.session == SessionId::NONE && self.is_due(path, &stat, header.time_ms) {
                    return Ok(());
                }
                Err(format!(
                    "{}: {} deleted {path} by a sweep at {}, {:?} with {stat:?}",
                    header.zxid,
                    header.session,
                    header.time_ms,
                    self.kinds.get(&**path)
                ))
            }
            Txn::Multi(txns) => txns.iter().try_for_each(|txn| self.take(header, txn, chronicle)),
            _ => Ok(()),
        }
    }

    fn is_due(&self, path: &str, stat: &Stat, now_ms: i64) -> bool {
        let alone = stat.num_children == 0;
        match self.kinds.get(path) {
            Some(CreateKind::Container) => alone && stat.cversion > 0,
            Some(CreateKind::Ttl(ttl_ms)) => alone && now_ms - stat.mtime > *ttl_ms,
            _ => false,
        }
    }
}
