//! The learners of a leader, as far as they are of interest to an operator: who they are, and how
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

/// Kinds of lines, counted for each server that is not listed, that are told in a minute: anybody can connect and claim
/// to be a server of any number. The rest is for the level `debug`.
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
    /// It is sent away.
    Away,
    /// It is sent the whole tree.
    Tree,
    /// It is up to date.
    UpToDate,
    /// It does not follow any more.
    Lost,
}

impl LineKind {
    /// What goes on being wrong is told once a minute; a learner may come and go some times.
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
    /// Its epoch and its last txn, as it said itself.
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

/// Everybody who has introduced himself on a link that stands. The network limits the links.
#[derive(Debug, Default)]
pub(super) struct Learners {
    known: BTreeMap<LinkId, Learner>,
    /// How many of them catch up.
    catching_up: usize,
    /// Those that are listed.
    members: BTreeSet<ServerId>,
    /// What was told in the last minute.
    told: BTreeMap<(ServerId, LineKind), LineLimit>,
}

impl Learners {
    /// The membership has changed.
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

    /// The follower at the other end of a link, if it is up to date.
    pub fn follower(&self, link: LinkId) -> Option<ServerId> {
        self.known.get(&link).filter(|learner| learner.follows()).map(|learner| learner.server)
    }

    /// All followers that are up to date; one that has just connected again may be there twice.
    pub fn followers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.known.values().filter(|learner| learner.follows()).map(|learner| learner.server)
    }

    fn remove(&mut self, link: LinkId) -> Option<Learner> {
        let learner = self.known.remove(&link)?;
        self.catching_up -= usize::from(learner.catching_up.is_some());
        Some(learner)
    }

    /// The line as it may be told: for the level `debug` if there were enough of its kind.
    pub fn limited(&mut self, now_ms: u64, server: ServerId, kind: LineKind, line: Line) -> Line {
        let Line { level, mut text } = line;
        let level = match self.admit(Duration::from_millis(now_ms), (server, kind)) {
            None => Level::DEBUG,
            Some(left_out) => {
                if left_out > 0 {
                    text.push_str(&format!(" ({left_out} similar lines suppressed)"));
                }
                level
            }
        };
        Line::new(level, text)
    }

    fn admit(&mut self, now: Duration, kind: (ServerId, LineKind)) -> Option<u64> {
        if let Some(lines) = self.told.get_mut(&kind) {
            return lines.admit(now);
        }
        if !self.members.contains(&kind.0) {
            self.told.retain(|_, lines| !lines.is_over(now));
            let unlisted = self.told.keys().filter(|(server, _)| !self.members.contains(server));
            if unlisted.count() >= UNLISTED_KINDS_MAX {
                return None;
            }
        }
        let lines = LineLimit::per_minute(kind.1.lines_per_minute());
        self.told.entry(kind).or_insert(lines).admit(now)
    }

    /// A packet went to a learner.
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

    /// The log goes to a learner, if it reaches back far enough.
    pub fn sends_log(&mut self, link: LinkId, after: Zxid) {
        self.plan(link, Plan::Log { after });
    }

    /// A whole tree goes to a learner, which may take a while.
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
            Plan::Diff if lacks_nothing => "it was up to date (DIFF)".to_owned(),
            Plan::Diff => format!("it got {txns} (DIFF)"),
            Plan::Log { after } => {
                format!(
                    "it got the log after {after} from the log files, and {txns} from memory (DIFF)"
                )
            }
            Plan::Trunc { to } => format!("it truncated its log after {to} and got {txns} (TRUNC)"),
            Plan::Snap { zxid } => format!("it got a snapshot at {zxid} and {txns} (SNAP)"),
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

    /// A link was closed from here.
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
            // The change of role has its own line, for all of them.
            CloseReason::NotLeading | CloseReason::NotFollowing => {
                let text = format!("rejecting server {server}: {why}");
                return Some(Line::new(Level::DEBUG, text));
            }
            CloseReason::UnexpectedPacket if server == me => format!(
                "another process claims to be server {me}, which is this server: give each server its \
                 own number in its file myid"
            ),
            CloseReason::Replaced => format!(
                "server {server} has connected again, so its older link is closed; if this keeps \
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
