//! Finds a free worker id and takes it.
//!
//! In: which numbers are taken, and up to when each was used. Out: a lease.

use herdsman_client::{Client, Lifetime, Op, Optional, Session};
use uuid::Uuid;

use super::lease::LeasedTime;
use super::{WorkerIds, WorkerLease, parse, parse_time, unix_ms};
use crate::error::{Error, Result};
use crate::path::child;
use crate::retrying::{is_overtaken, retrying};
use crate::tagged_node::{CREATES_NODE, GuardedCreation};
use crate::until_known::until_known;

/// A search for a worker id, within one session.
#[derive(Debug)]
pub(super) struct Search<'a> {
    workers: &'a WorkerIds,
    session: Session,
    /// Does not give up while the session lives: the outcome of what was begun must become known.
    client: Client,
}

/// A number that could be leased, as it was read.
#[derive(Clone, Debug)]
struct Candidate {
    id: u16,
    /// Timestamps up to this one belong to earlier owners.
    used_until_ms: u64,
    /// The version of its time; `None` if it was never leased.
    version: Option<i32>,
}

impl<'a> Search<'a> {
    pub(super) fn new(workers: &'a WorkerIds, session: Session) -> Self {
        let client = retrying(&workers.holder.client.bound_to(&session));
        Search { workers, session, client }
    }

    pub(super) async fn run(&self) -> Result<WorkerLease> {
        for directory in ["workers", "times"] {
            let path = child(&self.workers.path, directory);
            until_known(|| async { self.client.ensure(&path, Lifetime::Persistent).await }).await?;
        }
        let lease = match self.lease_preferred().await? {
            Some(lease) => lease,
            None => self.lease_smallest().await?,
        };
        self.remember(lease.id()).await?;
        Ok(lease)
    }

    /// Leases the number that this identity had last.
    async fn lease_preferred(&self) -> Result<Option<WorkerLease>> {
        let Some(path) = self.workers.identity_path() else {
            return Ok(None);
        };
        let Some(node) = self.client.get(&path).await.optional()? else {
            return Ok(None);
        };
        match parse::<u16>(&node.data).filter(|id| self.workers.range.contains(id)) {
            Some(id) => self.try_lease(self.read_candidate(id).await?).await,
            None => Ok(None),
        }
    }

    async fn lease_smallest(&self) -> Result<WorkerLease> {
        loop {
            let taken = self.client.children(&child(&self.workers.path, "workers")).await?.names;
            let is_free = |id: &u16| !taken.iter().any(|name| *name == id.to_string());
            let free: Vec<u16> = self.workers.range.clone().filter(is_free).collect();
            if free.is_empty() {
                return Err(Error::Full { limit: self.workers.range.len() });
            }
            if let Some(lease) = self.lease_one_of(&free).await? {
                return Ok(lease);
            }
            // Other clients were faster with every one of them: read again.
        }
    }

    async fn lease_one_of(&self, free: &[u16]) -> Result<Option<WorkerLease>> {
        let mut resting = Vec::new();
        for id in free {
            let candidate = self.read_candidate(*id).await?;
            if candidate.used_until_ms >= unix_ms() {
                resting.push(candidate);
            } else if let Some(lease) = self.try_lease(candidate).await? {
                return Ok(Some(lease));
            }
        }
        resting.sort_by_key(|candidate| candidate.used_until_ms);
        for candidate in resting {
            if let Some(lease) = self.try_lease(candidate).await? {
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }

    /// Reads the state of a number.
    async fn read_candidate(&self, id: u16) -> Result<Candidate> {
        let path = self.workers.time_path(id);
        match self.client.get(&path).await {
            Err(error) if error.is_no_node() => {
                Ok(Candidate { id, used_until_ms: 0, version: None })
            }
            read => {
                let node = read?;
                let used_until_ms = parse_time(&path, &node)?;
                Ok(Candidate { id, used_until_ms, version: Some(node.stat.version) })
            }
        }
    }

    /// Takes the number unless another client is faster.
    async fn try_lease(&self, mut candidate: Candidate) -> Result<Option<WorkerLease>> {
        loop {
            let (id, time) = (candidate.id, self.time_after(&candidate));
            let creation = GuardedCreation {
                // With the caller's own retry policy.
                client: self.workers.holder.client.bound_to(&self.session),
                session: self.session.clone(),
                lost_when: self.workers.holder.lost_when,
                path: self.workers.worker_path(id),
                tag: Uuid::new_v4().to_string().into(),
                guard_write: self.write_time(&candidate),
                incarnation: time.incarnation(),
            };
            match creation.run(&self.client).await {
                Ok(hold) => return Ok(Some(WorkerLease::new(id, hold, time))),
                Err(error) if !is_overtaken(&error) => return Err(error.into()),
                Err(error) if error.failed_op() == Some(CREATES_NODE) => return Ok(None),
                // Another client had it for a moment since it was read.
                Err(_) => candidate = self.read_candidate(id).await?,
            }
        }
    }

    /// Returns the write that makes the next owner of the number known to all others.
    fn write_time(&self, candidate: &Candidate) -> Op {
        let time = self.workers.time_path(candidate.id);
        let data = candidate.used_until_ms.to_string();
        match candidate.version {
            Some(version) => Op::set(&time, data).version(version),
            None => Op::create(&time, data),
        }
    }

    /// Returns the time after that write.
    fn time_after(&self, candidate: &Candidate) -> LeasedTime {
        let version = candidate.version.map_or(0, |version| version.wrapping_add(1));
        LeasedTime::new(self.workers.time_path(candidate.id), candidate.used_until_ms, version)
    }

    /// Stores the number for the next time.
    async fn remember(&self, id: u16) -> Result<()> {
        let Some(path) = self.workers.identity_path() else {
            return Ok(());
        };
        let write = || async {
            let data = id.to_string();
            match self.client.set(&path, data.clone()).await {
                Err(error) if error.is_no_node() => {
                    self.client.create(&path, data).parents().await.map(drop)
                }
                set => set.map(drop),
            }
        };
        Ok(until_known(write).await?)
    }
}
