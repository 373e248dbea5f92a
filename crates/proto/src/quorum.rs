//! The packets between a leader and its learners. Apache: `QuorumPacket`, `Leader`'s constants.
//!
//! In: the front of a stream. Out: a packet, and bytes again. How a receiver handles a packet is not
//! known here, nor which side may send it: [`QuorumPacket::Revalidate`] from a leader decodes.
//!
//! On the wire a packet is `int type, long zxid, buffer data, vector<Id> authinfo`, one after the
//! other without a length prefix, so decoding reports when a packet is not complete yet. Here
//! each type is a variant with exactly the fields that it uses.
//!
//! As in Apache, bytes after the last field of a body are ignored, and so are ids in a packet
//! that needs none. Unlike Apache, which logs a packet of an unknown type and continues, we
//! reject it: the versions were agreed on, so it is not a newer packet but a stream that is out of sync.
//!
//! FETCH, RECORD and FETCHED are Herdsman's own ([`fetch`]), with types far from Apache's. A server sends them only as
//! the first packet of a link that it has opened for nothing else, and as the answer on such a link. Apache's leader
//! closes that link.

pub mod fetch;

use bytes::Bytes;

use crate::acl::Id;
use crate::ids::{ServerId, SessionId, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use fetch::{FetchRequest, Fetched};

/// The version that every server since 3.4 speaks.
pub const PROTOCOL_VERSION: i32 = 0x10000;
/// The end of the tree that follows a SNAP.
pub const SNAPSHOT_SIGNATURE: &str = "BenWasHere";

/// The kind of a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LearnerKind {
    /// It acknowledges proposals, and votes if the membership says so.
    Follower,
    /// It only receives committed txns.
    Observer,
}

/// The identity of a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerInfo {
    /// Its server id.
    pub server: ServerId,
    /// Its protocol version.
    pub protocol_version: i32,
    /// The version of the membership that it uses.
    pub config_version: u64,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuorumPacket {
    /// A learner introduces itself: FOLLOWERINFO, OBSERVERINFO.
    Info {
        /// Its kind.
        kind: LearnerKind,
        /// The newest epoch that it has promised to.
        accepted_epoch: u32,
        /// Its identity; absent from servers of the 3.3 era.
        info: Option<LearnerInfo>,
    },
    /// The leader names its epoch: LEADERINFO.
    LeaderInfo {
        /// The new epoch.
        epoch: u32,
        /// Its protocol version.
        protocol_version: i32,
    },
    /// The learner promises the epoch: ACKEPOCH.
    AckEpoch {
        /// The last zxid of its log.
        last_zxid: Zxid,
        /// The epoch that it followed last; `None` if it had promised this epoch before, which
        /// must not count twice.
        current_epoch: Option<u32>,
    },
    /// The learner's log is a prefix of the leader's; the missing txns follow.
    Diff {
        /// The last txn that the leader has committed.
        zxid: Zxid,
    },
    /// The learner has to cut its log first.
    Trunc {
        /// The last txn to keep.
        zxid: Zxid,
    },
    /// A whole tree follows, not as packets.
    Snap {
        /// The tree contains at least all txns up to this one.
        zxid: Zxid,
    },
    /// A txn to log.
    Proposal {
        /// Its zxid.
        zxid: Zxid,
        /// The same bytes as in the log.
        payload: Bytes,
    },
    /// A txn is agreed on.
    Commit {
        /// The txn.
        zxid: Zxid,
    },
    /// A txn is agreed on and changes the membership.
    CommitAndActivate {
        /// The txn.
        zxid: Zxid,
        /// The leader from now on.
        leader: ServerId,
    },
    /// A txn that is agreed on, for observers.
    Inform {
        /// Its zxid.
        zxid: Zxid,
        /// The same bytes as in the log.
        payload: Bytes,
    },
    /// The same, and it changes the membership.
    InformAndActivate {
        /// Its zxid.
        zxid: Zxid,
        /// The leader from now on.
        leader: ServerId,
        /// The same bytes as in the log.
        payload: Bytes,
    },
    /// The end of the txns that the learner has to catch up with.
    NewLeader {
        /// `epoch << 32`.
        zxid: Zxid,
        /// The membership that the leader saw last, as text; empty from servers of the 3.4 era.
        config: Bytes,
    },
    /// The learner may serve clients.
    UpToDate,
    /// Everything up to here is durable at the learner.
    Ack {
        /// A txn, or `epoch << 32` for NEWLEADER and UPTODATE.
        zxid: Zxid,
    },
    /// A client's write, forwarded to the leader.
    Request {
        /// The session of the client.
        session: SessionId,
        /// The client's number for it.
        cxid: i32,
        /// An op code.
        op: i32,
        /// The request's body.
        body: Bytes,
        /// The ids of the client.
        ids: Vec<Id>,
    },
    /// A learner asks whether a session is alive, and becomes its owner.
    Revalidate {
        /// The txn.
        session: SessionId,
        /// Its timeout.
        timeout_ms: i32,
    },
    /// The leader's response.
    Revalidated {
        /// The txn.
        session: SessionId,
        /// Whether it is alive.
        valid: bool,
    },
    /// Everything before the learner's oldest unanswered sync has been sent.
    Sync,
    /// A ping and its response, with the sessions whose clients the learner has heard from. Apache's
    /// ping has null for data, ours an empty buffer: a learner does not read it, but a leader of
    /// Apache fails on a response with null.
    Ping {
        /// The last proposal; echoed.
        zxid: Zxid,
        /// Sessions and their timeouts; empty from the leader.
        touched: Vec<(SessionId, i32)>,
    },
    /// A damaged server asks another member for the records that it lacks. Herdsman only.
    Fetch(FetchRequest),
    /// One of these records.
    Record {
        /// The txn's zxid.
        zxid: Zxid,
        /// The same bytes as in the log.
        payload: Bytes,
    },
    /// The end of the records, and the state of the server that has sent them.
    Fetched(Fetched),
}

mod kind {
    pub const REQUEST: i32 = 1;
    pub const PROPOSAL: i32 = 2;
    pub const ACK: i32 = 3;
    pub const COMMIT: i32 = 4;
    pub const PING: i32 = 5;
    pub const REVALIDATE: i32 = 6;
    pub const SYNC: i32 = 7;
    pub const INFORM: i32 = 8;
    pub const COMMIT_AND_ACTIVATE: i32 = 9;
    pub const NEW_LEADER: i32 = 10;
    pub const FOLLOWER_INFO: i32 = 11;
    pub const UP_TO_DATE: i32 = 12;
    pub const DIFF: i32 = 13;
    pub const TRUNC: i32 = 14;
    pub const SNAP: i32 = 15;
    pub const OBSERVER_INFO: i32 = 16;
    pub const LEADER_INFO: i32 = 17;
    pub const ACK_EPOCH: i32 = 18;
    pub const INFORM_AND_ACTIVATE: i32 = 19;
    pub const FETCH: i32 = 0x4853_0001;
    pub const RECORD: i32 = 0x4853_0002;
    pub const FETCHED: i32 = 0x4853_0003;
}

const REVALIDATE_BYTES: usize = 12;
/// Type, zxid, and the counts of the data's bytes and of the ids.
const HEAD_BYTES: usize = 4 + 8 + 4 + 4;
/// An id: the lengths of its two texts.
const ID_BYTES_MIN: usize = 4 + 4;
/// The protocol version of a learner that does not send it.
const VERSION_UNSAID: i32 = 1;
const NO_ZXID: Zxid = Zxid(-1);
/// The start of epoch -1.
const NO_EPOCH: Zxid = Zxid(-1 << 32);

impl QuorumPacket {
    /// The longest packet that a reader with this limit accepts.
    #[must_use]
    pub fn bytes_max(field_bytes_max: usize) -> usize {
        HEAD_BYTES + 2 * field_bytes_max
    }

    /// Reads the packet at the front and advances the reader; in case of an error the reader
    /// does not move.
    ///
    /// The reader's limit ([`JuteReader::with_limit`]) bounds the data, and the ids as a whole. All
    /// lengths are compared with it as soon as they are read, so a packet is incomplete only if it can
    /// still become valid: a buffer for a stream needs at most [`QuorumPacket::bytes_max`].
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the packet is not complete yet: it lacks at least as many bytes as `wanted` is
    /// above `available`, so try again when these are there. Anything else is final, [`DecodeError::Length`] in
    /// particular if it is too long.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        let mut ahead = *reader;
        let kind = ahead.int()?;
        if !is_kind(kind) {
            // Checked at once: the rest of something that is not a packet may never arrive.
            return Err(DecodeError::Undefined { what: "quorum packet", value: kind });
        }
        let zxid = Zxid(ahead.long()?);
        let data = ahead.buffer()?;
        let ids = decode_ids(&mut ahead)?;
        // From here on all bytes are there: what is too short now is malformed, not incomplete.
        let packet = Self::from_parts(kind, zxid, data, ids).map_err(|error| match error {
            DecodeError::Truncated { .. } => {
                DecodeError::Undefined { what: "body of quorum packet", value: kind }
            }
            other => other,
        })?;
        *reader = ahead;
        Ok(packet)
    }

    fn from_parts(kind: i32, zxid: Zxid, data: Option<&[u8]>, ids: Vec<Id>) -> Result<Self> {
        let payload = || data.map(Bytes::copy_from_slice).ok_or(DecodeError::Null);
        let txn = || check_zxid(zxid);
        let mut body = JuteReader::new(data.unwrap_or_default());
        Ok(match kind {
            kind::FOLLOWER_INFO => Self::decode_info(LearnerKind::Follower, zxid, data)?,
            kind::OBSERVER_INFO => Self::decode_info(LearnerKind::Observer, zxid, data)?,
            kind::LEADER_INFO => {
                QuorumPacket::LeaderInfo { epoch: txn()?.epoch(), protocol_version: body.int()? }
            }
            kind::ACK_EPOCH => {
                QuorumPacket::AckEpoch { last_zxid: zxid, current_epoch: decode_epoch(body)? }
            }
            kind::DIFF => QuorumPacket::Diff { zxid: txn()? },
            kind::TRUNC => QuorumPacket::Trunc { zxid: txn()? },
            kind::SNAP => QuorumPacket::Snap { zxid: txn()? },
            kind::PROPOSAL => QuorumPacket::Proposal { zxid: txn()?, payload: payload()? },
            kind::COMMIT => QuorumPacket::Commit { zxid: txn()? },
            kind::COMMIT_AND_ACTIVATE => {
                QuorumPacket::CommitAndActivate { zxid: txn()?, leader: ServerId(body.long()?) }
            }
            kind::INFORM => QuorumPacket::Inform { zxid: txn()?, payload: payload()? },
            kind::INFORM_AND_ACTIVATE => QuorumPacket::InformAndActivate {
                zxid: txn()?,
                leader: ServerId(body.long()?),
                payload: Bytes::copy_from_slice(body.rest()),
            },
            kind::NEW_LEADER => {
                let config = Bytes::copy_from_slice(data.unwrap_or_default());
                QuorumPacket::NewLeader { zxid: txn()?, config }
            }
            kind::UP_TO_DATE => QuorumPacket::UpToDate,
            kind::ACK => QuorumPacket::Ack { zxid: txn()? },
            kind::REQUEST => QuorumPacket::Request {
                session: SessionId(body.long()?),
                cxid: body.int()?,
                op: body.int()?,
                body: Bytes::copy_from_slice(body.rest()),
                ids,
            },
            kind::REVALIDATE => Self::decode_revalidate(body)?,
            kind::SYNC => QuorumPacket::Sync,
            kind::PING => QuorumPacket::Ping { zxid, touched: decode_touched(body)? },
            kind::FETCH => QuorumPacket::Fetch(FetchRequest::decode(txn()?, body)?),
            kind::RECORD => QuorumPacket::Record { zxid: txn()?, payload: payload()? },
            kind::FETCHED => QuorumPacket::Fetched(Fetched::decode(txn()?, body)?),
            value => return Err(DecodeError::Undefined { what: "quorum packet", value }),
        })
    }

    fn decode_info(kind: LearnerKind, zxid: Zxid, data: Option<&[u8]>) -> Result<Self> {
        let info = data.map(LearnerInfo::decode).transpose()?;
        // Apache's epoch of a server that has no data and `db.autocreate=false`: it has promised nothing.
        let zxid = if zxid == NO_EPOCH { Zxid::ZERO } else { check_zxid(zxid)? };
        Ok(QuorumPacket::Info { kind, accepted_epoch: zxid.epoch(), info })
    }

    /// The request has an int after the session, the response a single byte.
    fn decode_revalidate(mut body: JuteReader<'_>) -> Result<Self> {
        let is_question = body.rest().len() >= REVALIDATE_BYTES;
        let session = SessionId(body.long()?);
        Ok(if is_question {
            QuorumPacket::Revalidate { session, timeout_ms: body.int()? }
        } else {
            QuorumPacket::Revalidated { session, valid: body.bool()? }
        })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, zxid) = self.kind_and_zxid();
        out.put_int(kind);
        out.put_long(zxid.0);
        match self {
            QuorumPacket::Proposal { payload, .. }
            | QuorumPacket::Inform { payload, .. }
            | QuorumPacket::Record { payload, .. } => out.put_buffer(Some(payload)),
            QuorumPacket::NewLeader { config, .. } => out.put_buffer(Some(config)),
            QuorumPacket::Info { info: None, .. }
            | QuorumPacket::Diff { .. }
            | QuorumPacket::Trunc { .. }
            | QuorumPacket::Snap { .. }
            | QuorumPacket::Commit { .. }
            | QuorumPacket::UpToDate
            | QuorumPacket::Ack { .. }
            | QuorumPacket::Sync => out.put_buffer(None),
            other => put_sized(out, |out| other.encode_body(out)),
        }
        match self {
            QuorumPacket::Request { ids, .. } => out.put_vector(ids, |out, id| id.encode(out)),
            _ => out.put_int(-1),
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            QuorumPacket::Info { info: Some(info), .. } => info.encode(out),
            QuorumPacket::LeaderInfo { protocol_version, .. } => out.put_int(*protocol_version),
            QuorumPacket::AckEpoch { current_epoch, .. } => {
                out.put_int(current_epoch.map_or(-1, |epoch| epoch as i32));
            }
            QuorumPacket::CommitAndActivate { leader, .. } => out.put_long(leader.0),
            QuorumPacket::InformAndActivate { leader, payload, .. } => {
                out.put_long(leader.0);
                out.extend_from_slice(payload);
            }
            QuorumPacket::Request { session, cxid, op, body, .. } => {
                out.put_long(session.0);
                out.put_int(*cxid);
                out.put_int(*op);
                out.extend_from_slice(body);
            }
            QuorumPacket::Revalidate { session, timeout_ms } => {
                out.put_long(session.0);
                out.put_int(*timeout_ms);
            }
            QuorumPacket::Revalidated { session, valid } => {
                out.put_long(session.0);
                out.put_bool(*valid);
            }
            QuorumPacket::Ping { touched, .. } => {
                for (session, timeout_ms) in touched {
                    out.put_long(session.0);
                    out.put_int(*timeout_ms);
                }
            }
            QuorumPacket::Fetch(request) => request.encode(out),
            QuorumPacket::Fetched(fetched) => fetched.encode(out),
            _ => unreachable!("has no body of its own"),
        }
    }

    fn kind_and_zxid(&self) -> (i32, Zxid) {
        match self {
            QuorumPacket::Info { kind, accepted_epoch, .. } => {
                let kind = match kind {
                    LearnerKind::Follower => kind::FOLLOWER_INFO,
                    LearnerKind::Observer => kind::OBSERVER_INFO,
                };
                (kind, Zxid::start_of(*accepted_epoch))
            }
            QuorumPacket::LeaderInfo { epoch, .. } => (kind::LEADER_INFO, Zxid::start_of(*epoch)),
            QuorumPacket::AckEpoch { last_zxid, .. } => (kind::ACK_EPOCH, *last_zxid),
            QuorumPacket::Diff { zxid } => (kind::DIFF, *zxid),
            QuorumPacket::Trunc { zxid } => (kind::TRUNC, *zxid),
            QuorumPacket::Snap { zxid } => (kind::SNAP, *zxid),
            QuorumPacket::Proposal { zxid, .. } => (kind::PROPOSAL, *zxid),
            QuorumPacket::Commit { zxid } => (kind::COMMIT, *zxid),
            QuorumPacket::CommitAndActivate { zxid, .. } => (kind::COMMIT_AND_ACTIVATE, *zxid),
            QuorumPacket::Inform { zxid, .. } => (kind::INFORM, *zxid),
            QuorumPacket::InformAndActivate { zxid, .. } => (kind::INFORM_AND_ACTIVATE, *zxid),
            QuorumPacket::NewLeader { zxid, .. } => (kind::NEW_LEADER, *zxid),
            QuorumPacket::UpToDate => (kind::UP_TO_DATE, NO_ZXID),
            QuorumPacket::Ack { zxid } => (kind::ACK, *zxid),
            QuorumPacket::Request { .. } => (kind::REQUEST, NO_ZXID),
            QuorumPacket::Revalidate { .. } | QuorumPacket::Revalidated { .. } => {
                (kind::REVALIDATE, NO_ZXID)
            }
            QuorumPacket::Sync => (kind::SYNC, Zxid::ZERO),
            QuorumPacket::Ping { zxid, .. } => (kind::PING, *zxid),
            QuorumPacket::Fetch(request) => (kind::FETCH, request.after),
            QuorumPacket::Record { zxid, .. } => (kind::RECORD, *zxid),
            QuorumPacket::Fetched(fetched) => (kind::FETCHED, fetched.last_zxid),
        }
    }
}

impl LearnerInfo {
    /// Early versions sent only the first part. Apache continues without an id if there is not even
    /// that; we reject it.
    fn decode(data: &[u8]) -> Result<Self> {
        let mut body = JuteReader::new(data);
        let server = ServerId(body.long()?);
        let protocol_version = if body.rest().len() >= 4 { body.int()? } else { VERSION_UNSAID };
        // Java compares signed numbers, so a negative one is older than any.
        let config_version = if body.rest().len() >= 8 { body.long()? } else { 0 };
        let config_version = u64::try_from(config_version).unwrap_or(0);
        Ok(LearnerInfo { server, protocol_version, config_version })
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.put_long(self.server.0);
        out.put_int(self.protocol_version);
        out.put_long(self.config_version as i64);
    }
}

/// Whether packets of this type exist.
fn is_kind(kind: i32) -> bool {
    let is_apaches = (kind::REQUEST..=kind::INFORM_AND_ACTIVATE).contains(&kind);
    is_apaches || (kind::FETCH..=kind::FETCHED).contains(&kind)
}

/// The ids at the end of a packet, which together may be as long as a single field. They are the only
/// part without a length prefix, so without this bound they could continue forever. Each has a minimum length, so it is
/// known how many bytes the last ones need at least, before they are received.
fn decode_ids(reader: &mut JuteReader<'_>) -> Result<Vec<Id>> {
    let bytes_max = reader.field_bytes_max().saturating_add(size_of::<i32>());
    let mut window = reader.window(bytes_max);
    let available_bytes = window.rest().len();
    let count = usize::try_from(window.int()?).unwrap_or(0);
    let mut ids = Vec::new();
    for index in 0..count {
        let id = Id::decode(&mut window).map_err(|error| match error {
            DecodeError::Truncated { wanted, available } => {
                let wanted =
                    wanted.saturating_add((count - index - 1).saturating_mul(ID_BYTES_MIN));
                let decoded_bytes = available_bytes - available;
                if decoded_bytes.saturating_add(wanted) > bytes_max {
                    DecodeError::Length(i32::try_from(bytes_max).unwrap_or(i32::MAX))
                } else {
                    DecodeError::Truncated { wanted, available }
                }
            }
            other => other,
        })?;
        ids.push(id);
    }
    reader.skip(available_bytes - window.rest().len())?;
    Ok(ids)
}

/// The zxid of a txn, or of the start of an epoch: neither is negative.
fn check_zxid(zxid: Zxid) -> Result<Zxid> {
    if zxid.0 < 0 {
        return Err(DecodeError::Undefined { what: "epoch", value: (zxid.0 >> 32) as i32 });
    }
    Ok(zxid)
}

/// -1 means that the epoch had been promised before.
fn decode_epoch(mut body: JuteReader<'_>) -> Result<Option<u32>> {
    match body.int()? {
        -1 => Ok(None),
        epoch => match u32::try_from(epoch) {
            Ok(epoch) => Ok(Some(epoch)),
            Err(_) => Err(DecodeError::Undefined { what: "epoch", value: epoch }),
        },
    }
}

fn decode_touched(mut body: JuteReader<'_>) -> Result<Vec<(SessionId, i32)>> {
    let mut touched = Vec::new();
    while !body.is_empty() {
        touched.push((SessionId(body.long()?), body.int()?));
    }
    Ok(touched)
}

/// A buffer whose length is known only once it is written.
fn put_sized(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_int(0);
    fill(out);
    let length = i32::try_from(out.len() - start - 4).expect("no body we make has 2^31 bytes");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
