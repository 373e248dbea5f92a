//! The types of znodes: persistent, ephemeral, container, or with a time to live.
//!
//! The client protocol only distinguishes ephemerals from the rest: servers, Apache's as ours, show
//! clients an owner of 0 for containers and for znodes with a time to live. Users who know which of
//! their znodes are such can specify that with [`TypeHints`]; then the types are preserved in an export
//! or a copy.

use std::time::Duration;

use herdsman_client::{Lifetime, Stat};
use serde::{Deserialize, Serialize};

use super::error::{Result, SubtreeError};
use super::human;
use super::pattern::Pattern;

/// The type of a znode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    /// Stays until it is deleted.
    #[default]
    Persistent,
    /// Deleted when the session that owns it ends.
    Ephemeral,
    /// Deleted after its last child.
    Container,
    /// Deleted after its time to live without changes and children.
    Ttl,
}

impl NodeType {
    /// The type as far as a stat shows it.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        if stat.ephemeral_owner == 0 { NodeType::Persistent } else { NodeType::Ephemeral }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NodeType::Persistent => "persistent",
            NodeType::Ephemeral => "ephemeral",
            NodeType::Container => "container",
            NodeType::Ttl => "ttl",
        }
    }

    /// Whether a server shows clients the same for both types.
    #[must_use]
    pub fn looks_like(self, other: NodeType) -> bool {
        (self == NodeType::Ephemeral) == (other == NodeType::Ephemeral)
    }
}

/// Types that the user knows and no stat shows. Patterns match relative paths.
#[derive(Clone, Debug, Default)]
pub struct TypeHints {
    containers: Vec<Pattern>,
    ttls: Vec<(Pattern, Duration)>,
}

impl TypeHints {
    /// Reads hints: globs of containers, and `GLOB=DURATION` of znodes with a time to live.
    pub fn parse(containers: &[String], ttls: &[String]) -> Result<Self> {
        let containers = containers.iter().map(|glob| Pattern::glob(glob));
        let ttls = ttls.iter().map(|hint| parse_ttl(hint));
        Ok(TypeHints {
            containers: containers.collect::<Result<_>>()?,
            ttls: ttls.collect::<Result<_>>()?,
        })
    }

    /// The lifetime of the znode at this relative path, by its stat and then by the hints.
    #[must_use]
    pub fn lifetime(&self, relative: &str, stat: &Stat) -> Lifetime {
        if stat.ephemeral_owner != 0 {
            return Lifetime::Ephemeral;
        }
        if self.containers.iter().any(|glob| glob.is_match(relative)) {
            return Lifetime::Container;
        }
        let ttl = self.ttls.iter().find(|(glob, _)| glob.is_match(relative));
        ttl.map_or(Lifetime::Persistent, |(_, ttl)| Lifetime::Ttl(*ttl))
    }
}

fn parse_ttl(hint: &str) -> Result<(Pattern, Duration)> {
    let refused = || {
        let text =
            format!("{hint:?} is not a valid time to live: use GLOB=DURATION, as jobs/*=10m");
        SubtreeError::Mistake(text)
    };
    let (glob, ttl) = hint.rsplit_once('=').ok_or_else(refused)?;
    let ttl = human::parse_duration(ttl)?;
    if ttl.is_zero() {
        return Err(refused());
    }
    Ok((Pattern::glob(glob)?, ttl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_add_what_the_stat_does_not_show() {
        let hints = TypeHints::parse(&["locks/*".into()], &["jobs/**=10m".into()]).unwrap();
        let stat = Stat::default();
        let check =
            |path: &str, expected| assert_eq!(hints.lifetime(path, &stat), expected, "{path}");
        check("locks/a", Lifetime::Container);
        check("locks/a/b", Lifetime::Persistent);
        check("jobs/a/b", Lifetime::Ttl(Duration::from_secs(600)));
        check(".", Lifetime::Persistent);
        let owned = Stat { ephemeral_owner: 7, ..stat };
        assert_eq!(hints.lifetime("locks/a", &owned), Lifetime::Ephemeral);
    }

    #[test]
    fn invalid_hints_are_rejected() {
        for bad in ["jobs", "jobs=", "jobs=0s", "jobs=ten", "[=1s"] {
            assert!(TypeHints::parse(&[], &[bad.into()]).is_err(), "{bad:?}");
        }
    }
}
