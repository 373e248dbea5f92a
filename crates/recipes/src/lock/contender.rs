//! Who holds a lock and who waits for it, read from its nodes.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, SessionId};

use crate::error::Result;
use crate::line::{Line, Place};
use crate::wait_for::{LockKind, Standing};

/// Who holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The name of its node.
    pub name: String,
    /// How it wants the lock.
    pub kind: LockKind,
    /// Whether it has it.
    pub standing: Standing,
    /// The session that its node belongs to.
    pub session: SessionId,
    /// What it says about itself. Any bytes; a request for revocation has replaced them.
    pub owner: Bytes,
    /// Its fencing token.
    pub token: u64,
}

/// Markers of nodes that share a lock; all others are alone with it.
const READ_MARKERS: [&str; 2] = ["__READ__", "__rlock__"];

/// How the node wants the lock.
pub(super) fn kind(place: &Place) -> LockKind {
    if READ_MARKERS.contains(&place.marker) { LockKind::Read } else { LockKind::Write }
}

/// Who of these has the lock. Equal sequences are those of one holder on its way from writing to
/// reading.
pub(super) fn standing(places: &[Place], of: &Place) -> Standing {
    let before = |place: &&Place| place.sequence < of.sequence;
    let waits = match kind(of) {
        LockKind::Read => places.iter().filter(before).any(|place| kind(place) == LockKind::Write),
        LockKind::Write => places.iter().any(|place| before(&place)),
    };
    if waits { Standing::Waits } else { Standing::Holds }
}

/// All contenders of a lock, in order. Those who leave while it is read may be missing.
pub(super) async fn read(line: &Line, client: &Client) -> Result<Vec<Contender>> {
    let places = line.places(client).await?;
    // All at once: the requests are in order anyway.
    let nodes: Vec<_> =
        places.iter().map(|place| client.get(&line.path(&place.name)).send()).collect();
    let mut contenders = Vec::with_capacity(places.len());
    for (place, node) in places.iter().zip(nodes) {
        let node = match node.await {
            Err(error) if *error.kind() == ErrorKind::NoNode => continue,
            node => node?,
        };
        contenders.push(Contender {
            name: place.name.clone(),
            kind: kind(place),
            standing: standing(&places, place),
            session: SessionId(node.stat.ephemeral_owner),
            owner: node.data,
            token: u64::try_from(node.stat.czxid.0).unwrap_or_default(),
        });
    }
    Ok(contenders)
}
