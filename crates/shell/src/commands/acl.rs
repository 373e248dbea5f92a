//! `getAcl` and `setAcl`.

use clap::Args;
use herdsman_client::{Acl, Client, ErrorKind, Outcome};
use serde_json::json;

use super::Run;
use super::ls::join;
use super::subtree_failure::Count;
use crate::failure::Failure;
use crate::format::{acl_json, acl_lines, parse_acl, printable_lines, stat_json, stat_lines};
use crate::shell::Shell;
use crate::subtree::human;

/// Print the ACL of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  getAcl /app        letters: c create, d delete, r read, w write, a admin
  getAcl -s /app     also the stat")]
pub(crate) struct GetAcl {
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

impl Run for GetAcl {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let (acl, stat) = shell.client()?.acl(&self.path).await?;
        if shell.output.is_json() {
            let mut answer = json!({"path": self.path, "acl": acl_json(&acl)});
            if self.stat {
                answer["stat"] = stat_json(&stat);
            }
            return shell.output.json(&answer);
        }
        for line in acl_lines(&acl) {
            shell.output.say(printable_lines(&line))?;
        }
        match self.stat {
            true => shell.output.say(stat_lines(&stat)),
            false => Ok(()),
        }
    }
}

/// Replace the ACL of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  setAcl /app world:anyone:r                      everyone may read, and nothing else
  setAcl /app world:anyone:r,auth::cdrwa          also everything for this session's own ids (addauth)
  setAcl -R /app digest:bob:HASH:cdrwa            /app and everything below it
  setAcl -v 2 /app ip:10.0.0.0/8:r                only if the ACL has version 2")]
pub(crate) struct SetAcl {
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
    /// Change it only if the ACL has this version (aclVersion of the stat).
    #[arg(short = 'v', value_name = "VERSION", allow_negative_numbers = true)]
    version: Option<i32>,
    /// Include everything below it.
    #[arg(short = 'R')]
    recursive: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// `scheme:id:perms[,…]`.
    #[arg(value_name = "ACL")]
    acl: String,
}

impl Run for SetAcl {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let acl = parse_acl(&self.acl)?;
        let client = shell.client()?.clone();
        if self.recursive {
            let changed = Count::default();
            let so_far = changed.clone();
            shell.on_interrupt(move || {
                let changed = human::count(so_far.get(), "ACL");
                Some(format!("at least {changed} changed; {AGAIN}"))
            });
            self.set_all(&client, &acl, &changed).await?;
            return match shell.output.is_json() {
                true => shell.output.json(&json!({"path": self.path, "changed": changed.get()})),
                false => Ok(()),
            };
        }
        let stat = self.set(&client, &self.path, &acl).await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": self.path, "stat": stat_json(&stat)})),
            false if self.stat => shell.output.say(stat_lines(&stat)),
            false => Ok(()),
        }
    }
}

impl SetAcl {
    async fn set(
        &self,
        client: &Client,
        path: &str,
        acl: &[Acl],
    ) -> Result<herdsman_client::Stat, Failure> {
        let mut call = client.set_acl(path, acl);
        if let Some(version) = self.version {
            call = call.version(version);
        }
        Ok(call.await?)
    }

    /// Changes the ACLs of a subtree. A znode is listed before its ACL changes, which may take away the
    /// right to list it. A znode that was deleted meanwhile is skipped; any other error stops the command
    /// and leaves what is changed by then. A znode that may not be changed and already has this ACL counts
    /// as changed: an earlier run has changed it.
    async fn set_all(&self, client: &Client, acl: &[Acl], changed: &Count) -> Result<(), Failure> {
        let mut pending = vec![self.path.clone()];
        while let Some(path) = pending.pop() {
            match self.set_one_of_many(client, &path, acl).await {
                Ok(names) => pending.extend(names.iter().map(|name| join(&path, name))),
                Err(Failure::Server(error))
                    if *error.kind() == ErrorKind::NoNode && changed.get() > 0 =>
                {
                    continue;
                }
                Err(failure) if changed.get() > 0 => {
                    let changed = human::count(changed.get(), "ACL");
                    let this_one = match &failure {
                        Failure::Server(error) if error.outcome() == Outcome::Unknown => {
                            ", and this one may be"
                        }
                        _ => "",
                    };
                    let text = format!("{failure}; {changed} changed before{this_one}; {AGAIN}");
                    return Err(Failure::failed(text));
                }
                Err(failure) => return Err(failure),
            }
            changed.set(changed.get() + 1);
        }
        Ok(())
    }

    async fn set_one_of_many(
        &self,
        client: &Client,
        path: &str,
        acl: &[Acl],
    ) -> Result<Vec<String>, Failure> {
        let children = client.children(path).await?;
        match self.set(client, path, acl).await {
            Err(Failure::Server(error)) if *error.kind() == ErrorKind::NoAuth => {
                let (now, _) = client.acl(path).await?;
                if now != acl {
                    return Err(error.into());
                }
            }
            set => drop(set?),
        }
        Ok(children.names)
    }
}

/// How to finish. The new ACL may have removed permissions of the user who sets it.
const AGAIN: &str = "run the same command again to change the rest, as a user who may also read and change \
                     the znodes that have the new ACL";
