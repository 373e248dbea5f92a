//! Writes znodes in batches, and carries out the plan of an import with them.
//!
//! A batch is one transaction: all of its znodes are written or none. One batch is under way at a
//! time, so that when a write fails it can be said exactly what was written before it.

use bytes::Bytes;
use herdsman_client::{Acl, Client, Error, Lifetime, Op, Perms};

use super::error::{Result, SubtreeError};
use super::file::ExportFile;
use super::import::{ImportOptions, Plan, Step, Wanted};
use super::path;

/// Writes in a batch.
const OPS_MAX: usize = 128;

/// Data in a batch: with paths and ACLs it must stay below the 1 MiB that servers take at once. A
/// single znode may have more, and goes alone.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// What each write costs besides its data: header, version, flags and lengths.
const OP_OVERHEAD: usize = 64;

/// Collects writes and sends them in batches.
pub(super) struct Writer {
    client: Client,
    pending: Vec<Pending>,
    bytes: usize,
    written: u64,
}

struct Pending {
    path: String,
    write: Write,
}

enum Write {
    Create { data: Bytes, acl: Vec<Acl>, lifetime: Lifetime },
    Set { data: Bytes, version: i32 },
    Delete { version: i32 },
}

impl Writer {
    pub(super) fn new(client: &Client) -> Self {
        Writer { client: client.clone(), pending: Vec::new(), bytes: 0, written: 0 }
    }

    /// Znodes that have been written.
    pub(super) fn written(&self) -> u64 {
        self.written
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

    async fn set(&mut self, path: String, data: Bytes, version: i32) -> Result<()> {
        self.put(Pending { path, write: Write::Set { data, version } }).await
    }

    /// Only if nobody has changed the data since it had this version.
    pub(super) async fn delete(&mut self, path: String, version: i32) -> Result<()> {
        self.put(Pending { path, write: Write::Delete { version } }).await
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
        let paths: Vec<String> = batch.iter().map(|pending| pending.path.clone()).collect();
        let sent = match <[Pending; 1]>::try_from(batch) {
            Ok([alone]) => alone.send(&self.client).await,
            Err(batch) if batch.is_empty() => return Ok(()),
            Err(batch) => self.client.transaction(batch.into_iter().map(Op::from)).await.map(drop),
        };
        match sent {
            Ok(()) => {
                self.written += paths.len() as u64;
                Ok(())
            }
            Err(error) => {
                let failed = error.failed_op().and_then(|index| paths.get(index));
                let path = failed.or(paths.first()).cloned().unwrap_or_default();
                Err(self.stopped(path, error))
            }
        }
    }

    /// An ACL cannot be part of a transaction: it is replaced after what was written before it.
    async fn set_acl(&mut self, path: String, acl: Vec<Acl>, version: i32) -> Result<()> {
        self.flush().await?;
        match self.client.set_acl(&path, acl).version(version).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.stopped(path, error)),
        }
    }

    fn stopped(&self, path: String, source: Error) -> SubtreeError {
        SubtreeError::Stopped { path, source, written: self.written }
    }
}

impl Pending {
    /// About as many as it takes in a request.
    fn bytes(&self) -> usize {
        let acl_bytes = |acl: &[Acl]| -> usize {
            acl.iter().map(|entry| entry.id.scheme.len() + entry.id.id.len() + 12).sum()
        };
        let own = match &self.write {
            Write::Create { data, acl, .. } => data.len() + acl_bytes(acl),
            Write::Set { data, .. } => data.len(),
            Write::Delete { .. } => 0,
        };
        own + self.path.len() + OP_OVERHEAD
    }

    /// As a request of its own: a znode may be so large that it would not fit into a transaction.
    async fn send(self, client: &Client) -> Result<(), Error> {
        let Pending { path, write } = self;
        match write {
            Write::Create { data, acl, lifetime } => {
                client.create(&path, data).acl(acl).lifetime(lifetime).await.map(drop)
            }
            Write::Set { data, version } => {
                client.set(&path, data).version(version).await.map(drop)
            }
            Write::Delete { version } => client.delete(&path).version(version).await,
        }
    }
}

impl From<Pending> for Op {
    fn from(Pending { path, write }: Pending) -> Self {
        match write {
            Write::Create { data, acl, lifetime } => {
                Op::create(&path, data).acl(acl).lifetime(lifetime)
            }
            Write::Set { data, version } => Op::set(&path, data).version(version),
            Write::Delete { version } => Op::delete(&path).version(version),
        }
    }
}

/// Carries out a plan without conflicts. `progress` is told the number of records that are done.
pub async fn import(
    client: &Client,
    file: &ExportFile,
    plan: &Plan,
    options: ImportOptions,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    if plan.counts.conflict > 0 {
        return Err(SubtreeError::refused("the plan has conflicts"));
    }
    let mut writer = Writer::new(client);
    for parent in &plan.missing_parents {
        let open = vec![Acl::world(Perms::ALL)];
        writer.create(parent.clone(), Bytes::new(), open, Lifetime::Persistent).await?;
    }
    let mut records = file.records()?;
    let mut done = 0;
    for step in &plan.steps {
        let Some((_, record)) = records.next_record()? else {
            return Err(SubtreeError::refused("the file has become shorter meanwhile"));
        };
        let path = path::absolute(&plan.target, &record.path);
        let Wanted { acl, lifetime } = Wanted::of(&record, options);
        match *step {
            Step::Nothing => {}
            Step::Create => writer.create(path, record.data, acl, lifetime).await?,
            Step::Update { data, acl: aversion } => {
                if let Some(version) = data {
                    writer.set(path.clone(), record.data, version).await?;
                }
                if let Some(aversion) = aversion {
                    writer.set_acl(path, acl, aversion).await?;
                }
            }
        }
        done += 1;
        progress(done);
    }
    writer.flush().await
}
