//! The epoch node: a number that grows by one with each leader, and a record of the last leader.
//!
//! In: the node of a leader that was just elected. Out: its epoch, and its predecessor. The epoch node is written in
//! one transaction with a check that the leader still leads, so a deposed leader cannot raise the number, and a lost
//! reply cannot raise it twice.
//!
//! Layout (ours; Curator and kazoo have none): a persistent node with JSON,
//! `{"epoch":7,"leader":"host-1","holder":"_c_…-lock-0000000012","resigned":false}`. `holder` is unique to a term.
//! Modelled on Kafka's controller epoch and on the breadcrumb of HDFS's ZKFC.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Lifetime, Op, Optional, Outcome, Stat};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::owned_node::{End, Incarnation, LastData};
use crate::retrying::retrying;

/// The leader before the current one, as the epoch node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Predecessor {
    /// The id of the candidate.
    pub id: String,
    /// Its epoch.
    pub epoch: u64,
    /// How its term ended.
    pub ending: Ending,
}

/// How a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its leader resigned, and so has finished its work as leader.
    Resigned,
    /// It is not known. The former leader may still be running and believe that it leads: before you continue, fence
    /// it off from everything that does not check tokens.
    Unknown,
}

/// The data of the epoch node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) epoch: u64,
    pub(super) leader: String,
    pub(super) holder: String,
    #[serde(default)]
    pub(super) resigned: bool,
}

impl Record {
    fn predecessor(&self) -> Predecessor {
        let ending = if self.resigned { Ending::Resigned } else { Ending::Unknown };
        Predecessor { id: self.leader.clone(), epoch: self.epoch, ending }
    }

    fn encode(&self) -> Bytes {
        // A struct of text and numbers can always be encoded as JSON.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The result of reading the epoch node.
pub(super) type StoredRecord = Option<(Record, Stat)>;

/// The epoch node.
#[derive(Clone, Debug)]
pub(super) struct EpochNode {
    pub(super) path: String,
}

/// One term, as recorded in the epoch node.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) epoch_node: EpochNode,
    pub(super) record: Record,
    /// The data version that this entry's write has created.
    pub(super) version: i32,
    pub(super) predecessor: Option<Predecessor>,
}

impl EpochNode {
    pub(super) async fn read(&self, client: &Client) -> Result<StoredRecord> {
        let Some(node) = client.get(&self.path).await.optional()? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&node.data).map_err(|error| Error::Codec {
            path: self.path.clone(),
            reason: format!("it is not the record of an epoch: {error}"),
        })?;
        Ok(Some((record, node.stat)))
    }

    /// Returns the write that begins the term after `stored`, and the entry if it succeeds.
    pub(super) fn next(&self, stored: &StoredRecord, holder: &str, leader: &str) -> (Op, Entry) {
        let last = stored.as_ref();
        let record = Record {
            epoch: last.map_or(0, |(record, _)| record.epoch) + 1,
            leader: leader.to_owned(),
            holder: holder.to_owned(),
            resigned: false,
        };
        let (op, version) = match last {
            None => (Op::create(&self.path, record.encode()), 0),
            Some((_, stat)) => {
                let set = Op::set(&self.path, record.encode()).version(stat.version);
                (set, stat.version.wrapping_add(1))
            }
        };
        let predecessor = last.map(|(record, _)| record.predecessor());
        (op, Entry { epoch_node: self.clone(), record, version, predecessor })
    }

    /// Begins the term of a node that is first in its line. [`Error::Lost`] if it is no longer first.
    pub(super) async fn open_term(&self, hold: &Hold, leader: &str) -> Result<Entry> {
        let client = retrying(hold.client());
        let mut attempted: Option<Entry> = None;
        loop {
            let stored = self.read(&client).await?;
            if let (Some((record, _)), Some(entry)) = (&stored, &attempted)
                && *record == entry.record
            {
                return Ok(entry.clone());
            }
            let (op, entry) = self.next(&stored, hold.name(), leader);
            match client.transaction([Op::check(hold.path()), op]).await {
                Ok(_) => return Ok(entry),
                Err(error) if error.failed_op() == Some(0) => return Err(Error::Lost),
                Err(error) => self.recover(&client, error).await?,
            }
            attempted = Some(entry);
        }
    }

    /// Makes sure that reading the epoch node again is worthwhile after a failed transaction: the outcome is unknown,
    /// another client wrote first, or the parent is missing.
    pub(super) async fn recover(
        &self,
        client: &Client,
        error: herdsman_client::Error,
    ) -> Result<()> {
        match error.kind() {
            ErrorKind::NodeExists | ErrorKind::BadVersion => {}
            ErrorKind::NoNode => client.ensure(self.parent(), Lifetime::Persistent).await?,
            _ if error.outcome() == Outcome::Unknown => {}
            _ => return Err(error.into()),
        }
        // The next read may be at another server, which must know what this one knew.
        Ok(client.sync(&self.path).await?)
    }

    fn parent(&self) -> &str {
        match self.path.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => parent,
            _ => "/",
        }
    }
}

impl Entry {
    /// Returns what distinguishes this leader from others at the same path. The end of the term is always written to
    /// the epoch node, so that writes fenced by its version fail from then on.
    pub(super) fn incarnation(&self) -> Incarnation {
        let record = self.record.clone();
        let last_data = LastData::new(move |end| {
            Record { resigned: end == End::Released, ..record.clone() }.encode()
        });
        Incarnation {
            guard: self.epoch_node.path.clone(),
            version: Arc::new(self.version.into()),
            marker: None,
            last_data: Some(last_data),
            may_be_bypassed: false,
        }
    }
}
