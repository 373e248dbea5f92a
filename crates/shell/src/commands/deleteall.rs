//! `deleteall`: deletes a znode and everything below it.
//!
//! First everything is listed, then deleted by name, children before their parents, in transactions
//! of a thousand. Nothing may be created in the subtree while the user is asked: only what the question
//! was about is deleted. During the deletion, other clients may delete znodes too; if they create one,
//! the command fails at its parent and reports what is deleted by then. Apache:
//! `ZKUtil.deleteRecursive`.

use clap::Args;
use herdsman_client::{Client, Error, ErrorKind, Op, Outcome, Zxid};
use serde_json::json;

use super::Run;
use super::ls::join;
use super::subtree_failure::Count;
use crate::failure::{Failure, describe};
use crate::shell::Shell;

/// Delete a znode and everything below it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  deleteall /app/old            asks first, at a terminal
  deleteall -y /app/old         does not ask
  deleteall /app/old -b 100     100 deletions per transaction
If it fails, it reports what is deleted; run the same command again to delete the rest.")]
pub(crate) struct DeleteAll {
    /// Deletions per transaction; 0 deletes one at a time without transactions.
    #[arg(
        short = 'b',
        value_name = "BATCH_SIZE",
        default_value_t = BATCH,
        value_parser = clap::value_parser!(u32).range(..=i64::from(BATCH_MAX))
    )]
    batch: u32,
    /// Do not ask for confirmation.
    #[arg(short = 'y', long = "yes")]
    yes: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

const BATCH: u32 = 1000;
const BATCH_MAX: u32 = 100_000;
/// Most requests in flight.
const PIPELINE: usize = 128;
/// Keeps a transaction well below `jute.maxbuffer`, however long the paths are.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Delete a znode and everything below it; use `deleteall` instead.
#[derive(Args, Debug)]
pub(crate) struct Rmr {
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

impl Run for Rmr {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        shell.output.note("The command 'rmr' has been deprecated. Please use 'deleteall' instead.");
        DeleteAll { batch: BATCH, yes: false, path: self.path }.run(shell).await
    }
}

impl Run for DeleteAll {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let client = shell.client()?.clone();
        if self.path == "/" {
            return Err(Failure::usage(
                "deleteall: the root cannot be deleted; name a znode below it",
            ));
        }
        if client.exists(&self.path).await?.is_none() {
            return Err(Failure::NoNode(self.path));
        }
        let tree = list_tree(shell, &client, &self.path).await?;
        if !self.yes && shell.asks() {
            self.ask(shell, &tree).await?;
            if list_tree(shell, &client, &self.path).await? != tree {
                let text = format!("{} was changed meanwhile; nothing was deleted", self.path);
                return Err(Failure::failed(text));
            }
        }
        let deleted = self.delete(shell, &client, &tree.paths).await?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"deleted": self.path, "count": deleted})),
            false => Ok(()),
        }
    }
}

impl DeleteAll {
    async fn ask(&self, shell: &mut Shell, tree: &Listing) -> Result<(), Failure> {
        let path = crate::format::printable(&self.path);
        let question = match tree.paths.len() {
            1 => format!("Delete {path}, which has no children?"),
            2 => format!("Delete {path} and the znode below it?"),
            count => format!("Delete {path} and the {} znodes below it?", count - 1),
        };
        shell.confirm(&question).await
    }

    /// Returns how many znodes this command deleted. A failure includes the number as well.
    async fn delete(
        &self,
        shell: &mut Shell,
        client: &Client,
        paths: &[String],
    ) -> Result<u64, Failure> {
        let deleted = Count::default();
        let so_far = deleted.clone();
        let total = paths.len();
        let how_far = move || format!("{} of {total} znodes were deleted", so_far.get());
        let on_interrupt = how_far.clone();
        shell.on_interrupt(move || Some(format!("at least {}", on_interrupt())));
        let bar = shell.output.progress("deleting", total as u64);
        let done = delete_tree(client, paths, self.batch, &deleted, &bar).await;
        bar.finish_and_clear();
        match done {
            Ok(()) => Ok(deleted.get()),
            Err(error) if deleted.get() == 0 && error.outcome() == Outcome::Unknown => {
                Err(error.into())
            }
            Err(error) if deleted.get() == 0 => {
                Err(Failure::failed(format!("{}; nothing was deleted", describe(&error))))
            }
            Err(error) => Err(Failure::failed(format!("{}; {}", describe(&error), how_far()))),
        }
    }
}

/// A subtree as it was listed.
#[derive(PartialEq, Eq)]
struct Listing {
    /// Parents before their children.
    paths: Vec<String>,
    /// The zxid of each creation, by which a znode that was deleted and created again is detected.
    czxids: Vec<Zxid>,
}

async fn list_tree(shell: &Shell, client: &Client, root: &str) -> Result<Listing, Failure> {
    let bar = shell.output.progress("listing", 0);
    let mut all = Listing { paths: vec![root.to_owned()], czxids: Vec::new() };
    while all.czxids.len() < all.paths.len() {
        let listed = all.czxids.len();
        let end = all.paths.len().min(listed + PIPELINE);
        let calls = all.paths[listed..end].iter().map(|path| client.children(path).send());
        let calls: Vec<_> = calls.collect();
        for (at, children) in (listed..end).zip(calls) {
            match children.await {
                Ok(mut children) => {
                    let parent = all.paths[at].clone();
                    children.names.sort_unstable();
                    all.paths.extend(children.names.iter().map(|name| join(&parent, name)));
                    all.czxids.push(children.stat.czxid);
                }
                Err(error) if *error.kind() == ErrorKind::NoNode => all.czxids.push(Zxid(0)),
                Err(error) => return Err(error.into()),
            }
        }
        bar.set_length(all.paths.len() as u64);
        bar.set_position(all.czxids.len() as u64);
    }
    bar.finish_and_clear();
    Ok(all)
}

async fn delete_tree(
    client: &Client,
    tree: &[String],
    batch: u32,
    deleted: &Count,
    bar: &indicatif::ProgressBar,
) -> Result<(), Error> {
    for paths in batches(tree, batch as usize) {
        delete_batch(client, paths.iter().map(String::as_str).collect(), deleted).await?;
        bar.inc(paths.len() as u64);
    }
    Ok(())
}

/// Deletes a batch in one transaction. If another client has deleted some of the znodes, sends it again without
/// them: one by one, each would cost a txn, even those that are gone.
async fn delete_batch(client: &Client, mut paths: Vec<&str>, deleted: &Count) -> Result<(), Error> {
    while paths.len() > 1 {
        match client.transaction(paths.iter().rev().map(|path| Op::delete(path))).await {
            Ok(_) => {
                deleted.set(deleted.get() + paths.len() as u64);
                return Ok(());
            }
            Err(error) if *error.kind() != ErrorKind::NoNode => return Err(error),
            Err(_) => {
                let existing = still_there(client, &paths).await?;
                if existing.len() == paths.len() {
                    // Deleted and created again meanwhile.
                    break;
                }
                paths = existing;
            }
        }
    }
    delete_each(client, &paths, deleted).await
}

/// The paths that still exist.
async fn still_there<'a>(client: &Client, paths: &[&'a str]) -> Result<Vec<&'a str>, Error> {
    let mut there = Vec::new();
    for chunk in paths.chunks(PIPELINE) {
        let calls: Vec<_> = chunk.iter().map(|path| client.exists(path).send()).collect();
        for (path, stat) in chunk.iter().zip(calls) {
            there.extend(stat.await?.map(|_| *path));
        }
    }
    Ok(there)
}

/// Awaits all replies, so that everything deleted is counted. Returns the first failure, unless a later
/// one leaves open what was deleted.
async fn delete_each(client: &Client, paths: &[&str], deleted: &Count) -> Result<(), Error> {
    for chunk in paths.rchunks(PIPELINE) {
        let calls: Vec<_> = chunk.iter().rev().map(|path| client.delete(path).send()).collect();
        let mut failure = None;
        for call in calls {
            match call.await {
                Ok(()) => deleted.set(deleted.get() + 1),
                Err(error) if *error.kind() == ErrorKind::NoNode => {}
                Err(error) if failure.is_none() || error.outcome() == Outcome::Unknown => {
                    failure = Some(error);
                }
                Err(_) => {}
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
    }
    Ok(())
}

/// Slices of `tree` from its end to its beginning, each small enough for a request.
fn batches(tree: &[String], batch: usize) -> impl Iterator<Item = &[String]> {
    let mut rest = tree;
    std::iter::from_fn(move || {
        let mut begin = rest.len();
        let mut bytes = 0;
        while begin > 0 && rest.len() - begin < batch.max(1) {
            bytes += rest[begin - 1].len();
            if bytes > BATCH_BYTES_MAX && begin < rest.len() {
                break;
            }
            begin -= 1;
        }
        let (before, run) = rest.split_at(begin);
        rest = before;
        (!run.is_empty()).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_from_the_end_and_fit_into_a_request() {
        let tree: Vec<String> = ["/a", "/a/b", "/a/c", "/a/c/d", "/a/e"].map(String::from).into();
        let sizes: Vec<_> = batches(&tree, 2).map(|run| run.to_vec()).collect();
        assert_eq!(sizes, [&tree[3..5], &tree[1..3], &tree[0..1]]);
        assert_eq!(batches(&tree, 0).count(), 5);
        let long: Vec<String> = vec!["x".repeat(BATCH_BYTES_MAX); 3];
        assert_eq!(batches(&long, 1000).count(), 3);
    }
}
