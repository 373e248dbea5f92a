//! Copies and moves a subtree within an ensemble. Nothing is ever overwritten.
//!
//! A small subtree is moved in one transaction: nobody ever sees both, or neither. A larger one is
//! copied, and then deleted from its leaves up, each znode only if it still has the version that was
//! copied; when somebody has changed the source meanwhile, the move stops and says so, and the copy
//! is whole.

use herdsman_client::{Client, Op};

use super::apply::Writer;
use super::error::{Result, SubtreeError};
use super::export::record_of;
use super::lifetime::{NodeType, TypeHints};
use super::path;
use super::record::Record;
use super::walk::{Fetch, SystemZnodes, Visit, Walk, WalkOptions, Znode};

/// Most znodes that are moved in one transaction.
const ATOMIC_ZNODES_MAX: u64 = 500;

/// Most bytes of data that are moved in one transaction.
const ATOMIC_BYTES_MAX: u64 = 256 << 10;

/// Most bytes of paths and ACLs besides.
const ATOMIC_NAMES_MAX: usize = 256 << 10;

/// How much of a source is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A znode that has no children.
    Leaf,
    /// A znode and everything below it.
    Subtree,
}

/// What a copy would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What is copied.
    pub source: String,
    /// Where it goes.
    pub target: String,
    /// Znodes to copy.
    pub znodes: u64,
    /// Their bytes of data.
    pub bytes: u64,
}

/// How a move was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// In one transaction.
    AtOnce,
    /// Copied, then deleted.
    InSteps,
}

/// Finds out what there is to copy, and whether it may be. Nothing is changed.
pub async fn survey(client: &Client, source: &str, target: &str, extent: Extent) -> Result<Survey> {
    herdsman_client::check_path(source)?;
    herdsman_client::check_path(target)?;
    if path::is_within(source, target) {
        return Err(SubtreeError::Refused(format!("{target} is {source} itself or below it")));
    }
    check_target(client, target).await?;
    let mut survey =
        Survey { source: source.to_owned(), target: target.to_owned(), znodes: 0, bytes: 0 };
    let mut walk = Walk::new(client, source, walk_options(Fetch::Stat));
    while let Some(visit) = walk.next().await? {
        let znode = readable(visit)?;
        if extent == Extent::Leaf && znode.stat.num_children > 0 {
            return Err(SubtreeError::Refused(format!("{source} has children: use -r")));
        }
        check_copyable(&znode)?;
        survey.znodes += 1;
        survey.bytes += u64::try_from(znode.stat.data_length).unwrap_or(0);
    }
    Ok(survey)
}

async fn check_target(client: &Client, target: &str) -> Result<()> {
    if client.exists(target).await?.is_some() {
        let text = format!("{target} exists already; nothing is overwritten");
        return Err(SubtreeError::Refused(text));
    }
    if let Some(parent) = path::parent(target)
        && client.exists(parent).await?.is_none()
    {
        return Err(SubtreeError::Refused(format!("there is no znode {parent}: create it first")));
    }
    Ok(())
}

/// Copies what was surveyed. `progress` is told the number of znodes after each.
pub async fn copy(
    client: &Client,
    survey: &Survey,
    hints: &TypeHints,
    progress: impl FnMut(u64),
) -> Result<u64> {
    copy_noting(client, survey, hints, progress, |_| {}).await
}

/// Moves what was surveyed.
pub async fn move_subtree(
    client: &Client,
    survey: &Survey,
    hints: &TypeHints,
    progress: impl FnMut(u64),
) -> Result<Moved> {
    if survey.znodes <= ATOMIC_ZNODES_MAX
        && survey.bytes <= ATOMIC_BYTES_MAX
        && let Some(records) = small(client, survey, hints).await?
    {
        move_at_once(client, survey, &records).await?;
        return Ok(Moved::AtOnce);
    }
    let mut copied: Vec<(String, i32)> = Vec::new();
    let note = |znode: &Znode| copied.push((znode.place.path.clone(), znode.stat.version));
    copy_noting(client, survey, hints, progress, note).await?;
    let mut writer = Writer::new(client);
    while let Some((path, version)) = copied.pop() {
        writer.delete(path, version).await.map_err(|error| half_moved(survey, error))?;
    }
    writer.flush().await.map_err(|error| half_moved(survey, error))?;
    Ok(Moved::InSteps)
}

async fn copy_noting(
    client: &Client,
    survey: &Survey,
    hints: &TypeHints,
    mut progress: impl FnMut(u64),
    mut note: impl FnMut(&Znode),
) -> Result<u64> {
    let mut writer = Writer::new(client);
    let mut walk = Walk::new(client, &survey.source, walk_options(Fetch::Everything));
    let mut seen = 0;
    while let Some(visit) = walk.next().await? {
        let znode = readable(visit)?;
        check_copyable(&znode)?;
        note(&znode);
        let Record { path, data, acl, lifetime, .. } = record_of(&survey.source, znode, hints);
        writer.create(path::absolute(&survey.target, &path), data, acl, lifetime).await?;
        seen += 1;
        progress(seen);
    }
    writer.flush().await?;
    Ok(writer.written())
}

/// All records, unless they turn out to be more than one transaction takes.
async fn small(client: &Client, survey: &Survey, hints: &TypeHints) -> Result<Option<Vec<Record>>> {
    let mut walk = Walk::new(client, &survey.source, walk_options(Fetch::Everything));
    let mut records = Vec::new();
    let (mut bytes, mut names) = (0, 0);
    while let Some(visit) = walk.next().await? {
        let znode = readable(visit)?;
        check_copyable(&znode)?;
        bytes += znode.data.len() as u64;
        let acl: usize = znode.acl.iter().map(|acl| acl.id.scheme.len() + acl.id.id.len()).sum();
        names += 2 * znode.place.path.len() + survey.target.len() + acl + 128;
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
    let delete = |record: &Record| {
        let version = record.stat.map_or(-1, |stat| stat.version);
        Op::delete(&path::absolute(&survey.source, &record.path)).version(version)
    };
    let ops = records.iter().map(create).chain(records.iter().rev().map(delete));
    client.transaction(ops).await.map(drop).map_err(|error| SubtreeError::Stopped {
        path: error.path().unwrap_or(&survey.source).to_owned(),
        written: 0,
        source: error,
    })
}

fn half_moved(survey: &Survey, error: SubtreeError) -> SubtreeError {
    let SubtreeError::Stopped { path, source, written } = error else {
        return error;
    };
    let Survey { source: from, target, .. } = survey;
    SubtreeError::Refused(format!(
        "the copy {target} is whole, but {from} was changed meanwhile: {path}: {}; {written} of its \
         znodes are deleted, the others are left",
        source.kind()
    ))
}

fn walk_options(fetch: Fetch) -> WalkOptions {
    WalkOptions { fetch, depth_max: None, system: SystemZnodes::Skip }
}

fn readable(visit: Visit) -> Result<Znode> {
    match visit {
        Visit::Znode(znode) => Ok(znode),
        Visit::Unreadable(place) => Err(SubtreeError::Unreadable(place.path)),
    }
}

fn check_copyable(znode: &Znode) -> Result<()> {
    let path = &znode.place.path;
    if NodeType::of(&znode.stat) == NodeType::Ephemeral {
        let owner = super::human::hex(znode.stat.ephemeral_owner);
        let text = format!("{path} is ephemeral, it belongs to session {owner}");
        return Err(SubtreeError::Refused(text));
    }
    if super::record::has_hidden_digest(&znode.acl) {
        let text = format!(
            "the ACL of {path} is shown only to those who may change it: log in with addauth"
        );
        return Err(SubtreeError::Refused(text));
    }
    Ok(())
}
