//! The learners of a leader, as operators see them: their ids, and how
//! they catch up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use herdsman_proto::{LearnerKind, Membership, QuorumPacket, ServerId, Zxid};
use herdsman_zab::LinkId;
use herdsman_zab::io::CloseReason;
use tracing::Level;

use super::Line;
use super::wording::{self, close_reason_in_words, duration};
use crate::operators::stats::EnsembleStats;
use herdsman_runtime::LineLimit;

/// Lines per minute for each unlisted server, because any host can connect and claim
/// to be any server. Further lines are logged at level `debug`.
const UNLISTED_KINDS_MAX: usize = 64;

/// What a line about a learner is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LineKind {
    /// It has promised a later epoch.
    Newer,
    /// It has connected again.
    Again,
    /// It uses another link.
    Already,
    /// It has sent what was not expected.
    Packet,
    /// It is rejected.
    Away,
    /// It receives the whole tree.
    Tree,
    /// It is up to date.
    UpToDate,
    /// It no longer follows.
    Lost,
}

impl LineKind {
    /// Persistent problems are logged once a minute; a learner may reconnect a few times.
    fn lines_per_minute(self) -> u32 {
        match self {
            LineKind::Newer
            | LineKind::Again
            | LineKind::Already
            | LineKind::Packet
            | LineKind::Away => 1,
            LineKind::Tree | LineKind::UpToDate | LineKind::Lost => 10,
        }
    }
}

/// How a learner is brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Diff,
    Log { after: Zxid },
    Trunc { to: Zxid },
    Snap { zxid: Zxid },
}

#[derive(Debug)]
struct Learner {
    server: ServerId,
    kind: LearnerKind,
    since_ms: u64,
    /// Its epoch and its last txn, as it has reported them.
    said: Option<(Option<u32>, Zxid)>,
    /// How it is brought up to date, with how many txns so far; `None` before and afterwards.
    catching_up: Option<(Plan, usize)>,
    is_up_to_date: bool,
}

impl Learner {
    fn follows(&self) -> bool {
        self.is_up_to_date && self.kind == LearnerKind::Follower
    }
}

/// Learners that have introduced themselves on an open link.
#[derive(Debug, Default)]
pub(super) struct Learners {
    known: BTreeMap<LinkId, Learner>,
    /// The number of those that are catching up.
    catching_up: usize,
    /// The listed servers.
    members: BTreeSet<ServerId>,
    /// The lines logged in the last minute.
    logged: BTreeMap<(ServerId, LineKind), LineLimit>,
}

impl Learners {
    /// Applies a new membership.
    pub fn set_members(&mut self, membership: &Membership) {
        self.members = membership.members.keys().copied().collect();
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn introduced(&mut self, now_ms: u64, link: LinkId, server: ServerId, kind: LearnerKind) {
        let learner = Learner {
            server,
            kind,
            since_ms: now_ms,
            said: None,
            catching_up: None,
            is_up_to_date: false,
        };
        self.known.insert(link, learner);
    }

    pub fn promised(&mut self, link: LinkId, epoch: Option<u32>, last: Zxid) {
        if let Some(learner) = self.known.get_mut(&link) {
            learner.said = Some((epoch, last));
        }
    }

    pub fn lost(&mut self, link: LinkId) {
        self.remove(link);
    }

    /// The follower at the other end of a link, if it is synchronized.
    pub fn follower(&self, link: LinkId) -> Option<ServerId> {
        self.known.get(&link).filter(|learner| learner.follows()).map(|learner| learner.server)
    }

    /// All synchronized followers; one that has just reconnected may be there twice.
    pub fn followers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.known.values().filter(|learner| learner.follows()).map(|learner| learner.server)
    }

    fn remove(&mut self, link: LinkId) -> Option<Learner> {
        let learner = self.known.remove(&link)?;
        self.catching_up -= usize::from(learner.catching_up.is_some());
        Some(learner)
    }

    /// The line, at level `debug` if its kind has reached its limit.
    pub fn limited(&mut self, now_ms: u64, server: ServerId, kind: LineKind, line: Line) -> Line {
        let Line { level, mut text } = line;
        let level = match self.admit(Duration::from_millis(now_ms), (server, kind)) {
            None => Level::DEBUG,
            Some(left_out) => {
                if left_out > 0 {
                    text.push_str(&format!(" ({left_out} similar messages suppressed)"));
                }
                level
            }
        };
        Line::new(level, text)
    }

    fn admit(&mut self, now: Duration, kind: (ServerId, LineKind)) -> Option<u64> {
        if let Some(lines) = self.logged.get_mut(&kind) {
            return lines.admit(now);
        }
        if !self.members.contains(&kind.0) {
            self.logged.retain(|_, lines| !lines.is_over(now));
            let unlisted = self.logged.keys().filter(|(server, _)| !self.members.contains(server));
            if unlisted.count() >= UNLISTED_KINDS_MAX {
                return None;
            }
        }
        let lines = LineLimit::per_minute(kind.1.lines_per_minute());
        self.logged.entry(kind).or_insert(lines).admit(now)
    }

    /// Records a packet to a learner.
    pub fn sent(
        &mut self,
        now_ms: u64,
        link: LinkId,
        packet: &QuorumPacket,
        stats: &EnsembleStats,
    ) -> Option<Line> {
        match packet {
            QuorumPacket::Proposal { .. } if self.catching_up == 0 => None,
            QuorumPacket::Proposal { .. } => {
                if let Some((_, txns)) =
                    self.known.get_mut(&link).and_then(|learner| learner.catching_up.as_mut())
                {
                    *txns += 1;
                }
                None
            }
            QuorumPacket::Diff { .. } => {
                stats.diffs.add(1);
                self.plan(link, Plan::Diff);
                None
            }
            QuorumPacket::Trunc { zxid } => {
                stats.diffs.add(1);
                self.plan(link, Plan::Trunc { to: *zxid });
                None
            }
            QuorumPacket::UpToDate => self.up_to_date(now_ms, link),
            QuorumPacket::Revalidated { .. } => {
                stats.revalidations.add(1);
                None
            }
            _ => None,
        }
    }

    fn plan(&mut self, link: LinkId, plan: Plan) {
        if let Some(learner) = self.known.get_mut(&link)
            && learner.catching_up.replace((plan, 0)).is_none()
        {
            self.catching_up += 1;
        }
    }

    /// Records that the log is sent to a learner, if it reaches back far enough.
    pub fn sends_log(&mut self, link: LinkId, after: Zxid) {
        self.plan(link, Plan::Log { after });
    }

    /// Records that a whole tree is sent to a learner, which may take a while.
    pub fn sent_tree(
        &mut self,
        now_ms: u64,
        link: LinkId,
        zxid: Zxid,
        stats: &EnsembleStats,
    ) -> Option<Line> {
        stats.snapshots.add(1);
        self.plan(link, Plan::Snap { zxid });
        let learner = self.known.get(&link)?;
        let last = learner.said.map_or(Zxid::ZERO, |(_, last)| last);
        let text = format!(
            "sending a snapshot to server {}: the log after {last} is incomplete, or too long (snapshotSizeFactor)",
            learner.server
        );
        let (server, line) = (learner.server, Line::new(Level::INFO, text));
        Some(self.limited(now_ms, server, LineKind::Tree, line))
    }

    fn up_to_date(&mut self, now_ms: u64, link: LinkId) -> Option<Line> {
        let learner = self.known.get_mut(&link)?;
        learner.is_up_to_date = true;
        let (plan, txns) = learner.catching_up.take()?;
        self.catching_up -= 1;
        let lacks_nothing = txns == 0;
        let txns = wording::txns(txns);
        let how = match plan {
            Plan::Diff if lacks_nothing => "already up to date (DIFF)".to_owned(),
            Plan::Diff => format!("received {txns} (DIFF)"),
            Plan::Log { after } => {
                format!(
                    "received the log after {after} from log files and {txns} from memory (DIFF)"
                )
            }
            Plan::Trunc { to } => {
                format!("truncated its log after {to} and received {txns} (TRUNC)")
            }
            Plan::Snap { zxid } => format!("received a snapshot at {zxid} and {txns} (SNAP)"),
        };
        let follows = match learner.kind {
            LearnerKind::Follower => "follows",
            LearnerKind::Observer => "observes",
        };
        let (server, took) = (learner.server, duration(now_ms.saturating_sub(learner.since_ms)));
        let text = format!("server {server} {follows} after {took}: {how}");
        let line = Line::new(Level::INFO, text);
        Some(self.limited(now_ms, server, LineKind::UpToDate, line))
    }

    /// Records that this server has closed a link.
    pub fn closed(
        &mut self,
        now_ms: u64,
        link: LinkId,
        reason: CloseReason,
        me: ServerId,
    ) -> Option<Line> {
        let why = close_reason_in_words(reason);
        let Some(learner) = self.remove(link) else {
            return Some(Line::new(Level::DEBUG, format!("closing link {}: {why}", link.0)));
        };
        let server = learner.server;
        let text = match reason {
            // The role change has its own line, for all of them.
            CloseReason::NotLeading | CloseReason::NotFollowing => {
                let text = format!("rejecting server {server}: {why}");
                return Some(Line::new(Level::DEBUG, text));
            }
            CloseReason::UnexpectedPacket if server == me => format!(
                "another process claims to be server {me}, which is this server: give each server its \
                 own number in its file myid"
            ),
            CloseReason::Replaced => format!(
                "server {server} has reconnected, so its older link is closed; if this keeps \
                 happening, two servers have the number {server} in their files myid"
            ),
            CloseReason::AlreadyConnected => format!(
                "another process claims to be server {server}, which is already connected: give each server its \
                 own number in its file myid"
            ),
            CloseReason::AheadOfLeader => match learner.said {
                Some((Some(epoch), last)) => {
                    format!(
                        "rejecting server {server}: {why} (its last txn is {last} of epoch {epoch})"
                    )
                }
                _ => format!("rejecting server {server}: {why}"),
            },
            _ => format!("rejecting server {server}: {why}"),
        };
        let kind = match reason {
            CloseReason::Replaced => LineKind::Again,
            CloseReason::AlreadyConnected => LineKind::Already,
            CloseReason::UnexpectedPacket => LineKind::Packet,
            _ => LineKind::Away,
        };
        Some(self.limited(now_ms, server, kind, Line::new(Level::WARN, text)))
    }
}
