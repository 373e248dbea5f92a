//! Deletes znodes only if they are still those that were read.
//!
//! The protocol compares the version of the data and no more, and a znode that was deleted and created
//! again counts its versions from 0 again. So a deletion by version alone may hit a znode that has never
//! been read. Markers exclude that: this creates an ephemeral, sequential child, the marker, in each
//! parent of what is to be deleted; its number counts the children that were ever created there. Then
//! the znodes are read again, and must be as they were seen before. The transaction that deletes them
//! begins by deleting the markers, which fails if a parent is another znode by now, and by creating and
//! deleting a child with the next number, which fails if any child was created since the marker was.
//! What passes is the same znode, of the same version, without children that were not read.
//!
//! A marker also tells what became of a transaction whose reply was lost: if the marker could be
//! deleted, the transaction has not taken place and never will.
//!
//! Invariant: markers go with the session, whatever ends it, and when the work is dropped; none is left by a
//! session that may not delete it, because a child is created and deleted before it in the same transaction. It
//! needs permission to create and delete children of the parents, and a session that can create ephemerals. What a
//! dropped work could not delete, because the reply with its name had not come, [`MarkerOwner`] knows. Not
//! covered: a change of an ACL, or another znode in place of a copy with the same version, after the second look.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use herdsman_client::{Client, Error, ErrorKind, Op, OpResult, Outcome, Reply, Stat};

use super::error::{Result, SubtreeError};
use super::path;
use super::walk::AHEAD_MAX;
use super::znode_version::ZnodeVersion;

/// Attempts when other clients create children beside the znodes, or replies are lost.
const ATTEMPTS_MAX: usize = 10;

/// How long to try to remove a marker before it is left to the end of the session.
const RELEASE_DEADLINE: Duration = Duration::from_secs(5);

/// Writes by which a child is made and removed, and then a marker is made; or by which one marker is removed, and
/// one more is made and removed.
const OPS_PER_MARKER: usize = 3;

/// How names of markers begin; the id of the session follows.
const NAME: &str = "herdsman-guard-";

/// Whose marker a znode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerOwner {
    /// This session. No work of it is under way, so it is left from work that was dropped.
    This,
    /// Another session.
    Other,
}

/// Whose marker a znode is, if it is one.
pub(super) fn marker_owner(client: &Client, path: &str, stat: &Stat) -> Option<MarkerOwner> {
    let is_marker = stat.ephemeral_owner != 0 && path::name(path).starts_with(NAME);
    is_marker.then(|| match stat.ephemeral_owner == client.session().id().0 {
        true => MarkerOwner::This,
        false => MarkerOwner::Other,
    })
}

/// About as many bytes as a marker takes in a transaction besides the path of its parent.
const MARKER_BYTES: usize = 128;

/// A znode as it was read or written.
#[derive(Clone, Debug)]
pub(super) struct VersionedPath {
    pub(super) path: String,
    pub(super) seen: ZnodeVersion,
}

/// About as many bytes as the markers of these znodes take in a transaction.
pub(super) fn marker_bytes<'p>(paths: impl Iterator<Item = &'p str>) -> usize {
    parents_of(paths).iter().map(|parent| OPS_PER_MARKER * (parent.len() + MARKER_BYTES)).sum()
}

fn parents_of<'p>(paths: impl Iterator<Item = &'p str>) -> BTreeSet<&'p str> {
    paths.filter_map(path::parent).collect()
}

/// Why nothing was deleted, or it is not known whether anything was.
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
/// only if each of them is as it was seen, and each of `copies` has the data it had. `target` is there
/// when it is done.
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
                // Other clients have created something beside them: look again.
                ErrorKind::NoNode | ErrorKind::NodeExists => {}
                _ => return Err(refused_marker(error, index % OPS_PER_MARKER == 1).into()),
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
        "given up after {ATTEMPTS_MAX} attempts: other clients create children of {path} all the \
         time, or the connection breaks"
    );
    Err(SubtreeError::Refused(text).into())
}

/// The markers are gone: by the transaction, or with the session.
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

/// Whether the copies still have the data they had, and what is to be deleted is as it was seen.
async fn check_all(
    client: &Client,
    copies: &[VersionedPath],
    pending: &[VersionedPath],
) -> Result<()> {
    if let Some(path) = first_other(client, copies, ZnodeVersion::has_same_data).await? {
        return Err(SubtreeError::CopyChanged(path));
    }
    match first_other(client, pending, ZnodeVersion::eq).await? {
        Some(path) => Err(SubtreeError::Changed(path)),
        None => Ok(()),
    }
}

/// The path of the first of these that is gone, or not the same any more.
async fn first_other(
    client: &Client,
    znodes: &[VersionedPath],
    is_same: impl Fn(&ZnodeVersion, &ZnodeVersion) -> bool,
) -> Result<Option<String>> {
    for some in znodes.chunks(AHEAD_MAX) {
        let asked: Vec<_> = some.iter().map(|znode| client.exists(&znode.path).send()).collect();
        for (znode, reply) in some.iter().zip(asked) {
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
    /// They are there, as far as is known, and nothing was sent to delete them.
    are_held: bool,
}

/// A marker, and the number that makes it one.
struct Marker {
    prefix: String,
    number: i32,
}

/// What became of the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// One of them at least was still there, so the transaction can take place no more.
    Removed,
    /// None of them was there, or that could not be found out.
    Unknown,
}

impl<'c> ParentMarkers<'c> {
    /// `None` if the reply was lost; no markers are left then.
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
                return Err(refused_marker(error, creates));
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
            SubtreeError::refused("the server gives sequential znodes names without a number")
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

    /// The transaction has deleted them.
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
    /// The work was dropped: at the prompt, Ctrl-C ends the command and not the session.
    fn drop(&mut self) {
        if self.are_held {
            drop(self.send_deletions());
        }
    }
}

/// Removes markers whose numbers were in a reply that was lost.
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
    /// The path of the child that was created this much later in the parent.
    fn path(&self, later: i32) -> String {
        format!("{}{:010}", self.prefix, self.number.wrapping_add(later))
    }
}

/// `creates`: whether the request that failed creates a child of the parent; else it deletes one.
fn refused_marker(error: Error, creates: bool) -> SubtreeError {
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
