//! Plans an import, before anything is changed.
//!
//! In: a checked file, a target and its present state. Out: a [`Plan`], a few bytes for each line of
//! the file; nothing is written here, see [`super::apply`]. Many reads are in flight at a time; if
//! the target does not exist, none are needed.
//!
//! The plan does not know what other clients write between the plan and its execution. Creations fail
//! then, and so do updates of znodes that are not as in the plan.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use herdsman_client::{Acl, Client, Error, ErrorKind, Lifetime, Node, Perms, Reply, Stat};

use super::error::{Result, SubtreeError};
use super::file::{ExportFile, Outline};
use super::lifetime::NodeType;
use super::path;
use super::record::Record;
use super::sequence_numbers::SequenceNumbers;
use super::walk::AHEAD_MAX;
use super::znode_version::ZnodeVersion;

/// Most conflicts that are listed; the rest are only counted.
pub const CONFLICTS_LISTED_MAX: usize = 20;

/// What to do about existing znodes that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Write nothing if there are any.
    #[default]
    Conflict,
    /// Replace their data and ACL.
    Overwrite,
    /// Leave them unchanged.
    Skip,
}

/// Which ACLs the znodes get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AclChoice {
    /// The ACLs of the file.
    #[default]
    Keep,
    /// All permissions for everyone for new znodes; existing znodes keep their ACLs.
    Open,
}

/// What to do with ephemerals, which cannot be given back to their sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ephemerals {
    /// Skip them.
    #[default]
    Skip,
    /// Create them as persistent znodes.
    AsPersistent,
}

/// Options of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// What to do about existing znodes that differ.
    pub existing: Existing,
    /// Which ACLs the znodes get.
    pub acl: AclChoice,
    /// What to do with ephemerals.
    pub ephemerals: Ephemerals,
}

/// The number of znodes by planned action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Created, including those above the target.
    pub create: u64,
    /// Updated with other data or another ACL.
    pub update: u64,
    /// Existing and equal.
    pub equal: u64,
    /// Existing and different, left unchanged.
    pub skip: u64,
    /// Ephemerals that are skipped.
    pub ephemerals: u64,
    /// In conflict.
    pub conflict: u64,
}

/// An existing znode that conflicts with an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Line of the file.
    pub line: u64,
    /// Path of the znode.
    pub path: String,
    /// The fields that differ, as `data, acl`.
    pub differs: String,
}

/// The plan of an import.
#[derive(Debug)]
pub struct Plan {
    /// The target path of the subtree.
    pub target: String,
    /// Missing znodes above the target, from the top.
    pub missing_parents: Vec<String>,
    /// The number of znodes by planned action.
    pub counts: PlanCounts,
    /// The first conflicts.
    pub conflicts: Vec<Conflict>,
    /// One for each record of the file, in its order.
    pub(super) steps: Vec<Planned>,
    /// Numbers at the end of names that are created.
    pub sequence_numbers: SequenceNumbers,
}

/// The planned action for a record, and a digest of the record: the file may be changed while it is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) step: Step,
    pub(super) digest: u64,
}

/// The planned action for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    Create,
    /// Replace parts of an existing znode, if it is still in the state that the plan saw.
    Update {
        seen: ZnodeVersion,
        change: Change,
    },
}

/// What is replaced of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Data,
    Acl,
    Both,
}

/// Plans the import of a file to `target`.
pub async fn plan(
    client: &Client,
    file: &ExportFile,
    outline: &Outline,
    target: &str,
    options: ImportOptions,
) -> Result<Plan> {
    herdsman_client::check_path(target)?;
    let mut records = file.records()?;
    if let (Some(line), AclChoice::Keep) = (outline.first_hidden_acl, options.acl) {
        let fault = "the ACL has a digest that was hidden from the user who exported it, so no user could log \
                     in; use --acl open, or export as a user who may change the ACLs";
        return Err(records.fault(line, fault.to_owned()));
    }
    let mut planner = Planner {
        client,
        options,
        target_exists: exists_or_unreadable(client.exists(target).await)?,
        pending: VecDeque::new(),
        plan: Plan {
            target: target.to_owned(),
            missing_parents: missing_parents(client, target).await?,
            counts: PlanCounts::default(),
            conflicts: Vec::new(),
            steps: Vec::new(),
            sequence_numbers: SequenceNumbers::default(),
        },
    };
    planner.plan.counts.create = planner.plan.missing_parents.len() as u64;
    let mut has_root = false;
    while let Some((line, record)) = records.next_record()? {
        has_root |= record.path == path::SELF;
        planner.add(line, record).await?;
    }
    while !planner.pending.is_empty() {
        planner.plan_first().await?;
    }
    let Planner { mut plan, target_exists, .. } = planner;
    if !has_root && !target_exists {
        // A file without a line for its root: the target is created like the znodes above it.
        plan.missing_parents.push(target.to_owned());
        plan.counts.create += 1;
    }
    Ok(plan)
}

/// Whether a znode exists. One that may not be read does.
fn exists_or_unreadable(found: Result<Option<Stat>, Error>) -> Result<bool> {
    match found {
        Ok(stat) => Ok(stat.is_some()),
        Err(error) if *error.kind() == ErrorKind::NoAuth => Ok(true),
        Err(error) => Err(error.into()),
    }
}

async fn missing_parents(client: &Client, target: &str) -> Result<Vec<String>> {
    let above = std::iter::successors(path::parent(target), |above| path::parent(above));
    let requests: Vec<_> = above.map(|above| (above, client.exists(above).send())).collect();
    let mut missing = VecDeque::new();
    for (above, reply) in requests {
        if !exists_or_unreadable(reply.await)? {
            missing.push_front(above.to_owned());
        }
    }
    Ok(missing.into())
}

struct Planner<'p> {
    client: &'p Client,
    options: ImportOptions,
    target_exists: bool,
    /// Records whose existing znode was requested, at most `AHEAD_MAX`.
    pending: VecDeque<PendingRecord>,
    plan: Plan,
}

struct PendingRecord {
    line: u64,
    record: Record,
    existing: Option<ExistingZnode>,
}

/// The replies about an existing znode.
struct ExistingZnode {
    node: Reply<Node>,
    acl: Reply<(Vec<Acl>, Stat)>,
}

impl Planner<'_> {
    async fn add(&mut self, line: u64, record: Record) -> Result<()> {
        let path = path::absolute(&self.plan.target, &record.path);
        let is_requested = self.target_exists && !self.is_skipped(&record);
        let existing = is_requested.then(|| ExistingZnode {
            node: self.client.get(&path).send(),
            acl: self.client.acl(&path).send(),
        });
        self.pending.push_back(PendingRecord { line, record, existing });
        if self.pending.len() >= AHEAD_MAX {
            self.plan_first().await?;
        }
        Ok(())
    }

    async fn plan_first(&mut self) -> Result<()> {
        let Some(PendingRecord { line, record, existing }) = self.pending.pop_front() else {
            return Ok(());
        };
        let step = match existing {
            Some(ExistingZnode { node, acl }) => match node.await {
                Ok(node) => self.compare(line, &record, &node, &acl.await?),
                Err(error) => match error.kind() {
                    ErrorKind::NoNode => self.create(&record),
                    ErrorKind::NoAuth if self.replaces_all() => {
                        self.replace_unread(&record, &acl.await?.1)?
                    }
                    ErrorKind::NoAuth if self.options.existing == Existing::Skip => {
                        self.plan.counts.skip += 1;
                        Step::Nothing
                    }
                    ErrorKind::NoAuth => {
                        let path = path::absolute(&self.plan.target, &record.path);
                        return Err(SubtreeError::Refused(format!(
                            "{path} exists but may not be read, so it cannot be compared: log in with \
                             addauth, or use --skip-existing; nothing was changed"
                        )));
                    }
                    _ => return Err(error.into()),
                },
            },
            None if self.is_skipped(&record) => {
                self.plan.counts.ephemerals += 1;
                Step::Nothing
            }
            None => self.create(&record),
        };
        self.plan.steps.push(Planned { step, digest: digest(&record) });
        Ok(())
    }

    fn is_skipped(&self, record: &Record) -> bool {
        record.node_type() == NodeType::Ephemeral && self.options.ephemerals == Ephemerals::Skip
    }

    fn replaces_all(&self) -> bool {
        self.options.existing == Existing::Overwrite && self.options.acl == AclChoice::Keep
    }

    /// Plans to replace a znode whose data may not be read: an import that stops between its steps leaves it
    /// like that. A client that may read the ACL may try to overwrite both.
    fn replace_unread(&mut self, record: &Record, stat: &Stat) -> Result<Step> {
        if NodeType::of(stat) == NodeType::Ephemeral {
            return Err(SubtreeError::Unreadable(path::absolute(&self.plan.target, &record.path)));
        }
        self.plan.counts.update += 1;
        Ok(Step::Update { seen: ZnodeVersion::of(stat), change: Change::Both })
    }

    fn create(&mut self, record: &Record) -> Step {
        let path = path::absolute(&self.plan.target, &record.path);
        self.plan.sequence_numbers.note(&path);
        self.plan.counts.create += 1;
        Step::Create
    }

    fn compare(&mut self, line: u64, record: &Record, node: &Node, acl: &(Vec<Acl>, Stat)) -> Step {
        // Ephemerals are never imported as such.
        let type_differs = NodeType::of(&node.stat) == NodeType::Ephemeral;
        let data_differs = record.data != node.data;
        let acl_differs = self.options.acl == AclChoice::Keep && record.acl != acl.0;
        let counts = &mut self.plan.counts;
        if !(type_differs || data_differs || acl_differs) {
            counts.equal += 1;
            return Step::Nothing;
        }
        match self.options.existing {
            Existing::Skip => {
                counts.skip += 1;
                Step::Nothing
            }
            Existing::Overwrite if !type_differs => {
                counts.update += 1;
                let change = match (data_differs, acl_differs) {
                    (true, true) => Change::Both,
                    (true, false) => Change::Data,
                    _ => Change::Acl,
                };
                // The ACL was read last: if the data was written in between, the step will fail.
                let seen =
                    ZnodeVersion { aversion: acl.1.aversion, ..ZnodeVersion::of(&node.stat) };
                Step::Update { seen, change }
            }
            Existing::Overwrite | Existing::Conflict => {
                counts.conflict += 1;
                let path = path::absolute(&self.plan.target, &record.path);
                let differs =
                    named([("data", data_differs), ("acl", acl_differs), ("type", type_differs)]);
                if self.plan.conflicts.len() < CONFLICTS_LISTED_MAX {
                    self.plan.conflicts.push(Conflict { line, path, differs });
                }
                Step::Nothing
            }
        }
    }
}

/// A digest that distinguishes records within one process.
pub(super) fn digest(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&record.path, &record.data, &record.acl).hash(&mut hasher);
    hasher.finish()
}

/// The names of the true entries, separated by commas.
fn named<const N: usize>(all: [(&str, bool); N]) -> String {
    let names: Vec<&str> = all.iter().filter(|(_, holds)| *holds).map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The ACL and lifetime that a record gets under the options.
pub(super) struct Wanted {
    pub(super) acl: Vec<Acl>,
    pub(super) lifetime: Lifetime,
}

impl Wanted {
    pub(super) fn of(record: &Record, options: ImportOptions) -> Self {
        let acl = match options.acl {
            AclChoice::Keep => record.acl.clone(),
            AclChoice::Open => vec![Acl::world(Perms::ALL)],
        };
        let lifetime = match record.lifetime {
            Lifetime::Ephemeral => Lifetime::Persistent,
            other => other,
        };
        Wanted { acl, lifetime }
    }
}
