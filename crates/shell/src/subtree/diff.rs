//! Compares two subtrees, on ensembles or in files.
//!
//! In: two [`Side`]s, each a stream of records in the order of a walk. Out: the differences, znode by
//! znode, found by merging the two streams; neither is ever in memory as a whole. Data, ACL and type are
//! compared; zxids, times and versions only on demand, because they differ between any two subtrees that
//! were not made by the same writes.

use std::cmp::Ordering;

use herdsman_client::{Client, Stat};

use super::error::{Result, SubtreeError};
use super::export::record_of;
use super::file::{Completeness, Records};
use super::lifetime::TypeHints;
use super::path::walk_order;
use super::record::Record;
use super::walk::{Fetch, SystemZnodes, Visit, Walk, WalkOptions};

mod render;

pub(crate) use render::unified;
pub use render::{Labels, as_json, as_text_lines, summary_line};

/// One of two subtrees.
pub enum Side {
    /// On an ensemble.
    Live {
        /// The walk through it.
        walk: Box<Walk>,
        /// Its root.
        root: String,
    },
    /// In an export file.
    File {
        /// The remaining records of the file.
        records: Records<'static>,
        /// The path of the previous record.
        last: Option<String>,
        /// Whether it must be complete.
        completeness: Completeness,
    },
}

impl Side {
    /// A subtree on an ensemble.
    #[must_use]
    pub fn live(client: &Client, root: &str, system: SystemZnodes) -> Self {
        let options = WalkOptions { fetch: Fetch::Everything, depth_max: None, system };
        Side::Live { walk: Box::new(Walk::new(client, root, options)), root: root.to_owned() }
    }

    /// A subtree in an export file.
    #[must_use]
    pub fn file(records: Records<'static>, completeness: Completeness) -> Self {
        Side::File { records, last: None, completeness }
    }

    async fn next(&mut self) -> Result<Option<Record>> {
        match self {
            Side::Live { walk, root } => match walk.next().await? {
                Some(Visit::Znode(znode)) => {
                    Ok(Some(record_of(root, znode, &TypeHints::default())))
                }
                Some(Visit::Unreadable(position)) => Err(SubtreeError::Unreadable(position.path)),
                None => Ok(None),
            },
            Side::File { records, last, completeness } => {
                let next = next_in_order(records, last)?;
                if next.is_none() && *completeness == Completeness::Required {
                    records.check_end()?;
                }
                Ok(next)
            }
        }
    }
}

fn next_in_order(records: &mut Records<'_>, last: &mut Option<String>) -> Result<Option<Record>> {
    let Some((line, record)) = records.next_record()? else {
        return Ok(None);
    };
    let in_order =
        last.as_ref().is_none_or(|last| walk_order(last, &record.path) == Ordering::Less);
    if !in_order {
        let fault = format!("{} is not in the order of an export", record.path);
        return Err(records.fault(line, fault));
    }
    *last = Some(record.path.clone());
    Ok(Some(record))
}

/// Whether stats are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatComparison {
    /// They are not.
    #[default]
    Off,
    /// Zxids, times and versions as well.
    On,
}

/// A field in which two znodes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The data.
    Data,
    /// The ACL.
    Acl,
    /// The type.
    Type,
    /// A number of the stat.
    Stat(&'static str),
}

impl Field {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Field::Data => "data",
            Field::Acl => "acl",
            Field::Type => "type",
            Field::Stat(name) => name,
        }
    }
}

/// A znode that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the first subtree has it.
    OnlyLeft(Record),
    /// Only the second subtree has it.
    OnlyRight(Record),
    /// Both have it.
    Changed {
        /// In the first.
        left: Record,
        /// In the second.
        right: Record,
        /// The fields that differ; at least one.
        fields: Vec<Field>,
    },
}

impl Difference {
    /// The relative path of the znode.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Difference::OnlyLeft(record) | Difference::OnlyRight(record) => &record.path,
            Difference::Changed { left, .. } => &left.path,
        }
    }
}

/// A comparison in progress.
pub struct Diff {
    left: Cursor,
    right: Cursor,
    stat: StatComparison,
    /// Whether both sides are files: only these include containers and times to live; see [`super::lifetime`].
    types_are_exact: bool,
    counts: DiffCounts,
}

/// The counts of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// The same on both sides.
    pub equal: u64,
    /// On both sides, and different.
    pub changed: u64,
    /// Only in the first subtree.
    pub only_left: u64,
    /// Only in the second subtree.
    pub only_right: u64,
}

impl DiffCounts {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.changed + self.only_left + self.only_right == 0
    }
}

struct Cursor {
    side: Side,
    head: Option<Record>,
    is_started: bool,
}

impl Cursor {
    fn new(side: Side) -> Self {
        Cursor { side, head: None, is_started: false }
    }

    /// Reads the first record, if that has not been done.
    async fn fill(&mut self) -> Result<()> {
        if !self.is_started {
            self.is_started = true;
            self.head = self.side.next().await?;
        }
        Ok(())
    }

    async fn take(&mut self) -> Result<Option<Record>> {
        let taken = self.head.take();
        if taken.is_some() {
            self.head = self.side.next().await?;
        }
        Ok(taken)
    }
}

impl Diff {
    /// Compares two subtrees.
    #[must_use]
    pub fn new(left: Side, right: Side, stat: StatComparison) -> Self {
        let is_file = |side: &Side| matches!(side, Side::File { .. });
        Diff {
            types_are_exact: is_file(&left) && is_file(&right),
            left: Cursor::new(left),
            right: Cursor::new(right),
            stat,
            counts: DiffCounts::default(),
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> DiffCounts {
        self.counts
    }

    /// The next difference; `None` at the end. After an error the comparison cannot continue.
    pub async fn next(&mut self) -> Result<Option<Difference>> {
        loop {
            self.left.fill().await?;
            self.right.fill().await?;
            let order = match (&self.left.head, &self.right.head) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(left), Some(right)) => walk_order(&left.path, &right.path),
            };
            let left = if order.is_le() { self.left.take().await? } else { None };
            let right = if order.is_ge() { self.right.take().await? } else { None };
            let difference = match (left, right) {
                (Some(left), Some(right)) => self.compare(left, right),
                (Some(left), None) => {
                    self.counts.only_left += 1;
                    Some(Difference::OnlyLeft(left))
                }
                (None, Some(right)) => {
                    self.counts.only_right += 1;
                    Some(Difference::OnlyRight(right))
                }
                (None, None) => None,
            };
            if difference.is_some() {
                return Ok(difference);
            }
        }
    }

    fn compare(&mut self, left: Record, right: Record) -> Option<Difference> {
        let mut fields = Vec::new();
        if left.data != right.data {
            fields.push(Field::Data);
        }
        if left.acl != right.acl {
            fields.push(Field::Acl);
        }
        let same_type = match self.types_are_exact {
            true => left.lifetime == right.lifetime,
            false => left.node_type().looks_like(right.node_type()),
        };
        if !same_type {
            fields.push(Field::Type);
        }
        if let (StatComparison::On, Some(left), Some(right)) = (self.stat, left.stat, right.stat) {
            fields.extend(stat_fields(&left, &right).map(Field::Stat));
        }
        if fields.is_empty() {
            self.counts.equal += 1;
            return None;
        }
        self.counts.changed += 1;
        Some(Difference::Changed { left, right, fields })
    }
}

/// Which numbers of two stats differ.
fn stat_fields(left: &Stat, right: &Stat) -> impl Iterator<Item = &'static str> {
    let fields = |stat: &Stat| {
        [
            ("czxid", stat.czxid.0),
            ("mzxid", stat.mzxid.0),
            ("pzxid", stat.pzxid.0),
            ("ctime", stat.ctime),
            ("mtime", stat.mtime),
            ("version", i64::from(stat.version)),
            ("cversion", i64::from(stat.cversion)),
            ("aversion", i64::from(stat.aversion)),
            ("ephemeralOwner", stat.ephemeral_owner),
        ]
    };
    let pairs = fields(left).into_iter().zip(fields(right));
    pairs.filter(|((_, left), (_, right))| left != right).map(|((name, _), _)| name)
}

#[cfg(test)]
mod tests;
