//! The waits between contenders of different locks, read from the tree.
//!
//! In: the paths of locks, of any layout that the fair locks of this crate use. Out: their queues for
//! [`WaitForGraph`], and the deadlocks in them. Not here: semaphores (see [`wait_for`](crate::wait_for)) and
//! [`NaiveLock`](super::NaiveLock)s, whose waiters have no nodes.
//!
//! # No false positives
//! The queues of several locks cannot be read at one moment. They are read twice, and only nodes that existed both
//! times count. Names are never reused, so all of these existed at every moment between the two readings, and so did
//! every wait between them.
//!
//! Nodes belong to the same owner if they have the same session *and* the same [owner
//! text](crate::HoldOptions::owner). A program whose tasks share a client must give each task a different text;
//! otherwise a cycle may run through two tasks of which one does not wait. A revocation request replaces the text, so
//! that the owner of the node is not known any more: the node counts as a separate owner, and a cycle through it is
//! no longer found. A [`DeadlockWatchdog`](super::DeadlockWatchdog) remembers the text.

use std::collections::HashSet;

use herdsman_client::{Client, Optional};

use super::contender::{self, ALL_MARKERS, Contender, LineFront};
use super::{directory, revocation};
use crate::error::Result;
use crate::line::Line;
use crate::wait_for::{self, Deadlock, LockQueue, WaitForGraph};

/// Directories that are listed at once when locks are searched for.
const LISTED_AT_ONCE: usize = 128;

/// Returns the deadlocks among these locks. Costs two readings of each lock and of each of its nodes.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::lock;
///
/// let locks = lock::find_locks(&zk, "/locks").await?;
/// for deadlock in lock::find_deadlocks(&zk, &locks).await? {
///     println!("{deadlock}"); // 0x1… a waits for /locks/x held by 0x1… b; …
/// }
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
pub async fn find_deadlocks<P: AsRef<str>>(client: &Client, locks: &[P]) -> Result<Vec<Deadlock>> {
    let queues = read_queues(client, locks).await?;
    Ok(WaitForGraph::new(&queues).deadlocks())
}

/// Reads the queues of these locks as they were at one moment. A lock that does not exist has an empty queue. An
/// owner's name is its session and its text.
pub async fn read_queues<P: AsRef<str>>(client: &Client, locks: &[P]) -> Result<Vec<LockQueue>> {
    Ok(queues(read_confirmed(client, locks).await?))
}

/// Reads the contenders of these locks that existed at one moment.
pub(super) async fn read_confirmed<P: AsRef<str>>(
    client: &Client,
    locks: &[P],
) -> Result<Vec<(String, Vec<Contender>)>> {
    let lines: Result<Vec<_>> =
        locks.iter().map(|path| directory(client, path.as_ref(), ALL_MARKERS)).collect();
    let lines = lines?;
    let mut readings = Vec::with_capacity(lines.len());
    for line in &lines {
        readings.push(contender::read(line, client).await?);
    }
    for (line, reading) in lines.iter().zip(&mut readings) {
        confirm(line, client, reading).await?;
    }
    let paths = lines.into_iter().map(|line| line.directory);
    Ok(paths.zip(readings).collect())
}

/// Converts locks, each a path with its contenders in order, to queues for the wait-for graph. An owner's name is its
/// session and its text.
#[must_use]
pub fn queues(locks: Vec<(String, Vec<Contender>)>) -> Vec<LockQueue> {
    let queues = locks.into_iter().map(|(path, contenders)| LockQueue {
        path,
        contenders: contenders.into_iter().map(in_graph).collect(),
    });
    queues.collect()
}

/// Returns the paths of all locks at `root` and below it: of all znodes with a child that belongs to a line.
pub async fn find_locks(client: &Client, root: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut to_list = vec![root.to_owned()];
    while !to_list.is_empty() {
        let batch = to_list.split_off(to_list.len().saturating_sub(LISTED_AT_ONCE));
        let listings: Vec<_> = batch.iter().map(|path| client.children(path).send()).collect();
        for (path, listing) in batch.into_iter().zip(listings) {
            let Some(children) = listing.await.optional()? else {
                continue;
            };
            let line = directory(client, &path, ALL_MARKERS)?;
            let in_line = line.in_order(children.names.clone());
            let names: HashSet<&str> = in_line.iter().map(|place| place.name.as_str()).collect();
            let others = children.names.iter().filter(|name| !names.contains(name.as_str()));
            to_list.extend(others.map(|name| line.path(name)));
            if !in_line.is_empty() {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Keeps only contenders that still exist, and updates whether they hold the lock.
async fn confirm(line: &Line, client: &Client, reading: &mut Vec<Contender>) -> Result<()> {
    let places = line.places(client).await?;
    let front = LineFront::of(places.iter());
    reading.retain_mut(|contender| {
        let Some(place) = places.iter().find(|place| place.name == contender.name) else {
            return false;
        };
        contender.state = front.state(place);
        true
    });
    Ok(())
}

fn in_graph(contender: Contender) -> wait_for::Contender {
    let Contender { name, session, owner, kind, state, .. } = contender;
    let owner = match owner.as_ref() {
        revocation::REQUEST => format!("{:#x} {name}", session.0),
        text => format!("{:#x} {}", session.0, String::from_utf8_lossy(text)),
    };
    wait_for::Contender { owner: owner.trim_end().to_owned(), kind, state }
}
