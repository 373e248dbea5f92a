//! `create`: a znode of any kind.

use std::time::Duration;

use clap::Args;
use herdsman_client::Lifetime;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::{parse_acl, printable, stat_json};
use crate::shell::Shell;

/// Create a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  create /app                              without data
  create /app/motd 'hello world'           with data
  create -e /app/me                        goes when this shell ends
  create -s /app/task- payload             the server appends a number
  create -c /app/locks                     a container: goes when its last child has gone
  create -t 60000 /app/lease               goes when left alone for a minute
  create /app/secret x digest:bob:HASH:cdrwa
  create -p /a/b/c                         with the parents that are missing")]
pub(crate) struct Create {
    /// Sequential: the server appends a number that grows.
    #[arg(short = 's')]
    sequential: bool,
    /// Ephemeral: goes with the session.
    #[arg(short = 'e')]
    ephemeral: bool,
    /// A container: goes when its last child has gone.
    #[arg(short = 'c', conflicts_with_all = ["sequential", "ephemeral"])]
    container: bool,
    /// Goes when it has had no change and no children for this long.
    #[arg(
        short = 't',
        value_name = "TTL",
        conflicts_with_all = ["ephemeral", "container"],
        value_parser = clap::value_parser!(u64).range(1..=TTL_MS_MAX)
    )]
    ttl_ms: Option<u64>,
    /// Create missing parents too.
    #[arg(short = 'p', long = "parents")]
    parents: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// Its data.
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Option<String>,
    /// Who may do what, as `scheme:id:perms[,…]`; by default everybody everything.
    #[arg(value_name = "ACL")]
    acl: Option<String>,
}

/// A time to live has 40 bits.
const TTL_MS_MAX: u64 = (1 << 40) - 1;

impl Run for Create {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let acl = self.acl.as_deref().map(parse_acl).transpose()?;
        let data = self.data.clone().unwrap_or_default();
        let mut call = shell.client()?.create(&self.path, data).lifetime(self.lifetime());
        if let Some(acl) = acl {
            call = call.acl(acl);
        }
        if self.sequential {
            call = call.sequential();
        }
        if self.parents {
            call = call.parents();
        }
        let created = call.await?;
        match shell.output.is_json() {
            true => {
                let stat = stat_json(&created.stat);
                shell.output.json(&json!({"created": created.path, "stat": stat}))
            }
            false => shell.output.say(format!("Created {}", printable(&created.path))),
        }
    }
}

impl Create {
    fn lifetime(&self) -> Lifetime {
        match self.ttl_ms {
            Some(ttl_ms) => Lifetime::Ttl(Duration::from_millis(ttl_ms)),
            None if self.ephemeral => Lifetime::Ephemeral,
            None if self.container => Lifetime::Container,
            None => Lifetime::Persistent,
        }
    }
}
