//! The contenders of a lock, read from its nodes by a client, or made from nodes that were read elsewhere.

use bytes::Bytes;
use herdsman_client::{Client, Optional, SessionId, Zxid};

use crate::error::Result;
use crate::line::{Line, Place, READ_LOCK, WRITE_LOCK, place_in};
use crate::wait_for::{ContenderState, LockKind};

/// A contender that holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The name of its node.
    pub name: String,
    /// Whether it wants to read or to write.
    pub kind: LockKind,
    /// Whether it holds the lock.
    pub state: ContenderState,
    /// The session that its node belongs to.
    pub session: SessionId,
    /// The text about its owner. Any bytes; a request for revocation has replaced them.
    pub owner: Bytes,
    /// Its fencing token.
    pub token: u64,
}

/// A node below a lock, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineNode {
    /// Its name.
    pub name: String,
    /// The session that it belongs to.
    pub session: SessionId,
    /// Its data.
    pub data: Bytes,
    /// The zxid of its creation.
    pub czxid: Zxid,
}

/// Every marker directly before the number in the name of a fair lock's node. (In names of
/// [`Layout::Apache`](crate::Layout::Apache), a session id follows the marker.)
pub const MARKERS: &[&str] = &["lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__"];

/// The markers of all layouts.
pub(super) const ALL_MARKERS: &[&str] =
    &["lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__", WRITE_LOCK, READ_LOCK];

/// Returns the contenders of a fair lock, in order, from all nodes below it. Nodes that are not in its line are left
/// out.
///
/// ```
/// use herdsman_client::{SessionId, Zxid};
/// use herdsman_recipes::lock::{LineNode, contenders};
/// use herdsman_recipes::wait_for::ContenderState;
///
/// let node = |name: &str, session| LineNode {
///     name: name.to_owned(),
///     session: SessionId(session),
///     data: "".into(),
///     czxid: Zxid(session),
/// };
/// let line = contenders(vec![
///     node("_c_b-lock-0000000002", 8),
///     node("README", 0),
///     node("_c_z-lock-0000000001", 7),
/// ]);
/// assert_eq!((line[0].session, line[0].state), (SessionId(7), ContenderState::Holds));
/// assert_eq!((line[1].session, line[1].state), (SessionId(8), ContenderState::Waits));
/// ```
#[must_use]
pub fn contenders(nodes: Vec<LineNode>) -> Vec<Contender> {
    let in_line = nodes.into_iter().filter_map(|node| {
        let LineNode { name, session, data, czxid } = node;
        Some((place_in(name, ALL_MARKERS)?, session, data, czxid))
    });
    let mut in_line: Vec<_> = in_line.collect();
    in_line.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let front = LineFront::of(in_line.iter().map(|(place, ..)| place));
    let contenders = in_line.into_iter().map(|(place, session, owner, czxid)| Contender {
        kind: kind(&place),
        state: front.state(&place),
        name: place.name,
        session,
        owner,
        token: token(czxid),
    });
    contenders.collect()
}

fn token(czxid: Zxid) -> u64 {
    u64::try_from(czxid.0).unwrap_or_default()
}

/// The markers of nodes that share a lock; all other nodes are exclusive.
const READ_MARKERS: [&str; 3] = ["__READ__", "__rlock__", READ_LOCK];

/// Returns whether the node wants to read or to write.
pub(super) fn kind(place: &Place) -> LockKind {
    if READ_MARKERS.contains(&place.marker) { LockKind::Read } else { LockKind::Write }
}

/// The front of a line, which decides which of its nodes hold the lock. Equal sequences belong to one holder that is
/// being downgraded from writing to reading.
pub(super) struct LineFront {
    first: Option<i32>,
    first_writer: Option<i32>,
}

impl LineFront {
    /// Finds the front among a line's places, in any order.
    pub(super) fn of<'p>(places: impl Iterator<Item = &'p Place> + Clone) -> Self {
        let first = places.clone().map(|place| place.sequence).min();
        let writers = places.filter(|place| kind(place) == LockKind::Write);
        LineFront { first, first_writer: writers.map(|place| place.sequence).min() }
    }

    /// Returns whether one of them holds the lock.
    pub(super) fn state(&self, of: &Place) -> ContenderState {
        let in_the_way = match kind(of) {
            LockKind::Read => self.first_writer,
            LockKind::Write => self.first,
        };
        match in_the_way {
            Some(sequence) if sequence < of.sequence => ContenderState::Waits,
            _ => ContenderState::Holds,
        }
    }
}

/// Reads all contenders of a lock, in order. Contenders that leave while it is read may be missing.
pub(super) async fn read(line: &Line, client: &Client) -> Result<Vec<Contender>> {
    let places = line.places(client).await?;
    // All are sent at once: the requests are in order anyway.
    let nodes: Vec<_> =
        places.iter().map(|place| client.get(&line.path(&place.name)).send()).collect();
    let front = LineFront::of(places.iter());
    let mut contenders = Vec::with_capacity(places.len());
    for (place, node) in places.iter().zip(nodes) {
        let Some(node) = node.await.optional()? else {
            continue;
        };
        contenders.push(Contender {
            name: place.name.clone(),
            kind: kind(place),
            state: front.state(place),
            session: SessionId(node.stat.ephemeral_owner),
            owner: node.data,
            token: token(node.stat.czxid),
        });
    }
    Ok(contenders)
}
