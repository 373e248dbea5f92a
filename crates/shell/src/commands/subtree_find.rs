//! `find`: lists the znodes of a subtree that match conditions.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::Run;
use super::subtree_failure::SystemFlag;
use crate::failure::Failure;
use crate::format::{printable, stat_json};
use crate::shell::Shell;
use crate::subtree::find::Search;
use crate::subtree::lifetime::NodeType;
use crate::subtree::pattern::Pattern;
use crate::subtree::{Visit, Walk, WalkOptions, human};

/// Find znodes by name, data, owner, age or size.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  find /app --name '*.json'            by name; * and ? stop at slashes
  find / --regex '/lock-[0-9]+$'       by path
  find /app --data host=old            by text in the data
  find / --ephemeral --owner 0x1234    ephemerals of a session
  find / --older 30d --larger 64k      large and unchanged for a month
A znode must meet all conditions. Matches are printed as they are found.")]
pub(crate) struct Find {
    /// The root of the subtree.
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// The name matches this glob.
    #[arg(long, value_name = "GLOB", value_parser = Pattern::glob)]
    name: Option<Pattern>,
    /// Part of the path matches this regular expression.
    #[arg(long, value_name = "REGEX", value_parser = Pattern::regex)]
    regex: Option<Pattern>,
    /// The data contains this text.
    #[arg(long, value_name = "TEXT", value_parser = as_text_pattern)]
    data: Option<Pattern>,
    /// Part of the data matches this regular expression.
    #[arg(long, value_name = "REGEX", value_parser = Pattern::regex, conflicts_with = "data")]
    data_regex: Option<Pattern>,
    /// Ephemerals only; the same as --type ephemeral.
    #[arg(long, conflicts_with = "kind")]
    ephemeral: bool,
    /// Only znodes of this type. Servers do not tell clients which znodes are containers or have a time to
    /// live: those count as persistent.
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    kind: Option<Kind>,
    /// Owned by this session.
    #[arg(long, value_name = "SESSION", value_parser = human::parse_session)]
    owner: Option<i64>,
    /// Changed within this time: 90s, 10m, 2h, 7d.
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    newer: Option<Duration>,
    /// Not changed for this time.
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    older: Option<Duration>,
    /// More data than this: 1000, 64k, 1M.
    #[arg(long, value_name = "BYTES", value_parser = human::parse_size)]
    larger: Option<u64>,
    /// Without data and children.
    #[arg(long)]
    empty: bool,
    /// Stop after this many matches.
    #[arg(long, value_name = "COUNT")]
    max: Option<u64>,
    #[command(flatten)]
    system: SystemFlag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Persistent,
    Ephemeral,
}

/// [`Pattern::text`] as a value parser.
fn as_text_pattern(text: &str) -> Result<Pattern, std::convert::Infallible> {
    Ok(Pattern::text(text))
}

impl Run for Find {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let (path, max, system) = (self.path.clone(), self.max, self.system.system());
        let search = self.into_search();
        let options = WalkOptions { fetch: search.fetch(), depth_max: None, system };
        let mut walk = Walk::new(shell.client()?, &path, options);
        let now_ms = human::now_ms();
        let (mut found, mut unreadable) = (0, 0_u64);
        while max.is_none_or(|max| found < max)
            && let Some(visit) = walk.next().await?
        {
            match visit {
                Visit::Unreadable(_) => unreadable += 1,
                Visit::Znode(znode) if search.is_match(&znode, now_ms) => {
                    found += 1;
                    let path = &znode.position.path;
                    match shell.output.is_json() {
                        true => {
                            let stat = stat_json(&znode.stat);
                            shell.output.json(&json!({"path": path, "stat": stat}))?;
                        }
                        false => shell.output.say(printable(path))?,
                    }
                }
                Visit::Znode(_) => {}
            }
        }
        if unreadable > 0 {
            let unreadable = human::count(unreadable, "znode");
            shell.output.note(format!("{unreadable} could not be read, nor anything below"));
        }
        Ok(())
    }
}

impl Find {
    fn into_search(self) -> Search {
        let kind = if self.ephemeral { Some(Kind::Ephemeral) } else { self.kind };
        Search {
            name: self.name,
            path: self.regex,
            data: self.data.or(self.data_regex),
            node_type: kind.map(|kind| match kind {
                Kind::Persistent => NodeType::Persistent,
                Kind::Ephemeral => NodeType::Ephemeral,
            }),
            owner: self.owner,
            newer: self.newer,
            older: self.older,
            larger: self.larger,
            is_empty: self.empty,
        }
    }
}
