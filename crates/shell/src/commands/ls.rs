//! `ls`: lists the children of a znode, or all znodes below it.

use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use herdsman_client::{Client, Error, ErrorKind, Watch};
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::{bracketed, in_columns, printable, stat_json, stat_lines};
use crate::shell::Shell;
use crate::watches::WatchKind;

/// List the children of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ls /            the children of the root
  ls -s /app      also the stat of /app
  ls -w /app      also report the next change of the list
  ls -R /app      /app and all znodes below it, one per line")]
pub(crate) struct Ls {
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
    /// Watch the list: report its next change.
    #[arg(short = 'w')]
    watch: bool,
    /// Include everything below it.
    #[arg(short = 'R')]
    recursive: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// As in zkCli before 3.5.
    #[arg(hide = true)]
    deprecated_watch: Option<String>,
}

/// List the children of a znode and its stat; use `ls -s` instead.
#[derive(Args, Debug)]
pub(crate) struct Ls2 {
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    #[arg(hide = true)]
    deprecated_watch: Option<String>,
}

impl Run for Ls2 {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        shell.output.note("'ls2' has been deprecated. Please use 'ls [-s] path' instead.");
        let Ls2 { path, deprecated_watch } = self;
        let watch = deprecated_watch.is_some();
        Ls { stat: true, watch, recursive: false, path, deprecated_watch: None }.run(shell).await
    }
}

impl Run for Ls {
    async fn run(mut self, shell: &mut Shell) -> Result<(), Failure> {
        if self.deprecated_watch.is_some() {
            let note = "'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead.";
            shell.output.note(note);
            self.watch = true;
        }
        match self.recursive {
            true => self.list_all(shell).await,
            false => self.list(shell).await,
        }
    }
}

impl Ls {
    async fn list(&self, shell: &mut Shell) -> Result<(), Failure> {
        let call = shell.client()?.children(&self.path);
        let mut children = match self.watch {
            true => {
                let (children, watch) = call.watch().await?;
                shell.watches.keep(&self.path, WatchKind::Children, watch)?;
                children
            }
            false => call.await?,
        };
        children.names.sort_unstable();
        if shell.output.is_json() {
            let mut answer = json!({"path": self.path, "children": children.names});
            if self.stat {
                answer["stat"] = stat_json(&children.stat);
            }
            return shell.output.json(&answer);
        }
        say_names(shell, &children.names)?;
        match self.stat {
            true => shell.output.say(stat_lines(&children.stat)),
            false => Ok(()),
        }
    }

    /// Lists in zkCli's order: the children of a znode, then what is below the first of them, and so on.
    /// Skips znodes that are deleted meanwhile. Requests listings before they are needed, so that a large
    /// tree does not take a round trip for each znode.
    async fn list_all(&self, shell: &mut Shell) -> Result<(), Failure> {
        let client = shell.client()?.clone();
        // The root of the list must exist; znodes below it may vanish.
        client.children(&self.path).await?;
        self.say_path(shell, &self.path)?;
        let mut pending = vec![Pending::new(self.path.clone())];
        while let Some(next) = pending.pop() {
            let Pending { path, listing } = next;
            let listing = listing.unwrap_or_else(|| self.request_listing(&client, &path));
            for later in pending.iter_mut().rev().take(AHEAD) {
                later.listing.get_or_insert_with(|| self.request_listing(&client, &later.path));
            }
            let (mut names, watches) = match listing.await {
                Ok(listed) => listed,
                Err(error) if *error.kind() == ErrorKind::NoNode => continue,
                Err(error) => return Err(error.into()),
            };
            for (kind, watch) in watches {
                shell.watches.keep(&path, kind, watch)?;
            }
            names.sort_unstable();
            let children: Vec<String> = names.iter().map(|name| join(&path, name)).collect();
            for child in &children {
                self.say_path(shell, child)?;
            }
            pending.extend(children.into_iter().rev().map(Pending::new));
        }
        Ok(())
    }

    /// Requests the children, and with `-w` watches on them and on the data.
    fn request_listing(&self, client: &Client, path: &str) -> Listing {
        let children = client.children(path);
        if !self.watch {
            let children = children.send();
            return async move { Ok((children.await?.names, Vec::new())) }.boxed();
        }
        let data = client.get(path).watch().send();
        let children = children.watch().send();
        async move {
            let (_, data_watch) = data.await?;
            let (children, watch) = children.await?;
            let watches = vec![(WatchKind::Data, data_watch), (WatchKind::Children, watch)];
            Ok((children.names, watches))
        }
        .boxed()
    }

    fn say_path(&self, shell: &mut Shell, path: &str) -> Result<(), Failure> {
        match shell.output.is_json() {
            true => shell.output.json(&json!({"path": path})),
            false => shell.output.say(printable(path)),
        }
    }
}

/// Most listings in flight.
const AHEAD: usize = 64;

/// A reply with names of children, and the watches that were set.
type Listing = BoxFuture<'static, Result<(Vec<String>, Vec<(WatchKind, Watch)>), Error>>;

/// A znode that has still to be listed.
struct Pending {
    path: String,
    /// Its listing, if that was already requested.
    listing: Option<Listing>,
}

impl Pending {
    fn new(path: String) -> Self {
        Pending { path, listing: None }
    }
}

/// Prints names as zkCli does, or in columns if that would take several lines of a terminal.
fn say_names(shell: &mut Shell, names: &[String]) -> Result<(), Failure> {
    let line = bracketed(names);
    let line = printable(&line);
    match shell.output.width().and_then(|width| in_columns(&line, names, width)) {
        Some(columns) => shell.output.say(columns),
        None => shell.output.say(line),
    }
}

/// `parent` and `name` as one path.
pub(crate) fn join(parent: &str, name: &str) -> String {
    match parent {
        "/" => format!("/{name}"),
        _ => format!("{parent}/{name}"),
    }
}
