//! The conditions of a search.
//!
//! In: a walked znode and the time. Out: whether it matches every condition. Not here: the walk, and
//! the choice of what to read, which follows from [`Search::fetch`].

use std::time::Duration;

use super::lifetime::NodeType;
use super::path;
use super::pattern::Pattern;
use super::walk::{Fetch, Znode};

/// Conditions, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The name matches.
    pub name: Option<Pattern>,
    /// The path matches.
    pub path: Option<Pattern>,
    /// The data matches.
    pub data: Option<Pattern>,
    /// The znode is of this type.
    pub node_type: Option<NodeType>,
    /// This session owns it.
    pub owner: Option<i64>,
    /// Its data changed within this time.
    pub newer: Option<Duration>,
    /// Its data has not changed for this time.
    pub older: Option<Duration>,
    /// It has more bytes of data than this.
    pub larger: Option<u64>,
    /// It has neither data nor children.
    pub is_empty: bool,
}

impl Search {
    /// What has to be read of each znode.
    #[must_use]
    pub fn fetch(&self) -> Fetch {
        if self.data.is_some() { Fetch::Data } else { Fetch::Stat }
    }

    /// Whether a znode meets all conditions.
    #[must_use]
    pub fn is_match(&self, znode: &Znode, now_ms: i64) -> bool {
        let stat = &znode.stat;
        let age_ms = now_ms.saturating_sub(stat.mtime);
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let path = znode.position.path.as_str();
        holds(self.name.as_ref(), |pattern| pattern.is_match(path::name(path)))
            && holds(self.path.as_ref(), |pattern| pattern.is_match(path))
            && holds(self.node_type, |node_type| NodeType::of(stat) == node_type)
            && holds(self.owner, |owner| stat.ephemeral_owner == owner)
            && holds(self.newer, |newer| age_ms <= ms(newer))
            && holds(self.older, |older| age_ms >= ms(older))
            && holds(self.larger, |larger| i64::from(stat.data_length) > larger.cast_signed())
            && (!self.is_empty || (stat.data_length == 0 && stat.num_children == 0))
            && holds(self.data.as_ref(), |pattern| pattern.is_match(&znode.data))
    }
}

fn holds<T>(condition: Option<T>, test: impl FnOnce(T) -> bool) -> bool {
    condition.is_none_or(test)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use herdsman_client::Stat;

    use super::super::walk::Position;
    use super::*;

    const NOW_MS: i64 = 1_000_000;

    fn znode() -> Znode {
        let stat =
            Stat { mtime: NOW_MS - 60_000, data_length: 6, ephemeral_owner: 7, ..Stat::default() };
        let position = Position { path: "/app/db-1".to_owned(), depth: 2, is_last: false };
        Znode { position, stat, data: Bytes::from("host=a"), acl: Vec::new() }
    }

    fn check(search: &Search, expected: bool) {
        assert_eq!(search.is_match(&znode(), NOW_MS), expected, "{search:?}");
    }

    #[test]
    fn every_condition_can_decide() {
        let all = Search::default;
        check(&all(), true);
        let glob = |text| Some(Pattern::glob(text).unwrap());
        let regex = |text| Some(Pattern::regex(text).unwrap());
        for (name, expected) in [("db-*", true), ("app", false), ("/app/*", false)] {
            check(&Search { name: glob(name), ..all() }, expected);
        }
        check(&Search { path: regex("^/app/.*1$"), ..all() }, true);
        check(&Search { path: regex("^db"), ..all() }, false);
        check(&Search { data: regex("host=."), ..all() }, true);
        check(&Search { data: Some(Pattern::text("host=.")), ..all() }, false);
        check(&Search { node_type: Some(NodeType::Ephemeral), ..all() }, true);
        check(&Search { node_type: Some(NodeType::Persistent), ..all() }, false);
        check(&Search { owner: Some(7), ..all() }, true);
        check(&Search { owner: Some(8), ..all() }, false);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        check(&Search { newer: seconds(61), ..all() }, true);
        check(&Search { newer: seconds(59), ..all() }, false);
        check(&Search { older: seconds(59), ..all() }, true);
        check(&Search { older: seconds(61), ..all() }, false);
        check(&Search { larger: Some(5), ..all() }, true);
        check(&Search { larger: Some(6), ..all() }, false);
        check(&Search { is_empty: true, ..all() }, false);
        check(&Search { name: glob("db-*"), owner: Some(8), ..all() }, false);
    }

    #[test]
    fn data_is_read_only_when_it_matters() {
        assert_eq!(Search::default().fetch(), Fetch::Stat);
        let search = Search { data: Some(Pattern::text("x")), ..Search::default() };
        assert_eq!(search.fetch(), Fetch::Data);
    }
}
