//! Deletes znodes only if they have not changed since they were read.
//!
//! The protocol compares only the version of the data, and a znode that was deleted and created again
//! counts its versions from 0 again. So a deletion by version alone may delete a znode that has never
//! been read. Markers prevent that: this creates an ephemeral, sequential child, the marker, in each
//! parent of a znode to be deleted; its number counts the children that were ever created there. Then
//! the znodes are read again, and must be unchanged. The transaction that deletes them begins by deleting
//! the markers, which fails if a parent is another znode by now, and by creating and deleting a child
//! with the next number, which fails if any child was created since the marker was. If it succeeds, the
//! znodes are the same ones, of the same version, without children that were not read.
//!
//! A marker also shows the outcome of a transaction whose reply was lost: if the marker can still be
//! deleted, the transaction has not been applied and never will be.
//!
//! Invariant: markers are removed with the session, whatever ends it, and when the operation is dropped; a
//! session that may not delete children leaves none, because a child is created and deleted before it in the same
//! transaction. A move needs permission to create and delete children of the parents, and a session that can create
//! ephemerals. A dropped operation leaves a marker if the reply with its name had not arrived; [`MarkerOwner`]
//! recognises it. Not covered: a change of an ACL, or another znode in place of a copy with the same version, after
//! the second check.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use herdsman_client::{Client, Error, ErrorKind, Op, OpResult, Outcome, Reply, Stat};

use super::error::{Result, SubtreeError};
use super::path;
use super::walk::AHEAD_MAX;
use super::znode_version::ZnodeVersion;

/// Most attempts when other clients create siblings, or replies are lost.
const ATTEMPTS_MAX: usize = 10;

/// How long to try to remove a marker before it is left until the session ends.
const RELEASE_DEADLINE: Duration = Duration::from_secs(5);

/// Operations per marker: in one transaction a child is created and deleted and the marker created; in the next the
/// marker is deleted and one more child created and deleted.
const OPS_PER_MARKER: usize = 3;

/// The prefix of names of markers; the id of the session follows.
const NAME: &str = "herdsman-guard-";

/// The owner of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerOwner {
    /// This session. It has no operation in progress, so the marker was left by a dropped one.
    This,
    /// Another session.
    Other,
}

/// The owner of a marker; `None` if the znode is not a marker.
pub(super) fn marker_owner(client: &Client, path: &str, stat: &Stat) -> Option<MarkerOwner> {
    let is_marker = stat.ephemeral_owner != 0 && path::name(path).starts_with(NAME);
    is_marker.then(|| match stat.ephemeral_owner == client.session().id().0 {
        true => MarkerOwner::This,
        false => MarkerOwner::Other,
    })
}

/// The approximate size of a marker in a transaction, without the path of its parent.
const MARKER_BYTES: usize = 128;

/// A znode as it was read or written.
#[derive(Clone, Debug)]
pub(super) struct VersionedPath {
    pub(super) path: String,
    pub(super) seen: ZnodeVersion,
}

/// The approximate size of the markers of these znodes in a transaction.
pub(super) fn marker_bytes<'p>(paths: impl Iterator<Item = &'p str>) -> usize {
    parents_of(paths).iter().map(|parent| OPS_PER_MARKER * (parent.len() + MARKER_BYTES)).sum()
}

fn parents_of<'p>(paths: impl Iterator<Item = &'p str>) -> BTreeSet<&'p str> {
    paths.filter_map(path::parent).collect()
}

/// Why a deletion failed, and whether it may have been applied nevertheless.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: SubtreeError,
    pub(super) may_be_done: bool,
}

impl From<SubtreeError> for Failed {
    fn from(error: SubtreeError) -> Self {
        Failed { error, may_be_done: false }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        SubtreeError::from(error).into()
    }
}

/// Does `creations`, and deletes the `pending` znodes, children before their parents, in one transaction; but
/// only if each of them is unchanged, and each of `copies` has the data it had. `target` exists when it has
/// been applied.
pub(super) async fn delete_if_unchanged(
    client: &Client,
    target: &str,
    creations: &[Op],
    copies: &[VersionedPath],
    pending: &[VersionedPath],
) -> Result<(), Failed> {
    let parents = parents_of(pending.iter().map(|znode| znode.path.as_str()));
    for _ in 0..ATTEMPTS_MAX {
        let Some(mut markers) = ParentMarkers::create(client, &parents).await? else {
            continue;
        };
        if let Err(error) = check_all(client, copies, pending).await {
            markers.release().await;
            return Err(error.into());
        }
        let checks = copies.iter().map(|copy| Op::check(&copy.path).version(copy.seen.version));
        let deletions =
            pending.iter().map(|znode| Op::delete(&znode.path).version(znode.seen.version));
        let ops = markers.ops().into_iter().chain(creations.iter().cloned());
        let Err(error) = client.transaction(ops.chain(checks).chain(deletions)).await else {
            markers.forget();
            return Ok(());
        };
        let markers_end = markers.all.len() * OPS_PER_MARKER;
        let checks_begin = markers_end + creations.len();
        let deletions_begin = checks_begin + copies.len();
        let release = markers.release().await;
        match (error.outcome(), error.failed_op()) {
            (Outcome::Unknown, _) if release == Release::Removed => {}
            (Outcome::Unknown, _) => {
                return resolve_lost_reply(client, target, pending, error).await;
            }
            (_, Some(index)) if index < markers_end => match error.kind() {
                // Other clients have created siblings: check again.
                ErrorKind::NoNode | ErrorKind::NodeExists => {}
                _ => return Err(marker_error(error, index % OPS_PER_MARKER == 1).into()),
            },
            (_, Some(index)) if index >= deletions_begin => {
                return Err(blocked(&pending[index - deletions_begin].path, error).into());
            }
            (_, Some(index)) if index >= checks_begin => {
                return Err(match blocked(&copies[index - checks_begin].path, error) {
                    SubtreeError::Changed(path) => SubtreeError::CopyChanged(path).into(),
                    other => other.into(),
                });
            }
            _ => return Err(error.into()),
        }
    }
    let path = parents.first().copied().unwrap_or_default();
    let text = format!(
        "gave up after {ATTEMPTS_MAX} attempts: other clients keep creating children of {path}, or \
         the connection keeps breaking"
    );
    Err(SubtreeError::Refused(text).into())
}

/// Finds out whether a transaction was applied. The markers are gone: by the transaction, or with the session.
async fn resolve_lost_reply(
    client: &Client,
    target: &str,
    pending: &[VersionedPath],
    error: Error,
) -> Result<(), Failed> {
    let unknown = |error| Failed { error: SubtreeError::Client(error), may_be_done: true };
    let last = pending.last().map_or("", |znode| znode.path.as_str());
    let source = client.exists(last).await.map_err(unknown)?;
    let target = client.exists(target).await.map_err(unknown)?;
    if source.is_none() && target.is_some() { Ok(()) } else { Err(unknown(error)) }
}

fn blocked(path: &str, error: Error) -> SubtreeError {
    match error.kind() {
        ErrorKind::NoNode | ErrorKind::NotEmpty | ErrorKind::BadVersion => {
            SubtreeError::Changed(path.to_owned())
        }
        _ => error.into(),
    }
}

/// Checks that the copies still have the same data, and that the znodes to be deleted are unchanged.
async fn check_all(
    client: &Client,
    copies: &[VersionedPath],
    pending: &[VersionedPath],
) -> Result<()> {
    if let Some(path) = first_changed(client, copies, ZnodeVersion::has_same_data).await? {
        return Err(SubtreeError::CopyChanged(path));
    }
    match first_changed(client, pending, ZnodeVersion::eq).await? {
        Some(path) => Err(SubtreeError::Changed(path)),
        None => Ok(()),
    }
}

/// The path of the first znode that is deleted or changed.
async fn first_changed(
    client: &Client,
    znodes: &[VersionedPath],
    is_same: impl Fn(&ZnodeVersion, &ZnodeVersion) -> bool,
) -> Result<Option<String>> {
    for chunk in znodes.chunks(AHEAD_MAX) {
        let replies: Vec<_> = chunk.iter().map(|znode| client.exists(&znode.path).send()).collect();
        for (znode, reply) in chunk.iter().zip(replies) {
            if reply.await?.is_none_or(|stat| !is_same(&ZnodeVersion::of(&stat), &znode.seen)) {
                return Ok(Some(znode.path.clone()));
            }
        }
    }
    Ok(None)
}

/// The markers of one attempt.
struct ParentMarkers<'c> {
    client: &'c Client,
    all: Vec<Marker>,
    /// Whether they still exist, as far as is known, and no deletion was sent.
    are_held: bool,
}

/// A marker and its sequence number.
struct Marker {
    prefix: String,
    number: i32,
}

/// The result of removing the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// At least one still existed, so the transaction can no longer be applied.
    Removed,
    /// None of them existed, or that could not be determined.
    Unknown,
}

impl<'c> ParentMarkers<'c> {
    /// Creates the markers. `None` if the reply was lost; then no markers are left.
    async fn create(client: &'c Client, parents: &BTreeSet<&str>) -> Result<Option<Self>> {
        static SETS: AtomicU64 = AtomicU64::new(0);
        let number = SETS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME}{}-{number}-", client.session().id());
        let prefixes: Vec<String> =
            parents.iter().map(|parent| path::child(parent, &name)).collect();
        let ops = prefixes.iter().flat_map(|prefix| {
            [
                Op::create(prefix, "").ephemeral(),
                Op::delete(prefix),
                Op::create(prefix, "").ephemeral().sequential(),
            ]
        });
        let created = match client.transaction(ops).await {
            Ok(created) => created,
            Err(error) if error.outcome() == Outcome::Unknown => {
                remove_children(client, parents, &name).await?;
                return Ok(None);
            }
            Err(error) => {
                let creates = error.failed_op().is_none_or(|op| op % OPS_PER_MARKER != 1);
                return Err(marker_error(error, creates));
            }
        };
        let created = created.into_iter().skip(OPS_PER_MARKER - 1).step_by(OPS_PER_MARKER);
        let markers = created.zip(prefixes).map(|(result, prefix)| {
            let OpResult::Created(created) = result else {
                return None;
            };
            let number = created.path.strip_prefix(prefix.as_str())?.parse().ok()?;
            Some(Marker { prefix, number })
        });
        let markers = markers.collect::<Option<Vec<Marker>>>().ok_or_else(|| {
            SubtreeError::refused("the server returned a sequential znode whose name has no number")
        })?;
        Ok(Some(ParentMarkers { client, all: markers, are_held: true }))
    }

    fn ops(&self) -> Vec<Op> {
        let of_marker = |marker: &Marker| {
            [
                Op::delete(&marker.path(0)),
                Op::create(&marker.prefix, "").ephemeral().sequential(),
                Op::delete(&marker.path(1)),
            ]
        };
        self.all.iter().flat_map(of_marker).collect()
    }

    /// Records that the transaction has deleted them.
    fn forget(&mut self) {
        self.are_held = false;
    }

    fn send_deletions(&mut self) -> Vec<Reply<()>> {
        self.are_held = false;
        let delete =
            |marker: &Marker| self.client.delete(&marker.path(0)).deadline(RELEASE_DEADLINE).send();
        self.all.iter().map(delete).collect()
    }

    async fn release(&mut self) -> Release {
        let mut release = Release::Unknown;
        for reply in self.send_deletions() {
            if reply.await.is_ok() {
                release = Release::Removed;
            }
        }
        release
    }
}

impl Drop for ParentMarkers<'_> {
    /// Removes the markers if the operation was dropped: at the prompt, Ctrl-C ends the command, not the session.
    fn drop(&mut self) {
        if self.are_held {
            drop(self.send_deletions());
        }
    }
}

/// Removes markers whose numbers are unknown because the reply was lost.
async fn remove_children(client: &Client, parents: &BTreeSet<&str>, name: &str) -> Result<()> {
    for parent in parents {
        let Ok(children) = client.children(parent).await else {
            continue;
        };
        for marker in children.names.iter().filter(|child| child.starts_with(name)) {
            let marker = path::child(parent, marker);
            match client.delete(&marker).deadline(RELEASE_DEADLINE).await {
                Err(error) if *error.kind() != ErrorKind::NoNode => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

impl Marker {
    /// The path of the child that is created `later` children after the marker.
    fn path(&self, later: i32) -> String {
        format!("{}{:010}", self.prefix, self.number.wrapping_add(later))
    }
}

/// The error for a marker. `creates`: whether the request that failed creates a child; else it deletes one.
fn marker_error(error: Error, creates: bool) -> SubtreeError {
    let Some(marker) = error.path() else {
        return error.into();
    };
    let parent = path::parent(marker).unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::NoAuth => {
            let what = if creates { "creating" } else { "deleting" };
            SubtreeError::Refused(format!(
                "the ACL of {parent} does not allow {what} children, which a move needs: log in \
                 with addauth"
            ))
        }
        ErrorKind::NoNode => SubtreeError::Changed(parent),
        _ => error.into(),
    }
}
