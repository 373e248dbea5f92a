//! `deleteall`: a znode with everything below it.
//!
//! First everything is listed, then deleted, children before their parents, in transactions of a
//! thousand. What others delete meanwhile is fine; what they create makes the command fail at the
//! parent, and what is gone by then stays gone. Apache: `ZKUtil.deleteRecursive`.

use clap::Args;
use herdsman_client::{Client, ErrorKind, Op};
use serde_json::json;

use super::Run;
use super::ls::join;
use crate::failure::Failure;
use crate::shell::Shell;

/// Delete a znode and everything below it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  deleteall /app/old            asks first, at a terminal
  deleteall -y /app/old         does not ask
  deleteall /app/old -b 100     100 deletions in a transaction")]
pub(crate) struct DeleteAll {
    /// Deletions in one transaction; 0 for one at a time without transactions.
    #[arg(
        short = 'b',
        value_name = "BATCH_SIZE",
        default_value_t = BATCH,
        value_parser = clap::value_parser!(u32).range(..=i64::from(BATCH_MAX))
    )]
    batch: u32,
    /// Do not ask.
    #[arg(short = 'y', long = "yes")]
    yes: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

const BATCH: u32 = 1000;
const BATCH_MAX: u32 = 100_000;
/// Requests under way at once.
const PIPELINE: usize = 128;
/// A transaction is kept well below `jute.maxbuffer`, however long the paths are.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Delete a znode and everything below it: `deleteall`.
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
                "deleteall: the root cannot be deleted; name what is below",
            ));
        }
        if client.exists(&self.path).await?.is_none() {
            return Err(Failure::NoNode(self.path));
        }
        let listing = shell.output.progress("listing", 0);
        let tree = list_tree(&client, &self.path, &listing).await?;
        listing.finish_and_clear();
        if !self.yes && shell.asks() {
            let path = crate::format::printable(&self.path);
            let question = match tree.len() {
                1 => format!("Delete {path}, which has no children?"),
                2 => format!("Delete {path} and the znode below it?"),
                count => format!("Delete {path} and the {} znodes below it?", count - 1),
            };
            shell.confirm(&question).await?;
        }
        let bar = shell.output.progress("deleting", tree.len() as u64);
        let deleted = delete_tree(&client, &tree, self.batch, &bar).await;
        bar.finish_and_clear();
        let deleted = deleted?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"deleted": self.path, "count": deleted})),
            false => Ok(()),
        }
    }
}

/// Every path of the subtree, parents before their children.
async fn list_tree(
    client: &Client,
    root: &str,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<String>, Failure> {
    let mut all = vec![root.to_owned()];
    let mut listed = 0;
    while listed < all.len() {
        let end = all.len().min(listed + PIPELINE);
        let calls = all[listed..end].iter().map(|path| client.children(path).send());
        let calls: Vec<_> = calls.collect();
        for (at, children) in (listed..end).zip(calls) {
            match children.await {
                Ok(children) => {
                    let parent = all[at].clone();
                    all.extend(children.names.iter().map(|name| join(&parent, name)));
                }
                Err(error) if *error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        listed = end;
        bar.set_length(all.len() as u64);
        bar.set_position(listed as u64);
    }
    Ok(all)
}

/// How many were deleted by us.
async fn delete_tree(
    client: &Client,
    tree: &[String],
    batch: u32,
    bar: &indicatif::ProgressBar,
) -> Result<usize, Failure> {
    let mut deleted = 0;
    for paths in batches(tree, batch as usize) {
        let ops = paths.iter().rev().map(|path| Op::delete(path));
        let committed = match paths.len() {
            1 => None,
            _ => Some(client.transaction(ops).await),
        };
        deleted += match committed {
            Some(Ok(_)) => paths.len(),
            // Somebody else has deleted one of them, which is no reason to keep the others.
            Some(Err(error)) if *error.kind() != ErrorKind::NoNode => return Err(error.into()),
            _ => delete_each(client, paths).await?,
        };
        bar.inc(paths.len() as u64);
    }
    Ok(deleted)
}

async fn delete_each(client: &Client, paths: &[String]) -> Result<usize, Failure> {
    let mut deleted = 0;
    for chunk in paths.rchunks(PIPELINE) {
        let calls: Vec<_> = chunk.iter().rev().map(|path| client.delete(path).send()).collect();
        for call in calls {
            match call.await {
                Ok(()) => deleted += 1,
                Err(error) if *error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(deleted)
}

/// Runs of `tree` from its end to its beginning, each small enough for a request.
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
