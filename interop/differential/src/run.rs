//! Whole scripts: generated ones, fixed ones, and shorter versions of one that failed.

use std::net::SocketAddr;

use anyhow::{Result, bail};

use crate::action::{Action, Hello};
use crate::generate::Generator;
use crate::pair::{Difference, Pair, Print, Step};
use crate::roles::Kind;
use crate::scenarios::Scenario;
use crate::side::Layout;

/// The two servers, or the two ensembles, which have equally many.
#[derive(Clone, Debug)]
pub struct Servers {
    /// The reference side; an ensemble's servers in order of their roles.
    pub a: Vec<SocketAddr>,
    /// The side under test.
    pub b: Vec<SocketAddr>,
    /// Whether the ensembles have local sessions.
    pub local_sessions: bool,
    /// What to print of steps without a difference.
    pub print: Print,
}

impl Servers {
    /// The kind of both sides.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.a.len() {
            1 => Kind::Alone,
            servers if self.local_sessions => Kind::WithLocalSessions(servers),
            servers => Kind::Ensemble(servers),
        }
    }

    fn pair(&self, layout: Layout) -> Result<Pair> {
        Pair::start(&self.a, &self.b, layout, self.print)
    }
}

/// The result of a script.
#[derive(Debug)]
pub enum Outcome {
    /// No difference in this many steps.
    Equal(usize),
    /// A difference, and the actions up to and including the one that showed it.
    Differs(Box<Difference>, Vec<Action>),
}

/// Runs the script of a seed.
pub fn seed(servers: &Servers, seed: u64, steps: usize, layout: Layout) -> Result<Outcome> {
    let mut pair = servers.pair(layout)?;
    let mut generator = Generator::new(seed, layout.slots, servers.kind());
    let mut actions = Vec::new();
    for _ in 0..steps {
        let action = generator.next(&pair);
        actions.push(action.clone());
        match pair.step(&action)? {
            Step::Equal(said) => generator.learn(&said.learned),
            Step::Differs(difference) => {
                pair.abandon();
                return Ok(Outcome::Differs(difference, actions));
            }
        }
    }
    finish(pair, actions)
}

/// Runs a scenario in the subtree of this name.
pub fn scenario(servers: &Servers, scenario: &Scenario, root: &str) -> Result<Outcome> {
    replay(servers, &scenario_actions(scenario, root), scenario.layout())
}

/// Runs a scenario to its end and reports every difference. One difference may cause the next.
pub fn scenario_differences(
    servers: &Servers,
    scenario: &Scenario,
    root: &str,
    mut report: impl FnMut(Difference),
) -> Result<()> {
    let mut pair = servers.pair(scenario.layout())?;
    for action in scenario_actions(scenario, root) {
        if let Step::Differs(difference) = pair.step(&action)? {
            report(*difference);
            pair.realign();
        }
    }
    pair.abandon();
    Ok(())
}

fn scenario_actions(scenario: &Scenario, root: &str) -> Vec<Action> {
    let mut actions: Vec<Action> = (0..scenario.slots)
        .map(|slot| Action::Hello { slot, hello: Hello::new_session() })
        .collect();
    actions.extend((scenario.actions)(root));
    actions
}

/// Runs a list of actions.
pub fn replay(servers: &Servers, actions: &[Action], layout: Layout) -> Result<Outcome> {
    let mut pair = servers.pair(layout)?;
    for (index, action) in actions.iter().enumerate() {
        if let Step::Differs(difference) = pair.step(action)? {
            pair.abandon();
            return Ok(Outcome::Differs(difference, actions[..=index].to_vec()));
        }
    }
    finish(pair, actions.to_vec())
}

fn finish(mut pair: Pair, actions: Vec<Action>) -> Result<Outcome> {
    Ok(match pair.finish()? {
        Step::Equal(_) => Outcome::Equal(actions.len()),
        Step::Differs(difference) => {
            pair.abandon();
            Outcome::Differs(difference, actions)
        }
    })
}

/// Removes actions as long as the last one still shows a difference. The servers are not reset in between:
/// `clear` must remove the script's znodes, and what it cannot remove may mislead.
pub fn shrink(
    servers: &Servers,
    mut actions: Vec<Action>,
    layout: Layout,
    mut clear: impl FnMut() -> Result<()>,
) -> Result<(Box<Difference>, Vec<Action>)> {
    let Some(culprit) = actions.last().cloned() else {
        bail!("nothing to shrink");
    };
    let mut shows = |actions: &[Action]| -> Result<Option<Box<Difference>>> {
        clear()?;
        Ok(match replay(servers, actions, layout)? {
            Outcome::Differs(difference, _) if difference.request == culprit.to_string() => {
                Some(difference)
            }
            _ => None,
        })
    };
    let Some(mut best) = shows(&actions)? else {
        bail!("the difference was not reproduced");
    };
    let mut chunk = actions.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start + chunk < actions.len() {
            let mut fewer = actions.clone();
            fewer.drain(start..start + chunk);
            match shows(&fewer)? {
                Some(difference) => (best, actions) = (difference, fewer),
                None => start += chunk,
            }
        }
        chunk /= 2;
    }
    Ok((best, actions))
}
