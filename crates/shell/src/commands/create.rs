//! `create`: creates a znode of any type.

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
  create -e /app/me                        ephemeral: deleted when this shell ends
  create -s /app/task- payload             the server appends a number
  create -c /app/locks                     a container: deleted after its last child
  create -t 60000 /app/lease               deleted after a minute without changes and children
  create /app/secret x digest:bob:HASH:cdrwa
  create -p /a/b/c                         creates missing parents too")]
pub(crate) struct Create {
    /// Sequential: the server appends an increasing number.
    #[arg(short = 's')]
    sequential: bool,
    /// Ephemeral: deleted when the session ends.
    #[arg(short = 'e')]
    ephemeral: bool,
    /// Container: deleted after its last child.
    #[arg(short = 'c', conflicts_with_all = ["sequential", "ephemeral"])]
    container: bool,
    /// Time to live in ms: deleted after this time without changes and children.
    #[arg(
        short = 't',
        value_name = "TTL",
        conflicts_with_all = ["ephemeral", "container"],
        value_parser = clap::value_parser!(u64).range(1..=TTL_MS_MAX)
    )]
    ttl_ms: Option<u64>,
    /// Also create missing parents.
    #[arg(short = 'p', long = "parents")]
    parents: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// Its data.
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Option<String>,
    /// The ACL, as `scheme:id:perms[,…]`; by default everyone has all permissions.
    #[arg(value_name = "ACL")]
    acl: Option<String>,
}

/// The longest time to live: 40 bits.
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
