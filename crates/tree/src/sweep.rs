//! Finds containers and TTL znodes that are due for deletion. Apache: `ContainerManager.getCandidates`.
//! Only finds them; the leader then requests each deletion like any other write, and decides again at the
//! time of the deletion: a znode may have been used in the meantime. (Apache checks only for new
//! children then, so a write to a TTL znode just before its deletion is lost.)

use std::ops::Bound;

use herdsman_proto::StatPersisted;

use crate::owner::Owner;
use crate::tree::Tree;
use crate::walk::StepLimit;

/// When a znode without children is deleted.
#[derive(Clone, Copy, Debug)]
pub struct SweepTime {
    /// The leader's wall clock.
    pub now_ms: i64,
    /// Containers that never had a child are deleted if they were not written for this long; `None`: never.
    pub never_used_ms_max: Option<i64>,
}

impl SweepTime {
    /// Whether a znode without children is due now.
    pub(crate) fn has_come(self, owner: Owner, stat: &StatPersisted) -> bool {
        let idle_ms = self.now_ms - stat.mtime;
        match owner {
            Owner::Container => {
                stat.cversion > 0 || self.never_used_ms_max.is_some_and(|max| idle_ms > max)
            }
            Owner::Ttl(ttl_ms) => ttl_ms != 0 && idle_ms > ttl_ms,
            Owner::None | Owner::Session(_) => false,
        }
    }
}

/// The position of a sweep: it visits the containers in order, then the TTL znodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SweepPosition {
    /// At the start.
    #[default]
    Start,
    /// Containers up to this one.
    Containers(Box<str>),
    /// All containers.
    AllContainers,
    /// All containers, and TTL znodes up to this one.
    Ttls(Box<str>),
    /// All.
    End,
}

impl SweepPosition {
    /// The position after this path, or at the end of the table.
    fn moved(&self, last: Option<&str>) -> SweepPosition {
        match (self, last) {
            (SweepPosition::Start | SweepPosition::Containers(_), Some(last)) => {
                SweepPosition::Containers(last.into())
            }
            (SweepPosition::Start | SweepPosition::Containers(_), None) => {
                SweepPosition::AllContainers
            }
            (_, Some(last)) => SweepPosition::Ttls(last.into()),
            (_, None) => SweepPosition::End,
        }
    }
}

impl Tree {
    /// Childless containers that once had a child (or were never used for long enough), and childless TTL
    /// znodes that were not written for their time, in order. Visits as many of them after `place` as the limit
    /// says, counting the bytes of their paths, and advances it; znodes that change between two calls may or may
    /// not be found.
    #[must_use]
    pub fn sweep_candidates(
        &self,
        time: SweepTime,
        place: &mut SweepPosition,
        limit: StepLimit,
    ) -> Vec<Box<str>> {
        let mut found = Vec::new();
        let mut left = limit;
        while !left.is_reached() && *place != SweepPosition::End {
            let (paths, after) = match &*place {
                SweepPosition::Start => (&self.containers, None),
                SweepPosition::Containers(after) => (&self.containers, Some(&**after)),
                SweepPosition::AllContainers => (&self.ttls, None),
                SweepPosition::Ttls(after) => (&self.ttls, Some(&**after)),
                SweepPosition::End => break,
            };
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let mut last = None;
            for path in paths.range::<str, _>((from, Bound::Unbounded)) {
                left.charge(path.len());
                last = Some(&**path);
                if self.is_idle(path, time) {
                    found.push(path.clone());
                }
                if left.is_reached() {
                    break;
                }
            }
            *place = place.moved(last.filter(|_| left.is_reached()));
        }
        found
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
