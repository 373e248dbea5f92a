//! Observes an election: its leader and its candidates.
//!
//! In: the line of an election, read only. Out: the current leader and each change. An observer watches only the
//! leader's node, so candidates that join and leave behind it wake no observer; only while there is no leader it
//! watches the directory.

use herdsman_client::{Client, Node, SessionId, Watch};
use tokio::sync::watch;

use crate::error::Result;
use crate::events::Events;
use crate::line::Line;
use crate::retrying::{must_restart, retrying};

/// A candidate in the line of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Its id. Text that is not UTF-8 is shown with replacement characters.
    pub id: String,
    /// The session that its candidacy depends on.
    pub session: SessionId,
    /// The token it has, or will have, as the leader.
    pub token: u64,
    /// The name of its node.
    pub node: String,
}

impl Candidate {
    fn new(name: String, node: &Node) -> Self {
        Candidate {
            id: String::from_utf8_lossy(&node.data).into_owned(),
            session: SessionId(node.stat.ephemeral_owner),
            token: u64::try_from(node.stat.czxid.0).unwrap_or_default(),
            node: name,
        }
    }
}

/// See [`Election::observe`](super::Election::observe).
pub(super) fn observe(line: Line) -> Events<Option<Candidate>> {
    let (send, receive) = watch::channel(Seen::Nothing);
    let client = line.holder.client.clone();
    client.spawn(async move {
        tokio::select! {
            Err(error) = follow(&line, &send) => {
                tracing::debug!(%error, "the observation of an election has ended");
            }
            () = send.closed() => {}
        }
    });
    Events::of_latest(receive, |seen| match seen {
        Seen::Nothing => None,
        Seen::Leader(leader) => Some(leader),
    })
}

/// What an observer has read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Leader(Option<Candidate>),
}

/// Returns all candidates in the line, the leader first.
pub(super) async fn candidates(line: &Line) -> Result<Vec<Candidate>> {
    let places = line.places(&line.holder.client).await?;
    let reads: Vec<_> =
        places.iter().map(|place| line.holder.client.get(&line.path(&place.name)).send()).collect();
    let mut candidates = Vec::with_capacity(places.len());
    for (place, read) in places.into_iter().zip(reads) {
        match read.await {
            Ok(node) => candidates.push(Candidate::new(place.name, &node)),
            // It was deleted meanwhile.
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(candidates)
}

/// Returns the first candidate in the line.
pub(super) async fn leader(line: &Line) -> Result<Option<Candidate>> {
    for place in line.places(&line.holder.client).await? {
        match line.holder.client.get(&line.path(&place.name)).await {
            Ok(node) => return Ok(Some(Candidate::new(place.name, &node))),
            // It was deleted meanwhile, and the next in line leads.
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

async fn follow(line: &Line, seen: &watch::Sender<Seen>) -> Result<()> {
    let client = retrying(&line.holder.client);
    loop {
        match read(line, &client).await {
            Ok((leader, watch)) => {
                seen.send_if_modified(|seen| {
                    let now = Seen::Leader(leader);
                    let is_new = *seen != now;
                    *seen = now;
                    is_new
                });
                // Read again, whatever happened, and even if the session has ended.
                let _ = watch.await;
            }
            Err(error) if must_restart(&line.holder.client, &error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the leader, and a watch that fires when that may have changed.
async fn read(line: &Line, client: &Client) -> Result<(Option<Candidate>, Watch)> {
    loop {
        if let Some(first) = line.places(client).await?.into_iter().next() {
            match client.get(&line.path(&first.name)).watch().await {
                Ok((node, watch)) => return Ok((Some(Candidate::new(first.name, &node)), watch)),
                Err(error) if error.is_no_node() => continue,
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(watch) = watch_for_candidate(line, client).await? {
            return Ok((None, watch));
        }
    }
}

/// Sets a watch for the first candidate that joins; `None` if there is one already.
async fn watch_for_candidate(line: &Line, client: &Client) -> Result<Option<Watch>> {
    match client.children(&line.directory).watch().await {
        Ok((children, watch)) => Ok(line.in_order(children.names).is_empty().then_some(watch)),
        Err(error) if error.is_no_node() => {
            let (stat, watch) = client.exists(&line.directory).watch().await?;
            Ok(stat.is_none().then_some(watch))
        }
        Err(error) => Err(error.into()),
    }
}
