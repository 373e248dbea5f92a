//! What kind of znode it is: how its life ends.
//!
//! The client protocol tells ephemerals from the rest, and no more: servers, Apache's as ours, show
//! clients an owner of 0 for containers and for znodes with a time to live. Whoever knows which of
//! their znodes are such can say so with [`TypeHints`], and then the types are kept on the way
//! through a file or a copy.

use std::time::Duration;

use herdsman_client::{Lifetime, Stat};
use serde::{Deserialize, Serialize};

use super::error::{Result, SubtreeError};
use super::human;
use super::pattern::Pattern;

/// The kind of a znode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    /// Lives until it is deleted.
    #[default]
    Persistent,
    /// Lives as long as the session that owns it.
    Ephemeral,
    /// Goes when its last child has gone.
    Container,
    /// Goes when it has had no change and no children for its time to live.
    Ttl,
}

impl NodeType {
    /// The kind as far as a stat tells it.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        if stat.ephemeral_owner == 0 { NodeType::Persistent } else { NodeType::Ephemeral }
    }

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NodeType::Persistent => "persistent",
            NodeType::Ephemeral => "ephemeral",
            NodeType::Container => "container",
            NodeType::Ttl => "ttl",
        }
    }

    /// Whether a server would show a client the same for both.
    #[must_use]
    pub fn looks_like(self, other: NodeType) -> bool {
        (self == NodeType::Ephemeral) == (other == NodeType::Ephemeral)
    }
}

/// What the user knows of the types and no stat tells. Patterns are of relative paths.
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

    /// How the znode at this relative path lives: what its stat tells, and then what the hints say.
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
            format!("{hint:?} is not a hint for a time to live: write GLOB=DURATION, jobs/*=10m");
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
    fn hints_say_what_the_stat_does_not() {
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
    fn hints_that_say_nothing_are_refused() {
        for bad in ["jobs", "jobs=", "jobs=0s", "jobs=ten", "[=1s"] {
            assert!(TypeHints::parse(&[], &[bad.into()]).is_err(), "{bad:?}");
        }
    }
}
