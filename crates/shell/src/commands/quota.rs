//! Quotas: `setquota`, `listquota` and `delquota`.
//!
//! A quota of `/app` is two znodes below `/zookeeper/quota/app`: `zookeeper_limits`, which we write,
//! and `zookeeper_stats`, which servers keep up to date. There is at most one quota on the path from
//! the root to any znode. With a chroot, zkCli writes them below the chroot, where no server reads
//! them; we write them where servers do. Apache: `SetQuotaCommand`, `DelQuotaCommand`, `ListQuotaCommand`.

use clap::{ArgGroup, Args};
use herdsman_client::{Client, ErrorKind, Op, check_path};
use herdsman_proto::path::{QUOTA, ROOT, is_prefix, split};
use serde_json::json;

use super::Run;
use super::ls::join;
use crate::failure::Failure;
use crate::shell::Shell;

mod limits;

use limits::Limits;

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// Limit the number of znodes and bytes of a subtree.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  setquota -n 1000 /app         soft: servers log a warning above 1000 znodes
  setquota -N 1000 /app         hard: servers reject more than 1000 znodes
  setquota -B 1048576 /app      hard: no more than 1 MiB of data
Hard limits need `enforceQuota=true` on the servers.")]
#[command(group = ArgGroup::new("limit").required(true).multiple(true))]
pub(crate) struct SetQuota {
    /// Soft limit of znodes.
    #[arg(short = 'n', group = "limit", value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    count: Option<i64>,
    /// Soft limit of bytes.
    #[arg(short = 'b', group = "limit", value_name = "BYTES", value_parser = clap::value_parser!(i64).range(0..))]
    bytes: Option<i64>,
    /// Hard limit of znodes.
    #[arg(short = 'N', group = "limit", value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    hard_count: Option<i64>,
    /// Hard limit of bytes.
    #[arg(short = 'B', group = "limit", value_name = "BYTES", value_parser = clap::value_parser!(i64).range(0..))]
    hard_bytes: Option<i64>,
    /// The root of the subtree.
    #[arg(value_name = "PATH")]
    path: String,
}

impl Run for SetQuota {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let paths = QuotaPaths::of(shell, &self.path)?;
        if is_prefix(QUOTA, &paths.full) {
            let text = format!("setquota: cannot set a quota under the path: {QUOTA}");
            return Err(Failure::usage(text));
        }
        if paths.root.exists(&paths.full).await?.is_none() {
            return Err(Failure::NoNode(self.path));
        }
        paths.check_no_child_quota().await?;
        paths.check_no_parent_quota().await?;
        let wanted = self.limits();
        let (limits, used) = match paths.read_limits().await? {
            Some((mut limits, version)) => {
                limits.take(&wanted);
                let used = paths.read(STATS).await?.unwrap_or_default();
                paths.write_limits(&limits, version).await?;
                (limits, used)
            }
            None => paths.create(&wanted).await?,
        };
        for warning in limits.warnings(&used) {
            shell.output.note(warning);
        }
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "limits": limits.to_json()})),
            false => Ok(()),
        }
    }
}

impl SetQuota {
    fn limits(&self) -> Limits {
        Limits {
            count: self.count,
            bytes: self.bytes,
            hard_count: self.hard_count,
            hard_bytes: self.hard_bytes,
        }
    }
}

/// Print the quota of a subtree and its usage.
#[derive(Args, Debug)]
pub(crate) struct ListQuota {
    /// The root of the subtree.
    #[arg(value_name = "PATH")]
    path: String,
}

impl Run for ListQuota {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let paths = QuotaPaths::of(shell, &self.path)?;
        let Some(limits) = paths.read_text(LIMITS).await? else {
            return Err(Failure::failed(format!("quota for {} does not exist.", self.path)));
        };
        let used = paths.read_text(STATS).await?;
        if shell.output.is_json() {
            let used = used.as_deref().map(|text| Limits::parse(text).to_json());
            let limits = Limits::parse(&limits).to_json();
            return shell.output.json(&json!({"path": self.path, "limits": limits, "used": used}));
        }
        shell.output.note(format!("absolute path is {}", paths.node(LIMITS)));
        shell.output.say(format!("Output quota for {} {limits}", self.path))?;
        match used {
            Some(used) => shell.output.say(format!("Output stat for {} {used}", self.path)),
            None => Ok(()),
        }
    }
}

/// Remove the quota of a subtree, or a part of it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  delquota /app        the whole quota
  delquota -N /app     only the hard limit of znodes")]
pub(crate) struct DelQuota {
    /// Remove only the soft limit of znodes.
    #[arg(short = 'n')]
    count: bool,
    /// Remove only the soft limit of bytes.
    #[arg(short = 'b')]
    bytes: bool,
    /// Remove only the hard limit of znodes.
    #[arg(short = 'N')]
    hard_count: bool,
    /// Remove only the hard limit of bytes.
    #[arg(short = 'B')]
    hard_bytes: bool,
    /// The root of the subtree.
    #[arg(value_name = "PATH")]
    path: String,
}

impl Run for DelQuota {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let paths = QuotaPaths::of(shell, &self.path)?;
        let Some((mut limits, version)) = paths.read_limits().await? else {
            // The servers' znode may have been left behind, and would block a new quota.
            if paths.root.exists(&paths.node(STATS)).await?.is_some() {
                paths.delete().await?;
            }
            return match shell.output.is_json() {
                true => shell.output.json(&json!({"path": self.path, "limits": null})),
                false => shell.output.say(format!("Quota does not exist for {}", self.path)),
            };
        };
        if !(self.count || self.bytes || self.hard_count || self.hard_bytes) {
            paths.delete().await?;
            return match shell.output.is_json() {
                true => shell.output.json(&json!({"path": self.path, "limits": null})),
                false => Ok(()),
            };
        }
        limits.count = limits.count.filter(|_| !self.count);
        limits.bytes = limits.bytes.filter(|_| !self.bytes);
        limits.hard_count = limits.hard_count.filter(|_| !self.hard_count);
        limits.hard_bytes = limits.hard_bytes.filter(|_| !self.hard_bytes);
        paths.write_limits(&limits, version).await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "limits": limits.to_json()})),
            false => Ok(()),
        }
    }
}

/// The paths of a znode's quota.
struct QuotaPaths {
    root: Client,
    /// The znode's path as servers see it, including the chroot.
    full: String,
    /// The parent of the two quota znodes.
    quota: String,
}

impl QuotaPaths {
    fn of(shell: &Shell, path: &str) -> Result<Self, Failure> {
        check_path(path)?;
        let connection = shell.connection()?;
        let chroot = connection.servers().chroot();
        let full = match (chroot, path) {
            ("", path) => path.to_owned(),
            (chroot, ROOT) => chroot.to_owned(),
            (chroot, path) => format!("{chroot}{path}"),
        };
        let quota = match full.as_str() {
            ROOT => QUOTA.to_owned(),
            full => format!("{QUOTA}{full}"),
        };
        Ok(QuotaPaths { root: connection.root().clone(), full, quota })
    }

    fn node(&self, name: &str) -> String {
        join(&self.quota, name)
    }

    async fn read_text(&self, name: &str) -> Result<Option<String>, Failure> {
        match self.root.get(&self.node(name)).await {
            Ok(node) => Ok(Some(String::from_utf8_lossy(&node.data).into_owned())),
            Err(error) if *error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Limits>, Failure> {
        Ok(self.read_text(name).await?.map(|text| Limits::parse(&text)))
    }

    /// The limits and their version.
    async fn read_limits(&self) -> Result<Option<(Limits, i32)>, Failure> {
        match self.root.get(&self.node(LIMITS)).await {
            Ok(node) => {
                let text = String::from_utf8_lossy(&node.data);
                Ok(Some((Limits::parse(&text), node.stat.version)))
            }
            Err(error) if *error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the limits only if they have the version that was read: another client may have set a limit.
    async fn write_limits(&self, limits: &Limits, version: i32) -> Result<(), Failure> {
        let set = self.root.set(&self.node(LIMITS), limits.to_string()).version(version);
        match set.await {
            Ok(_) => Ok(()),
            Err(error) if *error.kind() == ErrorKind::BadVersion => Err(Failure::failed(format!(
                "the quota of {} was changed by another client meanwhile; nothing was changed",
                self.full
            ))),
            Err(error) => Err(error.into()),
        }
    }

    async fn check_no_parent_quota(&self) -> Result<(), Failure> {
        let mut path = self.full.as_str();
        while let Some((parent, _)) = split(path).filter(|(parent, _)| !parent.is_empty()) {
            if self.root.exists(&format!("{QUOTA}{parent}/{LIMITS}")).await?.is_some() {
                let text = format!("{} has a parent {parent} which has a quota", self.full);
                return Err(Failure::failed(text));
            }
            path = parent;
        }
        Ok(())
    }

    /// Walks the quota tree, which is small: it has only znodes with a quota at or below them.
    async fn check_no_child_quota(&self) -> Result<(), Failure> {
        let mut pending = vec![self.quota.clone()];
        while let Some(quota) = pending.pop() {
            let names = match self.root.children(&quota).await {
                Ok(children) => children.names,
                Err(error) if *error.kind() == ErrorKind::NoNode => continue,
                Err(error) => return Err(error.into()),
            };
            let is_limited = names.iter().any(|name| name == LIMITS);
            // A quota of the root does not count: servers keep it separate.
            if is_limited && quota != self.quota && self.quota != QUOTA {
                let child = &quota[QUOTA.len()..];
                let text = format!("{} has a child {child} which has a quota", self.full);
                return Err(Failure::failed(text));
            }
            pending.extend(names.iter().map(|name| join(&quota, name)));
        }
        Ok(())
    }

    /// Creates both znodes or neither, even if an earlier quota has left the second one behind. Servers count what
    /// exists when the second one is created.
    async fn create(&self, wanted: &Limits) -> Result<(Limits, Limits), Failure> {
        self.root.ensure(&self.quota, herdsman_client::Lifetime::Persistent).await?;
        let zero = Limits { count: Some(0), bytes: Some(0), ..Limits::default() };
        let limits = Op::create(&self.node(LIMITS), wanted.to_string());
        let stats = self.node(STATS);
        let leftover = self.root.exists(&stats).await?.map(|_| Op::delete(&stats));
        let stats = Op::create(&stats, zero.stats_text());
        self.root.transaction([limits].into_iter().chain(leftover).chain([stats])).await?;
        Ok((*wanted, self.read(STATS).await?.unwrap_or(zero)))
    }

    /// Deletes both znodes in one transaction, or the one that exists, and the parents that are no longer needed.
    async fn delete(&self) -> Result<(), Failure> {
        let both = [LIMITS, STATS].map(|name| self.node(name));
        match self.root.transaction(both.each_ref().map(|path| Op::delete(path))).await {
            Err(error) if *error.kind() == ErrorKind::NoNode => {
                for path in &both {
                    match self.root.delete(path).await {
                        Err(error) if *error.kind() != ErrorKind::NoNode => {
                            return Err(error.into());
                        }
                        _ => {}
                    }
                }
            }
            deleted => drop(deleted?),
        }
        let mut path = self.quota.as_str();
        while path != QUOTA {
            match self.root.delete(path).await {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::NotEmpty | ErrorKind::NoNode) => {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            path = split(path).map_or(QUOTA, |(parent, _)| parent);
        }
        Ok(())
    }
}
