//! How a damaged server gets single records from other members: FETCH, RECORD, FETCHED.
//!
//! A server whose log is damaged opens a link to another member's port for learners and sends FETCH with the range of
//! txns that it lacks. The other member answers with a RECORD for each valid record of its own files in that range, in
//! order, and FETCHED. More FETCH packets may follow on the same link. The other member does so in every role and
//! without one, so two damaged servers can repair each other.
//!
//! A zxid names one txn only, so every valid record with that zxid is the record, whoever has it. What a range contains
//! is a different question where an epoch ends in it, since nobody knows how many txns that epoch has: only a chain
//! without a gap, from a server that has both ends of the range, proves that nothing is missing ([`Chain`]).

use crate::ids::{ServerId, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};

/// The most damaged ranges in one [`Fetched`].
pub const DAMAGED_RANGES_MAX: usize = 1024;
/// The end of a range that reaches to the end of the log.
pub const TO_THE_END: Zxid = Zxid(i64::MAX);

/// What a server asks for: the records after `after` and before `before`. If there can be none, only [`Fetched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// The server that asks.
    pub from: ServerId,
    /// The txn before the first one.
    pub after: Zxid,
    /// The txn behind the last one; [`TO_THE_END`] if there is none.
    pub before: Zxid,
}

/// What is known about the records that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Some are missing, or may be.
    Broken,
    /// They are all that exist between the two ends of the range, which this server has as well.
    Unbroken,
    /// Nothing was read: this server serves too many others at the moment.
    Busy,
}

/// What the server that answers does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It looks for a leader, or is about to join one.
    Looking,
    /// It is damaged and repairs itself before it takes part in anything.
    Repairing,
    /// It may not vote before a leader has brought it up to date, and none has.
    Suspended,
    /// It is up to date with a leader that has a quorum.
    FollowingQuorum,
    /// It leads and has a quorum.
    LeadingQuorum,
}

/// The end of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The last txn that this server has.
    pub last_zxid: Zxid,
    /// What the records before this packet prove.
    pub chain: Chain,
    /// The state of this server.
    pub state: MemberState,
    /// Ranges of txns that are damaged here: after, before. No more than [`DAMAGED_RANGES_MAX`].
    pub damaged: Vec<(Zxid, Zxid)>,
}

impl FetchRequest {
    pub(super) fn decode(after: Zxid, mut body: JuteReader<'_>) -> Result<Self> {
        let from = ServerId(body.long()?);
        let before = super::check_zxid(Zxid(body.long()?))?;
        Ok(FetchRequest { from, after, before })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.put_long(self.from.0);
        out.put_long(self.before.0);
    }
}

impl Fetched {
    pub(super) fn decode(last_zxid: Zxid, mut body: JuteReader<'_>) -> Result<Self> {
        let chain = Chain::from_code(body.int()?)?;
        let state = MemberState::from_code(body.int()?)?;
        let count = body.int()?;
        if !usize::try_from(count).is_ok_and(|count| count <= DAMAGED_RANGES_MAX) {
            return Err(DecodeError::Length(count));
        }
        let mut damaged = Vec::new();
        for _ in 0..count {
            let after = super::check_zxid(Zxid(body.long()?))?;
            damaged.push((after, super::check_zxid(Zxid(body.long()?))?));
        }
        Ok(Fetched { last_zxid, chain, state, damaged })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let damaged = &self.damaged[..self.damaged.len().min(DAMAGED_RANGES_MAX)];
        out.put_int(self.chain.code());
        out.put_int(self.state.code());
        out.put_int(i32::try_from(damaged.len()).expect("at most DAMAGED_RANGES_MAX"));
        for (after, before) in damaged {
            out.put_long(after.0);
            out.put_long(before.0);
        }
    }
}

impl Chain {
    fn code(self) -> i32 {
        match self {
            Chain::Broken => 0,
            Chain::Unbroken => 1,
            Chain::Busy => 2,
        }
    }

    fn from_code(code: i32) -> Result<Self> {
        let all = [Chain::Broken, Chain::Unbroken, Chain::Busy];
        let found = all.into_iter().find(|chain| chain.code() == code);
        found.ok_or(DecodeError::Undefined { what: "chain of fetched records", value: code })
    }
}

impl MemberState {
    fn code(self) -> i32 {
        match self {
            MemberState::Looking => 0,
            MemberState::Repairing => 1,
            MemberState::Suspended => 2,
            MemberState::FollowingQuorum => 3,
            MemberState::LeadingQuorum => 4,
        }
    }

    fn from_code(code: i32) -> Result<Self> {
        let all = [
            MemberState::Looking,
            MemberState::Repairing,
            MemberState::Suspended,
            MemberState::FollowingQuorum,
            MemberState::LeadingQuorum,
        ];
        let found = all.into_iter().find(|state| state.code() == code);
        found.ok_or(DecodeError::Undefined { what: "state of a member", value: code })
    }

    /// Whether there is a leader with a quorum.
    #[must_use]
    pub fn has_quorum(self) -> bool {
        matches!(self, MemberState::FollowingQuorum | MemberState::LeadingQuorum)
    }
}

impl std::fmt::Display for MemberState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MemberState::Looking => "looking for a leader",
            MemberState::Repairing => "repairing itself",
            MemberState::Suspended => "not allowed to vote",
            MemberState::FollowingQuorum => "following a leader",
            MemberState::LeadingQuorum => "leading",
        })
    }
}
