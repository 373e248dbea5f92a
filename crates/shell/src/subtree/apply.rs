//! Writes znodes in batches, and carries out the plan of an import with them.
//!
//! A batch is one transaction: all of its znodes are written or none. One batch is in flight at a
//! time, so that when a write fails the exact number of earlier writes is known.
//!
//! A znode whose data is replaced is checked right before, and must be as the plan saw it: the version
//! in the request does not detect a znode that was deleted and created again. The reply shows whether it
//! was still the same one.
//!
//! An ACL cannot be part of a transaction. When both data and ACL are to be replaced, the ACL first
//! loses all permissions to read. Then the data is replaced, and then the ACL. So neither the old data
//! can be read under the new ACL, nor the new data under the old one, wherever it stops. One gap remains,
//! because no request compares more than a version: if the znode is deleted and created again right before
//! its data is replaced, the data is in the new znode, under an ACL that another client has chosen. The
//! reply shows that, and it is reported.

use bytes::Bytes;
use herdsman_client::{
    Acl, Client, Error, ErrorKind, Lifetime, Op, OpResult, Outcome, Perms, Stat,
};

use super::error::{Result, SubtreeError};
use super::file::ExportFile;
use super::import::{Change, ImportOptions, Plan, Step, Wanted, digest};
use super::path;
use super::record::Record;
use super::znode_version::ZnodeVersion;

/// Most writes in a batch.
const OPS_MAX: usize = 128;

/// Most data in a batch: with paths and ACLs it must stay below the 1 MiB that servers accept at once. A
/// single znode may have more, and is sent alone.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Bytes of a write besides its data: header, version, flags and lengths.
const OP_OVERHEAD: usize = 64;

/// The progress of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records of the file that were read.
    pub read: u64,
    /// Znodes that were written.
    pub written: u64,
    /// The znode whose data and ACL are being replaced: no client may be able to read it.
    pub replacing: Option<String>,
}

/// Collects writes and sends them in batches.
pub(super) struct Writer {
    client: Client,
    pending: Vec<Pending>,
    bytes: usize,
    written: u64,
    created: Vec<ZnodeVersion>,
}

struct Pending {
    path: String,
    write: Write,
}

enum Write {
    Create { data: Bytes, acl: Vec<Acl>, lifetime: Lifetime },
    Set { data: Bytes, seen: ZnodeVersion },
}

impl Writer {
    pub(super) fn new(client: &Client) -> Self {
        let (pending, created) = Default::default();
        Writer { client: client.clone(), pending, bytes: 0, written: 0, created }
    }

    /// Znodes that have been written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// The znodes that have been created, in the order of the calls.
    pub(super) fn created(&self) -> &[ZnodeVersion] {
        &self.created
    }

    pub(super) async fn create(
        &mut self,
        path: String,
        data: Bytes,
        acl: Vec<Acl>,
        lifetime: Lifetime,
    ) -> Result<()> {
        self.put(Pending { path, write: Write::Create { data, acl, lifetime } }).await
    }

    /// Sets the data, if it is still the same znode with the same data as in the plan.
    async fn set(&mut self, path: String, data: Bytes, seen: ZnodeVersion) -> Result<()> {
        self.put(Pending { path, write: Write::Set { data, seen } }).await
    }

    async fn put(&mut self, pending: Pending) -> Result<()> {
        let bytes = pending.bytes();
        if self.pending.len() >= OPS_MAX || self.bytes + bytes > BATCH_BYTES_MAX {
            self.flush().await?;
        }
        self.bytes += bytes;
        self.pending.push(pending);
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.pending);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        self.check_seen(&batch).await?;
        let results = match batch.as_slice() {
            [alone] => alone.send(&self.client).await.map(|result| vec![result]),
            _ => self.client.transaction(batch.iter().map(Op::from)).await,
        };
        match results {
            Ok(results) => {
                self.written += batch.len() as u64;
                self.created.extend(results.iter().filter_map(|result| match result {
                    OpResult::Created(created) => Some(ZnodeVersion::of(&created.stat)),
                    _ => None,
                }));
                check_replies(&batch, &results)
            }
            Err(error) => {
                let failed = error.failed_op().and_then(|index| batch.get(index));
                let path = failed.or(batch.first()).map(|pending| pending.path.clone());
                Err(self.stopped(path.unwrap_or_default(), error))
            }
        }
    }

    /// Checks that all znodes to be replaced are as in the plan.
    async fn check_seen(&self, batch: &[Pending]) -> Result<()> {
        let requests = batch.iter().filter_map(|Pending { path, write }| match write {
            Write::Set { seen, .. } => Some((path, seen, self.client.exists(path).send())),
            Write::Create { .. } => None,
        });
        for (path, seen, reply) in requests.collect::<Vec<_>>() {
            let stat = reply.await.map_err(|error| self.stopped(path.clone(), error))?;
            if stat.is_none_or(|stat| ZnodeVersion::of(&stat) != *seen) {
                let changed = Error::not_applied(ErrorKind::BadVersion);
                return Err(self.stopped(path.clone(), changed));
            }
        }
        Ok(())
    }

    /// Replaces only the ACL.
    async fn set_acl(&mut self, path: String, acl: Vec<Acl>, seen: ZnodeVersion) -> Result<()> {
        self.flush().await?;
        let unchanged = self.read_acl(&path, seen).await?;
        let set = self.client.set_acl(&path, acl).version(unchanged.1.aversion).await;
        let stat = set.map_err(|error| self.stopped(path.clone(), error))?;
        self.written += 1;
        check_same(&path, seen, &stat)
    }

    /// Replaces data and ACL. Between the steps no client can read the znode.
    async fn replace(
        &mut self,
        path: String,
        data: Bytes,
        acl: Vec<Acl>,
        seen: ZnodeVersion,
    ) -> Result<()> {
        self.flush().await?;
        let (before, stat) = self.read_acl(&path, seen).await?;
        let client = self.client.clone();
        let restricted =
            client.set_acl(&path, without_read(&before, &acl)).version(stat.aversion).await;
        let restricted = restricted.map_err(|error| match error.outcome() {
            Outcome::Unknown => self.left_unreadable(&path, error, MAY_BE_UNREADABLE),
            _ => self.stopped(path.clone(), error),
        })?;
        if restricted.czxid != seen.czxid {
            let changed = Error::not_applied(ErrorKind::BadVersion);
            return Err(self.left_unreadable(&path, changed, UNREADABLE));
        }
        match client.set(&path, data).version(seen.version).await {
            Ok(stat) if stat.czxid == seen.czxid => {}
            Ok(_) => return Err(disclosed(&path)),
            Err(error) if error.outcome() == Outcome::Unknown => {
                return Err(self.left_between(&path, seen, NewData::Maybe, error).await);
            }
            Err(error) => {
                let reopened = client.set_acl(&path, before).version(restricted.aversion).await;
                return match reopened.is_ok_and(|stat| stat.czxid == seen.czxid) {
                    true => Err(self.stopped(path, error)),
                    false => Err(self.left_between(&path, seen, NewData::No, error).await),
                };
            }
        }
        match client.set_acl(&path, &acl[..]).version(restricted.aversion).await {
            Ok(stat) => {
                self.written += 1;
                check_same(&path, seen, &stat)
            }
            Err(error)
                if error.outcome() == Outcome::Unknown && self.has_acl(&path, seen, &acl).await =>
            {
                self.written += 1;
                Ok(())
            }
            Err(error) => Err(self.left_between(&path, seen, NewData::Yes, error).await),
        }
    }

    /// Whether a request whose reply was lost has set the ACL.
    async fn has_acl(&self, path: &str, seen: ZnodeVersion, wanted: &[Acl]) -> bool {
        let found = self.client.acl(path).await;
        found.is_ok_and(|(acl, stat)| stat.czxid == seen.czxid && acl == wanted)
    }

    /// Reads a znode that was left between two steps, and describes its state in an error.
    async fn left_between(
        &self,
        path: &str,
        seen: ZnodeVersion,
        new_data: NewData,
        error: Error,
    ) -> SubtreeError {
        let (acl, stat) = match self.client.acl(path).await {
            Ok(found) => found,
            Err(found) if *found.kind() == ErrorKind::NoNode => {
                let stopped = self.stopped(path.to_owned(), error);
                return SubtreeError::Refused(format!("{stopped}; {path} was deleted meanwhile"));
            }
            Err(_) => return self.left_unreadable(path, error, MAY_BE_UNREADABLE),
        };
        let is_same = stat.czxid == seen.czxid;
        if is_same && !acl.iter().any(|entry| entry.perms.0 & Perms::READ.0 != 0) {
            return self.left_unreadable(path, error, UNREADABLE);
        }
        let stopped = self.stopped(path.to_owned(), error);
        let what = match is_same {
            true => "its ACL was set meanwhile",
            false => "it was deleted and created again meanwhile",
        };
        let data = match (is_same, new_data) {
            (true, NewData::Yes) => "; it has the data of the file under that ACL",
            (_, NewData::Maybe) => {
                "; it may have the data of the file under an ACL that is not the file's"
            }
            (false, NewData::Yes) | (_, NewData::No) => "; it does not have the data of the file",
        };
        SubtreeError::Refused(format!("{stopped}; {what}{data}: check {path} with getAcl"))
    }

    /// Reads the ACL and the stat of a znode, and fails if it is not as in the plan.
    async fn read_acl(&self, path: &str, seen: ZnodeVersion) -> Result<(Vec<Acl>, Stat)> {
        let found = self.client.acl(path).await;
        let (acl, stat) = found.map_err(|error| self.stopped(path.to_owned(), error))?;
        if ZnodeVersion::of(&stat) != seen {
            let changed = Error::not_applied(ErrorKind::BadVersion);
            return Err(self.stopped(path.to_owned(), changed));
        }
        Ok((acl, stat))
    }

    fn left_unreadable(&self, path: &str, error: Error, state: &str) -> SubtreeError {
        let stopped = self.stopped(path.to_owned(), error);
        SubtreeError::Refused(format!(
            "{stopped}; the ACL of {path} {state}: import again with --overwrite, or use setAcl"
        ))
    }

    fn stopped(&self, path: String, source: Error) -> SubtreeError {
        SubtreeError::Stopped { path, source, written: self.written }
    }
}

/// Descriptions of a znode that was left between two steps.
const UNREADABLE: &str = "now allows no client to read it";
const MAY_BE_UNREADABLE: &str = "may now allow no client to read it";

/// Whether the data of the file was written to the znode of the plan, or to one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewData {
    No,
    Maybe,
    Yes,
}

/// The ACL of a znode while its data and ACL are replaced: clients that may change it may continue to do
/// so, and none may read. The entries of its future ACL are included without any permission, so that a
/// server that does not accept them reports that before anything was changed.
fn without_read(before: &[Acl], after: &[Acl]) -> Vec<Acl> {
    let drop_read = |acl: &Acl| {
        let perms = Perms(acl.perms.0 & !Perms::READ.0);
        Acl { perms, id: acl.id.clone() }
    };
    let without_any = |acl: &Acl| Acl { perms: Perms(0), id: acl.id.clone() };
    before.iter().map(drop_read).chain(after.iter().map(without_any)).collect()
}

/// Checks in the replies that the replaced znodes were those of the plan. No request can ensure that.
fn check_replies(batch: &[Pending], results: &[OpResult]) -> Result<()> {
    let mut replies = batch.iter().zip(results);
    replies.try_for_each(|(pending, result)| match (&pending.write, result) {
        (Write::Set { seen, .. }, OpResult::Set(stat)) => check_same(&pending.path, *seen, stat),
        _ => Ok(()),
    })
}

fn check_same(path: &str, seen: ZnodeVersion, stat: &Stat) -> Result<()> {
    if stat.czxid == seen.czxid {
        return Ok(());
    }
    Err(SubtreeError::Refused(format!(
        "{path} was deleted and created again while it was being written: the new znode is \
         overwritten"
    )))
}

/// The error for data that went to a znode which another client had just created.
fn disclosed(path: &str) -> SubtreeError {
    SubtreeError::Refused(format!(
        "{path} was deleted and created again while it was being written: the new znode is \
         overwritten, and has the data of the file under its own ACL, which may let other users read it: \
         check it with getAcl, then import again with --overwrite"
    ))
}

impl Pending {
    /// Its approximate size in a request.
    fn bytes(&self) -> usize {
        let acl_bytes = |acl: &[Acl]| -> usize {
            acl.iter().map(|entry| entry.id.scheme.len() + entry.id.id.len() + 12).sum()
        };
        let own = match &self.write {
            Write::Create { data, acl, .. } => data.len() + acl_bytes(acl),
            Write::Set { data, .. } => data.len(),
        };
        own + self.path.len() + OP_OVERHEAD
    }

    /// Sends it as a single request: a large znode may not fit into a transaction.
    async fn send(&self, client: &Client) -> Result<OpResult, Error> {
        let Pending { path, write } = self;
        match write {
            Write::Create { data, acl, lifetime } => {
                let create = client.create(path, data.clone()).acl(acl.clone());
                create.lifetime(*lifetime).await.map(OpResult::Created)
            }
            Write::Set { data, seen } => {
                client.set(path, data.clone()).version(seen.version).await.map(OpResult::Set)
            }
        }
    }
}

impl From<&Pending> for Op {
    fn from(Pending { path, write }: &Pending) -> Self {
        match write {
            Write::Create { data, acl, lifetime } => {
                Op::create(path, data.clone()).acl(acl.clone()).lifetime(*lifetime)
            }
            Write::Set { data, seen } => Op::set(path, data.clone()).version(seen.version),
        }
    }
}

/// Carries out a plan without conflicts. `progress` is called after each record, and before each znode
/// that no client can read while it is replaced.
pub async fn import(
    client: &Client,
    file: &ExportFile,
    plan: &Plan,
    options: ImportOptions,
    mut progress: impl FnMut(Progress),
) -> Result<()> {
    if plan.counts.conflict > 0 {
        return Err(SubtreeError::refused("the plan has conflicts"));
    }
    let mut writer = Writer::new(client);
    let done = write_all(&mut writer, file, plan, options, &mut progress).await;
    done.map_err(|error| match error {
        SubtreeError::Stopped { .. } => error,
        _ if writer.written() == 0 => error,
        _ => {
            let written = writer.written();
            SubtreeError::Refused(format!("{error}; {written} znodes were written before that"))
        }
    })
}

async fn write_all(
    writer: &mut Writer,
    file: &ExportFile,
    plan: &Plan,
    options: ImportOptions,
    progress: &mut impl FnMut(Progress),
) -> Result<()> {
    for parent in &plan.missing_parents {
        let open = vec![Acl::world(Perms::ALL)];
        writer.create(parent.clone(), Bytes::new(), open, Lifetime::Persistent).await?;
    }
    let mut records = file.records()?;
    for (planned, read) in plan.steps.iter().zip(1..) {
        let record = records.next_record()?.map(|(_, record)| record);
        let Some(record) = record.filter(|record| digest(record) == planned.digest) else {
            return Err(SubtreeError::refused("the file was changed while it was imported"));
        };
        if let Step::Update { change: Change::Both, .. } = planned.step {
            let replacing = Some(path::absolute(&plan.target, &record.path));
            progress(Progress { read: read - 1, written: writer.written(), replacing });
        }
        write_step(writer, &plan.target, record, planned.step, options).await?;
        progress(Progress { read, written: writer.written(), replacing: None });
    }
    writer.flush().await
}

async fn write_step(
    writer: &mut Writer,
    target: &str,
    record: Record,
    step: Step,
    options: ImportOptions,
) -> Result<()> {
    let path = path::absolute(target, &record.path);
    let Wanted { acl, lifetime } = Wanted::of(&record, options);
    match step {
        Step::Nothing => Ok(()),
        Step::Create => writer.create(path, record.data, acl, lifetime).await,
        Step::Update { seen, change } => match change {
            Change::Data => writer.set(path, record.data, seen).await,
            Change::Acl => writer.set_acl(path, acl, seen).await,
            Change::Both => writer.replace(path, record.data, acl, seen).await,
        },
    }
}
