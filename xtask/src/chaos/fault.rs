//! The faults: each strikes some servers or links; mending makes everything whole again.

use std::time::Duration;

use anyhow::Result;

use crate::ensemble::{Ensemble, Side};
use crate::rng::Rng;

/// A thing that can happen to an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The leader gets SIGKILL.
    KillLeader,
    /// Any one gets SIGKILL.
    KillOne,
    /// All but the leader get SIGKILL.
    KillFollowers,
    /// All get SIGKILL at once.
    PowerCut,
    /// Any one is ended with SIGTERM.
    StopOne,
    /// The leader stands still (SIGSTOP).
    PauseLeader,
    /// Any one stands still.
    PauseOne,
    /// All but the leader stand still.
    PauseFollowers,
    /// The leader loses its link to the other servers; clients still reach it.
    CutLeaderFromPeers,
    /// Any one loses both links.
    CutOneFromAll,
    /// The leader loses its link to the clients; the other servers still reach it.
    CutLeaderFromClients,
    /// The leader and as many as make no majority are apart from the rest.
    Split,
}

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

/// Faults that need links which can be cut.
const CUTS: &[Fault] =
    &[Fault::CutLeaderFromPeers, Fault::CutOneFromAll, Fault::CutLeaderFromClients, Fault::Split];

/// Draws every fault once before any comes again, so that a short storm has all of them.
pub struct Deck {
    all: Vec<Fault>,
    left: Vec<Fault>,
}

impl Deck {
    /// All faults that can happen to this ensemble.
    pub fn new(ensemble: &Ensemble) -> Deck {
        let mut all = FAULTS.to_vec();
        if ensemble.cables().is_some() {
            all.extend(CUTS);
        }
        Deck { all, left: Vec::new() }
    }

    /// The next one.
    pub fn draw(&mut self, rng: &mut Rng) -> Fault {
        if self.left.is_empty() {
            self.left = self.all.clone();
        }
        self.left.swap_remove(rng.below(self.left.len()))
    }
}

impl Fault {
    /// Lets it happen; tells what happened to whom.
    pub fn strike(self, ensemble: &mut Ensemble, rng: &mut Rng) -> Result<String> {
        let ids: Vec<usize> = ensemble.ids().collect();
        let any = *rng.pick(&ids);
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
            Fault::CutLeaderFromPeers
            | Fault::CutOneFromAll
            | Fault::CutLeaderFromClients
            | Fault::Split => self.cut(ensemble, leader, any)?,
        }
        Ok(self.describe(leader, any))
    }

    fn cut(self, ensemble: &Ensemble, leader: usize, any: usize) -> Result<()> {
        let Some(cables) = ensemble.cables() else {
            return Ok(());
        };
        match self {
            Fault::CutLeaderFromPeers => cables.cut_from_peers(leader),
            Fault::CutLeaderFromClients => cables.cut_from_clients(leader),
            Fault::CutOneFromAll => {
                cables.cut_from_peers(any)?;
                cables.cut_from_clients(any)
            }
            _ => minority_with(leader, &ensemble.ids().collect::<Vec<_>>())
                .iter()
                .try_for_each(|id| cables.place(*id, Side::Right)),
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
        }
    }

    /// How long it lasts. Pauses and cuts are sometimes short enough to go unnoticed by the
    /// servers, and sometimes not.
    pub fn hold(self, rng: &mut Rng) -> Duration {
        match self {
            Fault::KillLeader | Fault::KillOne | Fault::StopOne => rng.between(0, 1500),
            Fault::PowerCut => Duration::ZERO,
            Fault::KillFollowers | Fault::PauseFollowers => rng.between(100, 3000),
            Fault::PauseLeader | Fault::PauseOne => rng.between(300, 4000),
            Fault::CutLeaderFromPeers
            | Fault::CutOneFromAll
            | Fault::CutLeaderFromClients
            | Fault::Split => rng.between(500, 4500),
        }
    }
}

fn minority_with(leader: usize, ids: &[usize]) -> Vec<usize> {
    let others = ids.iter().copied().filter(|id| *id != leader);
    std::iter::once(leader).chain(others).take((ids.len() - 1) / 2).collect()
}

/// Makes all links whole, lets all paused servers go on and starts all that are down.
pub fn mend(ensemble: &mut Ensemble) -> Result<()> {
    if let Some(cables) = ensemble.cables() {
        cables.heal()?;
    }
    for id in ensemble.ids() {
        let member = ensemble.member_mut(id);
        if !member.is_running() {
            member.launch()?;
        } else if !member.is_awake() {
            member.resume()?;
        }
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
    fn every_fault_comes_before_any_comes_again() {
        let mut deck = Deck { all: FAULTS.to_vec(), left: Vec::new() };
        let mut rng = Rng::new(1);
        let drawn: Vec<_> = (0..FAULTS.len()).map(|_| deck.draw(&mut rng)).collect();
        assert!(FAULTS.iter().all(|fault| drawn.contains(fault)));
    }
}
