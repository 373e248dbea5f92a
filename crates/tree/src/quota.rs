//! Quotas: limits and running totals of subtrees, kept as text in znodes below `/zookeeper/quota`.
//! Apache: `Quotas`, `StatsTrack`, `PathTrie`, `DataTree.updateQuotaStat`.
//!
//! `/zookeeper/quota/app/zookeeper_limits` limits `/app`, and `…/zookeeper_stats` beside it holds the
//! totals. Each server keeps the totals itself, without txns. Of nested quotas only the
//! nearest counts. Soft limits are for reports; hard ones refuse writes, if `enforceQuota` is on.

use std::collections::BTreeSet;
use std::sync::Arc;

use herdsman_proto::txn::Data;
use herdsman_proto::{ErrorCode, path};

use crate::nodes::NodeId;
use crate::tree::Tree;

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";
/// Bytes of a text that are parsed. All fields with the longest numbers take fewer; but every client may write such a
/// text of any length, and it is read with each change below its path.
const TEXT_BYTES_MAX: usize = 1024;

/// Paths that have a quota.
#[derive(Debug, Default)]
pub struct Quotas {
    limited: BTreeSet<Box<str>>,
}

impl Quotas {
    /// Paths that have a quota, in order.
    pub fn limited(&self) -> impl Iterator<Item = &str> {
        self.limited.iter().map(|path| &**path)
    }
}

/// The text of a limits or stats znode: `count=N,bytes=M`, and for hard limits a tail behind an
/// extra `=` that old readers skip as a broken number. -1 means "no limit".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaTotals {
    /// Znodes, the subtree's root included.
    pub count: i64,
    /// Bytes of data.
    pub bytes: i64,
    /// Hard limit of znodes.
    pub count_hard: i64,
    /// Hard limit of bytes.
    pub bytes_hard: i64,
}

impl QuotaTotals {
    /// Parses the known fields; everything else is "no limit", and so is what begins after the first KiB.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut totals = QuotaTotals { count: -1, bytes: -1, count_hard: -1, bytes_hard: -1 };
        for pair in String::from_utf8_lossy(beginning(text)).split([',', ';']) {
            let mut parts = pair.split('=');
            let (key, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let value = value.parse().unwrap_or(-1);
            match key {
                "count" => totals.count = value,
                "bytes" => totals.bytes = value,
                "countHardLimit" => totals.count_hard = value,
                "byteHardLimit" => totals.bytes_hard = value,
                _ => {}
            }
        }
        totals
    }

    fn encode(count: i64, bytes: i64) -> Data {
        Some(Arc::from(format!("count={count},bytes={bytes}").into_bytes()))
    }

    /// The limit in force, hard before soft, and whether it is hard.
    fn limit(soft: i64, hard: i64) -> Option<(i64, bool)> {
        if hard > -1 { Some((hard, true)) } else { (soft > -1).then_some((soft, false)) }
    }
}

/// The pairs that are in the first [`TEXT_BYTES_MAX`] bytes completely.
fn beginning(text: &[u8]) -> &[u8] {
    let Some(beginning) = text.get(..TEXT_BYTES_MAX).filter(|_| text.len() > TEXT_BYTES_MAX) else {
        return text;
    };
    let end = beginning.iter().rposition(|byte| matches!(byte, b',' | b';'));
    &beginning[..end.unwrap_or_default()]
}

/// A quota of `/app` is kept in `/zookeeper/quota/app/<file>`.
fn quota_path(limited: &str, file: &str) -> String {
    format!("{}{limited}/{file}", path::QUOTA)
}

fn limited_path(quota_parent: &str) -> Option<&str> {
    quota_parent.strip_prefix(path::QUOTA).filter(|limited| limited.starts_with('/'))
}

impl Tree {
    /// Fails if a write that adds this much would exceed a hard limit. Uses the committed totals, so a
    /// burst in flight may exceed it, as in Apache.
    pub(crate) fn check_quota(&self, path: &str, bytes: i64, count: i64) -> Result<(), ErrorCode> {
        if !self.options.enforce_quota {
            return Ok(());
        }
        let Some(limited) = self.nearest_limited(path) else {
            return Ok(());
        };
        let totals = |file| self.quota_totals(limited, file);
        let (Some(limits), Some(used)) = (totals(LIMITS), totals(STATS)) else {
            return Ok(());
        };
        let broken = |added: i64, used: i64, limit: Option<(i64, bool)>| {
            added != 0 && limit.is_some_and(|(limit, hard)| hard && used + added > limit)
        };
        let count_broken =
            broken(count, used.count, QuotaTotals::limit(limits.count, limits.count_hard));
        let bytes_broken =
            broken(bytes, used.bytes, QuotaTotals::limit(limits.bytes, limits.bytes_hard));
        if count_broken || bytes_broken { Err(ErrorCode::QuotaExceeded) } else { Ok(()) }
    }

    /// The limits of a path that has a quota, and the used totals.
    #[must_use]
    pub fn quota(&self, limited: &str) -> Option<(QuotaTotals, QuotaTotals)> {
        Some((self.quota_totals(limited, LIMITS)?, self.quota_totals(limited, STATS)?))
    }

    /// Paths that have a quota, in order.
    pub fn limited_paths(&self) -> impl Iterator<Item = &str> {
        self.quotas.limited()
    }

    /// The nearest limited path at or above `path`. The znodes with the limits form a tree of the same names, so each
    /// name is looked up once, however deep the path is.
    fn nearest_limited<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.quotas.limited.is_empty() {
            return None;
        }
        let mut quota = self.nodes.find(path::QUOTA)?;
        let (mut end, mut nearest) = (0, None);
        for name in path.strip_prefix('/')?.split('/') {
            let Some(child) = self.nodes.child(quota, name) else { break };
            (quota, end) = (child, end + 1 + name.len());
            if self.nodes.child(quota, LIMITS).is_some() {
                nearest = Some(&path[..end]);
            }
        }
        nearest
    }

    fn quota_totals(&self, limited: &str, file: &str) -> Option<QuotaTotals> {
        let node = self.nodes.get(self.nodes.find(&quota_path(limited, file))?);
        Some(QuotaTotals::parse(node.data().unwrap_or_default()))
    }

    pub(crate) fn quota_created(&mut self, parent: &str, name: &str, path: &str, bytes: usize) {
        match limited_path(parent) {
            Some(limited) if name == LIMITS => _ = self.quotas.limited.insert(limited.into()),
            Some(limited) if name == STATS => self.recount_quota(limited),
            _ => {}
        }
        self.quota_changed(path, bytes as i64, 1);
    }

    pub(crate) fn quota_deleted(&mut self, parent: &str, name: &str, path: &str, bytes: usize) {
        if let Some(limited) = limited_path(parent).filter(|_| name == LIMITS) {
            self.quotas.limited.remove(limited);
        }
        self.quota_changed(path, -(bytes as i64), -1);
    }

    /// Adds to the totals of the nearest quota.
    pub(crate) fn quota_changed(&mut self, path: &str, bytes: i64, count: i64) {
        let Some(limited) = self.nearest_limited(path) else {
            return;
        };
        let stats_path = quota_path(limited, STATS);
        let Some(id) = self.nodes.find(&stats_path) else {
            return;
        };
        let used = QuotaTotals::parse(self.nodes.get(id).data().unwrap_or_default());
        self.set_totals(id, &stats_path, used.count + count, used.bytes + bytes);
    }

    /// Sets the totals to those of the subtree, when they are created.
    fn recount_quota(&mut self, limited: &str) {
        let stats_path = quota_path(limited, STATS);
        let Some(id) = self.nodes.find(&stats_path) else {
            return;
        };
        let (count, bytes) = match self.nodes.find(limited).map(|top| self.nodes.get(top)) {
            Some(top) => (top.below().znodes + 1, top.below().bytes + top.data_len() as u64),
            None => (0, 0),
        };
        self.set_totals(id, &stats_path, count.cast_signed(), bytes.cast_signed());
    }

    /// Sets totals. This is not a txn: version and zxids stay, no watch fires.
    fn set_totals(&mut self, id: NodeId, stats_path: &str, count: i64, bytes: i64) {
        let data = QuotaTotals::encode(count, bytes);
        let new = data.as_ref().map_or(0, |data| data.len() as u64);
        let old = self.update(id, stats_path, |nodes| nodes.set_data(id, (&data).into()));
        self.data_size = self.data_size - old as u64 + new;
    }

    /// Finds all limits and counts their subtrees, after a snapshot was loaded.
    pub(crate) fn load_quotas(&mut self) {
        let Some(root) = self.nodes.find(path::QUOTA) else {
            return;
        };
        let mut rest = vec![root];
        let mut limited = Vec::new();
        while let Some(id) = rest.pop() {
            let node = self.nodes.get(id);
            if node.name() == LIMITS {
                let mut parent = String::new();
                self.nodes.path_into(self.nodes.parent(id), &mut parent);
                limited.extend(limited_path(&parent).map(Box::<str>::from));
            }
            rest.extend(node.children());
        }
        for path in limited {
            self.recount_quota(&path);
            self.quotas.limited.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_and_without_the_hard_tail() {
        let totals = |count, bytes, count_hard, bytes_hard| QuotaTotals {
            count,
            bytes,
            count_hard,
            bytes_hard,
        };
        for (text, expected) in [
            ("count=5,bytes=10", totals(5, 10, -1, -1)),
            ("count=-1,bytes=-1=;byteHardLimit=7;countHardLimit=3", totals(-1, -1, 3, 7)),
            ("", totals(-1, -1, -1, -1)),
            ("count=x,bytes=", totals(-1, -1, -1, -1)),
        ] {
            assert_eq!(QuotaTotals::parse(text.as_bytes()), expected, "{text}");
        }
    }

    /// It used to be parsed as a whole, with every change of the subtree and for each `/metrics`.
    #[test]
    fn only_the_beginning_of_a_text_is_parsed() {
        let text = |filler: usize| format!("count=5,{}bytes=10,", ",".repeat(filler));
        let bytes = |filler| QuotaTotals::parse(text(filler).as_bytes()).bytes;
        let fits = TEXT_BYTES_MAX - text(0).len();
        assert_eq!([bytes(0), bytes(fits), bytes(fits + 1), bytes(1 << 20)], [10, 10, -1, -1]);
        assert_eq!(beginning(text(1 << 20).as_bytes()).len(), TEXT_BYTES_MAX - 1);
        assert_eq!(beginning(&[b'1'; 2 * TEXT_BYTES_MAX]), b"");
    }

    #[test]
    fn the_nearest_limit_counts() {
        let open = herdsman_proto::Perms::ALL;
        let paths = ["/zookeeper/quota/a", "/zookeeper/quota/a/b", "/zookeeper/quota/a/b/c"];
        let mut tree = crate::visible::tests::tree(&paths.map(|path| (path, open)));
        assert_eq!(tree.nearest_limited("/a/b"), None);
        for parent in &paths[..2] {
            let limits = format!("{parent}/{LIMITS}");
            crate::visible::tests::put(&mut tree, &limits, &[]);
            tree.quota_created(parent, LIMITS, &limits, 0);
        }
        let rows = [("/a/b/c/d", Some("/a/b")), ("/a/b", Some("/a/b")), ("/a/c", Some("/a"))];
        for (path, nearest) in rows.into_iter().chain([("/ab", None), ("/", None), ("", None)]) {
            assert_eq!(tree.nearest_limited(path), nearest, "{path}");
        }
    }
}
