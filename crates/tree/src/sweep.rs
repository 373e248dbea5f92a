//! Containers and TTL znodes whose time has come. Apache: `ContainerManager.getCandidates`.
//! Only finds them; the leader then asks for each deletion like any other write, and decides again when the
//! turn of the deletion has come: a znode may have been used in the meantime. (Apache looks only for new
//! children then, so a write to a TTL znode just before its deletion is lost.)

use herdsman_proto::StatPersisted;

use crate::owner::Owner;
use crate::tree::Tree;

/// When a znode without children goes.
#[derive(Clone, Copy, Debug)]
pub struct SweepTime {
    /// The leader's wall clock.
    pub now_ms: i64,
    /// Containers that never had a child go when nobody has written them for this long; `None`: never.
    pub never_used_ms_max: Option<i64>,
}

impl SweepTime {
    /// Whether a znode without children goes now.
    pub(crate) fn has_come(self, owner: Owner, stat: &StatPersisted) -> bool {
        let idle_ms = self.now_ms - stat.mtime;
        match owner {
            Owner::Container => {
                stat.cversion > 0 || self.never_used_ms_max.is_some_and(|max| idle_ms > max)
            }
            Owner::Ttl(ttl_ms) => ttl_ms != 0 && idle_ms > ttl_ms,
            Owner::Nobody | Owner::Session(_) => false,
        }
    }
}

impl Tree {
    /// Childless containers that once had a child (or were never used for long enough), and childless TTL
    /// znodes that nobody wrote for their time. In order.
    #[must_use]
    pub fn sweep_candidates(&self, time: SweepTime) -> Vec<Box<str>> {
        let paths = self.containers.iter().chain(&self.ttls);
        paths.filter(|path| self.is_idle(path, time)).cloned().collect()
    }

    fn is_idle(&self, path: &str, time: SweepTime) -> bool {
        let Some(id) = self.nodes.find(path) else {
            return false;
        };
        let node = self.nodes.get(id);
        let owner = self.options.owner_rules.owner(node.stat().ephemeral_owner);
        node.children().is_empty() && time.has_come(owner, &node.stat())
    }
}
