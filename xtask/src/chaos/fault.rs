//! The faults: each affects some servers or links; repairing restores everything.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::damage;
use crate::ensemble::{Ensemble, Member, Side};
use crate::rng::Rng;
use crate::server::Program;
use crate::workloads::Absent;

/// A fault of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The leader gets SIGKILL.
    KillLeader,
    /// Any server gets SIGKILL.
    KillOne,
    /// All servers except the leader get SIGKILL.
    KillFollowers,
    /// All servers get SIGKILL at once.
    PowerCut,
    /// Any server is stopped with SIGTERM.
    StopOne,
    /// The leader is paused (SIGSTOP).
    PauseLeader,
    /// Any server is paused.
    PauseOne,
    /// All servers except the leader are paused.
    PauseFollowers,
    /// The leader loses its link to the other servers; clients still reach it.
    CutLeaderFromPeers,
    /// Any server loses both links.
    CutOneFromAll,
    /// The leader loses its link to the clients; the other servers still reach it.
    CutLeaderFromClients,
    /// The leader is cut off together with a minority of the servers.
    Split,
    /// Two halves that overlap in one server cannot reach each other otherwise.
    Bridge,
    /// Messages from other servers to the leader are lost; those from it arrive.
    LoseToLeader,
    /// Messages from the leader to other servers are lost; those to it arrive.
    LoseFromLeader,
    /// Replies of any server to clients are lost; their requests arrive.
    LoseReplies,
    /// The leader's clock jumps, and later jumps back.
    JumpLeaderClock,
    /// The clock of any server jumps.
    JumpOneClock,
    /// Any one gets SIGKILL, and a byte of its newest log is zeroed.
    DamageLog,
    /// Any one gets SIGKILL, and a byte of its newest snapshot is zeroed.
    DamageSnapshot,
    /// Any one gets SIGKILL, and a byte of its newest log and of its newest snapshot is zeroed.
    DamageBoth,
    /// Any one gets SIGKILL and loses its data directory.
    DropData,
}

const JOIN_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

const FAULTS: &[Fault] = &[
    Fault::KillLeader,
    Fault::KillOne,
    Fault::KillFollowers,
    Fault::PowerCut,
    Fault::StopOne,
    Fault::PauseLeader,
    Fault::PauseOne,
    Fault::PauseFollowers,
];

/// Faults that need links that can be cut.
const CUTS: &[Fault] = &[
    Fault::CutLeaderFromPeers,
    Fault::CutOneFromAll,
    Fault::CutLeaderFromClients,
    Fault::Split,
    Fault::Bridge,
    Fault::LoseToLeader,
    Fault::LoseFromLeader,
    Fault::LoseReplies,
];

/// Faults that need clocks that can be changed.
const JUMPS: &[Fault] = &[Fault::JumpLeaderClock, Fault::JumpOneClock];
/// Faults that take data from one server.
const DAMAGES: &[Fault] =
    &[Fault::DamageLog, Fault::DamageSnapshot, Fault::DamageBoth, Fault::DropData];
/// How far a clock jumps, either way.
const JUMP_SECONDS_MAX: usize = 3_600;

/// A random sequence that has every fault once before any is repeated, so that even two short runs have all of them.
/// Faults that take data alternate with the others.
pub struct FaultSequence {
    left: Vec<Fault>,
    /// Whether every other fault takes data from a server.
    damages: bool,
    damages_left: Vec<Fault>,
    is_damage_next: bool,
    /// The source of randomness for faults.
    pub rng: Rng,
}

impl FaultSequence {
    /// Creates a sequence with all faults.
    pub fn new(seed: u64, damages: bool) -> FaultSequence {
        let (left, damages_left) = (Vec::new(), Vec::new());
        FaultSequence { left, damages, damages_left, is_damage_next: damages, rng: Rng::new(seed) }
    }

    /// Returns the next fault that is possible in this ensemble.
    pub fn draw(&mut self, ensemble: &Ensemble) -> Fault {
        if self.is_damage_next {
            self.is_damage_next = false;
            return draw_from(DAMAGES, &mut self.damages_left, &mut self.rng);
        }
        self.is_damage_next = self.damages;
        let mut all = FAULTS.to_vec();
        if ensemble.cables().is_some() {
            all.extend(CUTS);
        }
        if ensemble.ids().all(|id| ensemble.member(id).has_clock()) {
            all.extend(JUMPS);
        }
        draw_from(&all, &mut self.left, &mut self.rng)
    }
}

fn draw_from(all: &[Fault], left: &mut Vec<Fault>, rng: &mut Rng) -> Fault {
    if left.is_empty() {
        *left = all.to_vec();
    }
    left.swap_remove(rng.below(left.len()))
}

/// What a fault has done.
pub struct Struck {
    /// What happened to which server.
    pub what: String,
    /// Whether something is damaged that the server needs at its next start.
    pub damages_log: bool,
}

impl Fault {
    /// Whether it takes data from a server. All others must have theirs then: the data of a quorum cannot be lost and
    /// found.
    pub fn takes_data(self) -> bool {
        DAMAGES.contains(&self)
    }

    /// Injects the fault. Only our servers lose data: Apache's do not heal themselves.
    pub fn strike(self, ensemble: &mut Ensemble, rng: &mut Rng) -> Result<Struck> {
        let ids: Vec<usize> = ensemble.ids().collect();
        let may_be_any =
            |id: &usize| !self.takes_data() || ensemble.member(*id).program() == Program::Herdsman;
        let candidates: Vec<usize> = ids.iter().copied().filter(may_be_any).collect();
        let any = *rng.pick(&candidates);
        let mut damages_log = false;
        let leader = ensemble.leader()?.unwrap_or(any);
        let others: Vec<usize> = ids.iter().copied().filter(|id| *id != leader).collect();
        match self {
            Fault::KillLeader => ensemble.kill(&[leader])?,
            Fault::KillOne => ensemble.kill(&[any])?,
            Fault::KillFollowers => ensemble.kill(&others)?,
            Fault::PowerCut => ensemble.kill(&ids)?,
            Fault::StopOne => ensemble.member_mut(any).stop()?,
            Fault::PauseLeader => ensemble.member_mut(leader).pause()?,
            Fault::PauseOne => ensemble.member_mut(any).pause()?,
            Fault::PauseFollowers => {
                others.iter().try_for_each(|id| ensemble.member_mut(*id).pause())?;
            }
            Fault::JumpLeaderClock => jump(ensemble.member(leader), rng)?,
            Fault::JumpOneClock => jump(ensemble.member(any), rng)?,
            Fault::DamageLog | Fault::DamageSnapshot | Fault::DamageBoth | Fault::DropData => {
                ensemble.kill(&[any])?;
                damages_log = self.damage(ensemble.member_mut(any), rng)?;
            }
            _ => self.cut(ensemble, leader, any)?,
        }
        Ok(Struck { what: self.describe(leader, any), damages_log })
    }

    /// Whether the log is damaged behind the newest snapshot.
    fn damage(self, member: &mut Member, rng: &mut Rng) -> Result<bool> {
        if self == Fault::DropData {
            return member.wipe().map(|()| false);
        }
        let data_dir = member.data_dir();
        let (covered, snapshot) = damage::newest(&data_dir, "snapshot.")?;
        let mut damages_log = false;
        if matches!(self, Fault::DamageLog | Fault::DamageBoth) {
            let (_, log) = damage::newest(&data_dir, "log.")?;
            let (before, at) = zero_a_byte(&log, rng)?;
            damages_log = damage::record_with(&before, at).is_some_and(|zxid| zxid > covered);
        }
        if matches!(self, Fault::DamageSnapshot | Fault::DamageBoth) {
            zero_a_byte(&snapshot, rng)?;
        }
        Ok(damages_log)
    }

    fn cut(self, ensemble: &Ensemble, leader: usize, any: usize) -> Result<()> {
        let Some(cables) = ensemble.cables() else {
            return Ok(());
        };
        let ids: Vec<usize> = ensemble.ids().collect();
        let others = || ids.iter().filter(|id| **id != leader);
        match self {
            Fault::Bridge => {
                let [one, other] = halves_beside(any, &ids);
                let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b)));
                pairs.into_iter().try_for_each(|(a, b)| {
                    cables.lose_on_the_way(a, b)?;
                    cables.lose_on_the_way(b, a)
                })
            }
            Fault::LoseToLeader => others().try_for_each(|id| cables.lose_on_the_way(*id, leader)),
            Fault::LoseFromLeader => {
                others().try_for_each(|id| cables.lose_on_the_way(leader, *id))
            }
            Fault::LoseReplies => cables.lose_replies(any),
            Fault::CutLeaderFromPeers => cables.cut_from_peers(leader),
            Fault::CutLeaderFromClients => cables.cut_from_clients(leader),
            Fault::CutOneFromAll => {
                cables.cut_from_peers(any)?;
                cables.cut_from_clients(any)
            }
            _ => {
                minority_with(leader, &ids).iter().try_for_each(|id| cables.place(*id, Side::Right))
            }
        }
    }

    fn describe(self, leader: usize, any: usize) -> String {
        match self {
            Fault::KillLeader => format!("kill -9 of the leader, {leader}"),
            Fault::KillOne => format!("kill -9 of {any}"),
            Fault::KillFollowers => format!("kill -9 of all but the leader, {leader}"),
            Fault::PowerCut => "kill -9 of all".into(),
            Fault::StopOne => format!("SIGTERM to {any}"),
            Fault::PauseLeader => format!("SIGSTOP to the leader, {leader}"),
            Fault::PauseOne => format!("SIGSTOP to {any}"),
            Fault::PauseFollowers => format!("SIGSTOP to all but the leader, {leader}"),
            Fault::CutLeaderFromPeers => format!("the leader, {leader}, cut from the servers"),
            Fault::CutOneFromAll => format!("{any} cut from servers and clients"),
            Fault::CutLeaderFromClients => format!("the leader, {leader}, cut from the clients"),
            Fault::Split => format!("the leader, {leader}, cut off with a minority"),
            Fault::Bridge => format!("two halves that overlap in {any}"),
            Fault::LoseToLeader => format!("packets of servers to the leader, {leader}, are lost"),
            Fault::LoseFromLeader => {
                format!("packets of the leader, {leader}, to servers are lost")
            }
            Fault::LoseReplies => format!("replies of {any} to clients are lost"),
            Fault::JumpLeaderClock => format!("the clock of the leader, {leader}, jumps"),
            Fault::JumpOneClock => format!("the clock of {any} jumps"),
            Fault::DamageLog => format!("kill -9 of {any}, its newest log damaged"),
            Fault::DamageSnapshot => format!("kill -9 of {any}, its newest snapshot damaged"),
            Fault::DamageBoth => format!("kill -9 of {any}, its newest log and snapshot damaged"),
            Fault::DropData => format!("kill -9 of {any}, its data gone"),
        }
    }

    /// How long the fault lasts. Some pauses and cuts are short enough to go unnoticed by the servers,
    /// others are not.
    pub fn hold(self, rng: &mut Rng) -> Duration {
        match self {
            Fault::KillLeader | Fault::KillOne | Fault::StopOne => rng.between(0, 1500),
            damage if damage.takes_data() => rng.between(0, 1500),
            Fault::PowerCut => Duration::ZERO,
            Fault::KillFollowers | Fault::PauseFollowers => rng.between(100, 3000),
            Fault::PauseLeader | Fault::PauseOne => rng.between(300, 4000),
            Fault::JumpLeaderClock | Fault::JumpOneClock => rng.between(200, 2000),
            _ => rng.between(500, 4500),
        }
    }
}

/// Zeroes a byte of a file that is not zero already. Returns what was there before, and which byte it is.
fn zero_a_byte(path: &Path, rng: &mut Rng) -> Result<(Vec<u8>, usize)> {
    let before = fs::read(path)?;
    let set: Vec<usize> = (0..before.len()).filter(|at| before[*at] != 0).collect();
    ensure!(!set.is_empty(), "{} has only zeros", path.display());
    let at = *rng.pick(&set);
    let mut bytes = before.clone();
    bytes[at] = 0;
    fs::write(path, bytes)?;
    Ok((before, at))
}

fn minority_with(leader: usize, ids: &[usize]) -> Vec<usize> {
    let others = ids.iter().copied().filter(|id| *id != leader);
    std::iter::once(leader).chain(others).take((ids.len() - 1) / 2).collect()
}

/// Splits the other servers into two halves, which overlap in this server.
fn halves_beside(middle: usize, ids: &[usize]) -> [Vec<usize>; 2] {
    let others: Vec<usize> = ids.iter().copied().filter(|id| *id != middle).collect();
    let (one, other) = others.split_at(others.len() / 2);
    [one.to_vec(), other.to_vec()]
}

fn jump(member: &Member, rng: &mut Rng) -> Result<()> {
    let seconds = 1 + rng.below(JUMP_SECONDS_MAX) as i64;
    member.set_clock(if rng.below(2) == 0 { seconds } else { -seconds })
}

/// Restores all links, corrects all clocks, resumes all paused servers and starts all stopped ones.
///
/// A server that was removed from the membership and has stopped cannot start by itself: it waits until it
/// is a member again, and gets its initial zoo.cfg, as an operator would provide it.
pub fn mend(ensemble: &mut Ensemble, absent: &Absent) -> Result<()> {
    if let Some(cables) = ensemble.cables() {
        cables.heal()?;
    }
    let mut left_out = Vec::new();
    for id in ensemble.ids() {
        let member = ensemble.member_mut(id);
        if member.has_clock() {
            member.set_clock(0)?;
        }
        if member.is_running() && !member.is_awake() {
            member.resume()?;
        } else if !member.is_running() && member.is_left_out()? {
            left_out.push(id);
        } else if !member.is_running() {
            member.launch()?;
        }
    }
    for id in left_out {
        let deadline = Instant::now() + JOIN_MAX;
        while absent.is(id) {
            ensure!(
                Instant::now() < deadline,
                "timed out waiting for server {id} to rejoin the membership"
            );
            std::thread::sleep(POLL);
        }
        ensemble.member(id).configure(&[])?;
        ensemble.member_mut(id).launch()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_leaves_a_majority_elsewhere() {
        assert_eq!(minority_with(3, &[1, 2, 3]), [3]);
        assert_eq!(minority_with(3, &[1, 2, 3, 4, 5]), [3, 1]);
    }

    #[test]
    fn the_halves_of_a_bridge_overlap_in_one_server() {
        assert_eq!(halves_beside(2, &[1, 2, 3]), [[1], [3]]);
        assert_eq!(halves_beside(2, &[1, 2, 3, 4, 5]), [[1, 3], [4, 5]]);
    }

    #[test]
    fn every_fault_occurs_before_any_is_repeated() {
        let (mut left, mut rng) = (Vec::new(), Rng::new(1));
        let draw = |_| draw_from(FAULTS, &mut left, &mut rng);
        let drawn: Vec<_> = (0..FAULTS.len()).map(draw).collect();
        assert!(FAULTS.iter().all(|fault| drawn.contains(fault)));
    }
}
