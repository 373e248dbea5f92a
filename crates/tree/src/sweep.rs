//! Containers and TTL znodes whose time has come. Apache: `ContainerManager.getCandidates`.
//! Only finds them; the leader then asks for each deletion like any other write.

use crate::owner::Owner;
use crate::tree::Tree;

impl Tree {
    /// Childless containers that once had a child (or were never used for `never_used_ms_max`, if
    /// that is given), and childless TTL znodes that nobody wrote for their time. In order.
    #[must_use]
    pub fn sweep_candidates(&self, now_ms: i64, never_used_ms_max: Option<i64>) -> Vec<Box<str>> {
        let containers =
            self.containers.iter().filter(|path| self.is_unused(path, now_ms, never_used_ms_max));
        let ttls = self.ttls.iter().filter(|path| self.is_expired(path, now_ms));
        containers.chain(ttls).cloned().collect()
    }

    fn is_unused(&self, path: &str, now_ms: i64, never_used_ms_max: Option<i64>) -> bool {
        let Some(id) = self.nodes.find(path) else {
            return false;
        };
        let node = self.nodes.get(id);
        let idle_ms = now_ms - node.stat().mtime;
        node.children().is_empty()
            && (node.stat().cversion > 0 || never_used_ms_max.is_some_and(|max| idle_ms > max))
    }

    fn is_expired(&self, path: &str, now_ms: i64) -> bool {
        let Some(id) = self.nodes.find(path) else {
            return false;
        };
        let node = self.nodes.get(id);
        match self.options.owner_rules.owner(node.stat().ephemeral_owner) {
            Owner::Ttl(ttl_ms) => {
                node.children().is_empty() && ttl_ms != 0 && now_ms - node.stat().mtime > ttl_ms
            }
            _ => false,
        }
    }
}
