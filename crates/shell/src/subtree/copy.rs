//! Copies and moves a subtree within an ensemble. Nothing is ever overwritten.
//!
//! A small subtree is moved in one transaction: other clients see the source or the target, never both
//! or neither. A larger one is copied, and then deleted from its leaves up. Either way a znode of the
//! source is deleted only if it is the one that was copied, with the same data and no other children,
//! see [`super::markers`], and only while its copy exists; if another client has changed the source
//! meanwhile, the move stops and reports it, and the copy is complete. An interrupted copy or move can be
//! resumed: what the target already has is compared and must be equal.

use herdsman_client::{Client, ErrorKind, Op, Outcome, Stat};

use super::apply::Writer;
use super::error::{Result, SubtreeError};
use super::export::record_of;
use super::lifetime::{NodeType, TypeHints};
use super::markers::{
    Failed, MarkerOwner, VersionedPath, delete_if_unchanged, marker_bytes, marker_owner,
};
use super::path;
use super::record::Record;
use super::sequence_numbers::SequenceNumbers;
use super::walk::{Fetch, SystemZnodes, Visit, Walk, WalkOptions, Znode};
use super::znode_version::ZnodeVersion;

/// Most znodes that are moved in one transaction.
const ATOMIC_ZNODES_MAX: u64 = 500;

/// Most bytes of data that are moved in one transaction.
const ATOMIC_BYTES_MAX: u64 = 256 << 10;

/// Most bytes of paths and ACLs in addition.
const ATOMIC_NAMES_MAX: usize = 256 << 10;

/// Most znodes that are deleted in one transaction.
const DELETIONS_MAX: usize = 128;

/// Most bytes of their paths and markers.
const DELETION_BYTES_MAX: usize = 256 << 10;

/// How much of the source is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A znode that has no children.
    Leaf,
    /// A znode and everything below it.
    Subtree,
}

/// The plan of a copy or a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The path of the source.
    pub source: String,
    /// The path of the target.
    pub target: String,
    /// Znodes to copy.
    pub znodes: u64,
    /// Their bytes of data.
    pub bytes: u64,
    /// Whether the target may already exist.
    pub policy: TargetPolicy,
    /// Numbers at the end of names in the target.
    pub sequence_numbers: SequenceNumbers,
}

/// Whether the target may already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPolicy {
    /// The target must not exist.
    New,
    /// The target may have a part of the source, from an interrupted copy or move.
    Resume,
}

/// The progress of a copy or a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Znodes of the source that were read.
    pub read: u64,
    /// Znodes that were written to the target.
    pub written: u64,
    /// Znodes that were deleted from the source.
    pub deleted: u64,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The number of moved znodes.
    pub znodes: u64,
    /// Whether it was done in one transaction.
    pub is_atomic: bool,
}

/// Determines what is to be copied, and whether that is possible. Changes nothing.
pub async fn survey(
    client: &Client,
    source: &str,
    target: &str,
    extent: Extent,
    policy: TargetPolicy,
) -> Result<Survey> {
    herdsman_client::check_path(source)?;
    herdsman_client::check_path(target)?;
    if path::is_within(source, target) {
        return Err(SubtreeError::Refused(format!("{target} is {source} itself or below it")));
    }
    // A resumed move would mistake a znode of the source for the copy of another one, and delete both.
    if path::is_within(target, source) {
        return Err(SubtreeError::Refused(format!(
            "{source} is below {target}: source and target must not contain each other"
        )));
    }
    check_target(client, target, policy).await?;
    let (source, target) = (source.to_owned(), target.to_owned());
    let sequence_numbers = SequenceNumbers::default();
    let mut survey = Survey { source, target, znodes: 0, bytes: 0, policy, sequence_numbers };
    let mut walk = Walk::new(client, &survey.source, walk_options(Fetch::Stat));
    while let Some(visit) = walk.next().await? {
        let znode = readable(visit)?;
        if is_own_marker(client, &znode) {
            continue;
        }
        if extent == Extent::Leaf && znode.stat.num_children > 0 {
            return Err(SubtreeError::Refused(format!("{} has children: use -r", survey.source)));
        }
        check_copyable(client, &znode)?;
        let path = path::relative(&survey.source, &znode.position.path);
        survey.sequence_numbers.note(&path::absolute(&survey.target, path));
        survey.znodes += 1;
        survey.bytes += u64::try_from(znode.stat.data_length).unwrap_or(0);
    }
    Ok(survey)
}

async fn check_target(client: &Client, target: &str, policy: TargetPolicy) -> Result<()> {
    if policy == TargetPolicy::New && client.exists(target).await?.is_some() {
        let text = format!(
            "{target} already exists; nothing is overwritten (--resume continues an interrupted copy \
             or move)"
        );
        return Err(SubtreeError::Refused(text));
    }
    if let Some(parent) = path::parent(target)
        && client.exists(parent).await?.is_none()
    {
        return Err(SubtreeError::Refused(format!(
            "the parent {parent} does not exist: create it first"
        )));
    }
    Ok(())
}

/// Copies a surveyed subtree. Returns the number of written znodes. Calls `progress` after each.
pub async fn copy(
    client: &Client,
    survey: &Survey,
    hints: &TypeHints,
    mut progress: impl FnMut(Progress),
) -> Result<u64> {
    let mut writer = Writer::new(client);
    let copied = copy_noting(client, survey, hints, &mut writer, &mut progress).await;
    copied.map_err(|error| half_copied(survey, &writer, error))?;
    Ok(writer.written())
}

/// Moves a surveyed subtree.
pub async fn move_subtree(
    client: &Client,
    survey: &Survey,
    hints: &TypeHints,
    mut progress: impl FnMut(Progress),
) -> Result<Moved> {
    if survey.policy == TargetPolicy::New
        && survey.znodes <= ATOMIC_ZNODES_MAX
        && survey.bytes <= ATOMIC_BYTES_MAX
        && let Some(records) = small(client, survey, hints).await?
    {
        move_at_once(client, survey, &records).await?;
        return Ok(Moved { znodes: records.len() as u64, is_atomic: true });
    }
    let mut writer = Writer::new(client);
    let copied = copy_noting(client, survey, hints, &mut writer, &mut progress).await;
    let copied = copied.map_err(|error| half_copied(survey, &writer, error))?;
    let mut so_far = Progress { read: copied.len() as u64, written: writer.written(), deleted: 0 };
    let mut rest = copied;
    while !rest.is_empty() {
        let (batch, copies) = last_batch(&mut rest, survey);
        let deleted = delete_if_unchanged(client, &survey.target, &[], &copies, &batch).await;
        deleted.map_err(|failed| half_moved(survey, so_far.deleted, failed))?;
        so_far.deleted += batch.len() as u64;
        progress(so_far);
    }
    Ok(Moved { znodes: so_far.deleted, is_atomic: false })
}

/// A znode of the source, and its copy.
struct Copied {
    source: VersionedPath,
    copy: ZnodeVersion,
}

/// Copies a surveyed subtree. Returns the copied znodes, parents before their children.
async fn copy_noting(
    client: &Client,
    survey: &Survey,
    hints: &TypeHints,
    writer: &mut Writer,
    progress: &mut impl FnMut(Progress),
) -> Result<Vec<Copied>> {
    let mut read = Vec::new();
    let mut walk = Walk::new(client, &survey.source, walk_options(Fetch::Everything));
    while let Some(visit) = walk.next().await? {
        let znode = readable(visit)?;
        if is_own_marker(client, &znode) {
            remove_marker(client, &znode).await?;
            continue;
        }
        check_copyable(client, &znode)?;
        let source = VersionedPath {
            path: znode.position.path.clone(),
            seen: ZnodeVersion::of(&znode.stat),
        };
        let record = record_of(&survey.source, znode, hints);
        let target = path::absolute(&survey.target, &record.path);
        let existing = match survey.policy {
            TargetPolicy::New => None,
            TargetPolicy::Resume => existing_copy(client, &target, &record).await?,
        };
        read.push((source, existing));
        if existing.is_none() {
            let Record { data, acl, lifetime, .. } = record;
            writer.create(target, data, acl, lifetime).await?;
        }
        progress(Progress { read: read.len() as u64, written: writer.written(), deleted: 0 });
    }
    writer.flush().await?;
    let mut created = writer.created().iter().copied();
    let copied = read.into_iter().map(|(source, existing)| {
        let copy = existing.or_else(|| created.next());
        Copied { source, copy: copy.expect("what the target did not have was created") }
    });
    Ok(copied.collect())
}

/// The copy that the target already has. A different one is an error: it is never overwritten.
async fn existing_copy(
    client: &Client,
    target: &str,
    record: &Record,
) -> Result<Option<ZnodeVersion>> {
    let (node, acl) = (client.get(target).send(), client.acl(target).send());
    let node = match node.await {
        Ok(node) => node,
        Err(error) if *error.kind() == ErrorKind::NoNode => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    reject_ephemeral(target, &node.stat)?;
    if node.data == record.data && acl.await?.0 == record.acl {
        return Ok(Some(ZnodeVersion::of(&node.stat)));
    }
    Err(SubtreeError::Refused(format!(
        "{target} already exists with other data or another ACL; nothing is overwritten"
    )))
}

/// The last of these, children before their parents, and their copies, up to the size of a
/// transaction.
fn last_batch(
    copied: &mut Vec<Copied>,
    survey: &Survey,
) -> (Vec<VersionedPath>, Vec<VersionedPath>) {
    let Survey { source, target, .. } = survey;
    let (mut batch, mut copies) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    while let Some(Copied { source: last, .. }) = copied.last() {
        bytes +=
            2 * last.path.len() + target.len() + marker_bytes(std::iter::once(last.path.as_str()));
        if batch.len() >= DELETIONS_MAX || (bytes > DELETION_BYTES_MAX && !batch.is_empty()) {
            break;
        }
        let Some(Copied { source: last, copy }) = copied.pop() else {
            break;
        };
        let path = path::absolute(target, path::relative(source, &last.path));
        copies.push(VersionedPath { path, seen: copy });
        batch.push(last);
    }
    (batch, copies)
}

/// Reads all records; `None` if they turn out to be too many for one transaction.
async fn small(client: &Client, survey: &Survey, hints: &TypeHints) -> Result<Option<Vec<Record>>> {
    let mut walk = Walk::new(client, &survey.source, walk_options(Fetch::Everything));
    let mut records = Vec::new();
    let (mut bytes, mut names) = (0, 0);
    while let Some(visit) = walk.next().await? {
        let znode = readable(visit)?;
        if is_own_marker(client, &znode) {
            remove_marker(client, &znode).await?;
            continue;
        }
        check_copyable(client, &znode)?;
        bytes += znode.data.len() as u64;
        let acl: usize = znode.acl.iter().map(|acl| acl.id.scheme.len() + acl.id.id.len()).sum();
        let path = znode.position.path.as_str();
        names += 2 * path.len() + survey.target.len() + acl + 128;
        names += marker_bytes(std::iter::once(path));
        records.push(record_of(&survey.source, znode, hints));
        let is_small = records.len() as u64 <= ATOMIC_ZNODES_MAX
            && bytes <= ATOMIC_BYTES_MAX
            && names <= ATOMIC_NAMES_MAX;
        if !is_small {
            return Ok(None);
        }
    }
    Ok(Some(records))
}

async fn move_at_once(client: &Client, survey: &Survey, records: &[Record]) -> Result<()> {
    let create = |record: &Record| {
        let path = path::absolute(&survey.target, &record.path);
        Op::create(&path, record.data.clone()).acl(record.acl.clone()).lifetime(record.lifetime)
    };
    let versioned = |record: &Record| {
        let path = path::absolute(&survey.source, &record.path);
        record.stat.as_ref().map(|stat| VersionedPath { path, seen: ZnodeVersion::of(stat) })
    };
    let creations: Vec<Op> = records.iter().map(create).collect();
    let deletions: Vec<VersionedPath> = records.iter().rev().filter_map(versioned).collect();
    let moved = delete_if_unchanged(client, &survey.target, &creations, &[], &deletions).await;
    moved.map_err(|Failed { error, may_be_done }| {
        let state = match may_be_done {
            true => "it is not known whether the subtree was moved",
            false => "nothing was moved",
        };
        SubtreeError::Refused(format!("{}; {state}", described(&error)))
    })
}

/// The text of an error; that of a server's error includes the path.
fn described(error: &SubtreeError) -> String {
    match error {
        SubtreeError::Client(error) => crate::failure::describe(error),
        other => other.to_string(),
    }
}

fn half_copied(survey: &Survey, writer: &Writer, error: SubtreeError) -> SubtreeError {
    let Survey { target, .. } = survey;
    let written = writer.written();
    let text = match &error {
        SubtreeError::Stopped { source, .. } if source.outcome() == Outcome::Unknown => {
            error.to_string()
        }
        _ if written == 0 => return error,
        SubtreeError::Stopped { .. } => error.to_string(),
        _ => format!("{}; {written} znodes were written to {target}", described(&error)),
    };
    SubtreeError::Refused(format!("{text}; --resume continues"))
}

fn half_moved(survey: &Survey, deleted: u64, failed: Failed) -> SubtreeError {
    let Failed { error, may_be_done } = failed;
    let Survey { source, target, .. } = survey;
    if let SubtreeError::CopyChanged(path) = &error {
        return SubtreeError::Refused(format!(
            "the copy was changed meanwhile: {path}; {deleted} znodes of {source} were deleted, the \
             rest are still there; compare the two with diff, then continue with --resume"
        ));
    }
    let (why, hint) = match &error {
        SubtreeError::Changed(path) => (
            format!("{source} was changed meanwhile: {path}"),
            "compare the two with diff, then continue with --resume",
        ),
        other => {
            (format!("{source} could not be deleted: {}", described(other)), "--resume continues")
        }
    };
    let others = match may_be_done {
        true => "some of the rest may be",
        false => "the rest are still there",
    };
    SubtreeError::Refused(format!(
        "the copy {target} is complete, but {why}; {deleted} znodes of {source} were deleted, {others}; \
         {hint}"
    ))
}

fn walk_options(fetch: Fetch) -> WalkOptions {
    WalkOptions { fetch, depth_max: None, system: SystemZnodes::Skip }
}

fn readable(visit: Visit) -> Result<Znode> {
    match visit {
        Visit::Znode(znode) => Ok(znode),
        Visit::Unreadable(position) => Err(SubtreeError::Unreadable(position.path)),
    }
}

/// Whether it was left by an interrupted move of this session.
fn is_own_marker(client: &Client, znode: &Znode) -> bool {
    marker_owner(client, &znode.position.path, &znode.stat) == Some(MarkerOwner::This)
}

async fn remove_marker(client: &Client, znode: &Znode) -> Result<()> {
    match client.delete(&znode.position.path).await {
        Err(error) if *error.kind() != ErrorKind::NoNode => Err(error.into()),
        _ => Ok(()),
    }
}

fn check_copyable(client: &Client, znode: &Znode) -> Result<()> {
    let path = &znode.position.path;
    if marker_owner(client, path, &znode.stat) == Some(MarkerOwner::Other) {
        let owner = super::human::hex(znode.stat.ephemeral_owner);
        return Err(SubtreeError::Refused(format!(
            "{path} belongs to a move by session {owner}, which is in progress or was interrupted; \
             wait until that session has ended, at most its session timeout"
        )));
    }
    reject_ephemeral(path, &znode.stat)?;
    if super::record::has_hidden_digest(&znode.acl) {
        let text = format!(
            "the ACL of {path} is shown only to users who may change it: log in with addauth"
        );
        return Err(SubtreeError::Refused(text));
    }
    Ok(())
}

/// Rejects an ephemeral: it ends with its session, so it can be neither a source nor a copy.
fn reject_ephemeral(path: &str, stat: &Stat) -> Result<()> {
    if NodeType::of(stat) != NodeType::Ephemeral {
        return Ok(());
    }
    let owner = super::human::hex(stat.ephemeral_owner);
    Err(SubtreeError::Refused(format!("{path} is ephemeral and belongs to session {owner}")))
}
