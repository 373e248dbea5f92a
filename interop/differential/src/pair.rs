//! Two servers, or two ensembles: each action is executed on both, and the results must be equal.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::action::Action;
use crate::deliberate;
use crate::side::{Layout, Observation, Side, SlotState};

/// Steps kept for the report.
const HISTORY: usize = 20;
/// Answers to four-letter words include connections that servers close asynchronously, so they may become
/// equal with a delay.
const WORD_ATTEMPTS: usize = 30;
const WORD_PAUSE: Duration = Duration::from_millis(100);

/// Two servers and the sessions of one script.
#[derive(Debug)]
pub struct Pair {
    a: Side,
    b: Side,
    steps: usize,
    history: VecDeque<(usize, String, Vec<String>)>,
    print: Print,
}

/// What to print of steps without a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Print {
    /// Nothing.
    Nothing,
    /// The action and the results of both.
    Everything,
}

/// The result of a step.
#[derive(Debug)]
pub enum Step {
    /// Both gave this result.
    Equal(Observation),
    /// They disagree.
    Differs(Box<Difference>),
}

/// A difference between two servers.
#[derive(Debug)]
pub struct Difference {
    /// Number of the step.
    pub step: usize,
    /// The action.
    pub request: String,
    /// The result of A.
    pub a: Vec<String>,
    /// The result of B.
    pub b: Vec<String>,
    /// The steps before it, and their results.
    pub before: Vec<(usize, String, Vec<String>)>,
}

impl Pair {
    /// Starts a script with vacant session slots. Each side's servers are in order of their roles.
    pub fn start(a: &[SocketAddr], b: &[SocketAddr], layout: Layout, print: Print) -> Result<Self> {
        Ok(Pair {
            a: Side::start(a, layout)?,
            b: Side::start(b, layout)?,
            steps: 0,
            history: VecDeque::new(),
            print,
        })
    }

    /// The state of a slot's session; both sides have been equal so far, so that of A is returned.
    #[must_use]
    pub fn state(&self, slot: usize) -> SlotState {
        self.a.state(slot)
    }

    /// Whether another slot has taken the session of this one.
    #[must_use]
    pub fn has_moved(&self, slot: usize) -> bool {
        self.a.has_moved(slot)
    }

    /// Number of txns since the script began.
    #[must_use]
    pub fn newest_offset(&self) -> i64 {
        self.a.newest_offset()
    }

    /// Executes one action on both.
    pub fn step(&mut self, action: &Action) -> Result<Step> {
        self.steps += 1;
        let (mut a, mut b) = self.both(|side| side.perform(action))?;
        if matches!(action, Action::Word { .. }) {
            for _ in 0..WORD_ATTEMPTS {
                if a.lines == b.lines {
                    break;
                }
                std::thread::sleep(WORD_PAUSE);
                (a, b) = self.both(|side| side.perform(action))?;
            }
        }
        if a.lines != b.lines && self.is_deliberate(&a, &b)? {
            b.lines.clone_from(&a.lines);
        }
        Ok(self.compare(action.to_string(), a, b))
    }

    /// Whether the only difference is late events that B correctly withheld.
    fn is_deliberate(&mut self, a: &Observation, b: &Observation) -> Result<bool> {
        let Some(withheld) = deliberate::withheld(&a.lines, &b.lines) else { return Ok(false) };
        for event in withheld {
            let proof = event.proof();
            let (a, b) = self.both(|side| side.perform(&proof))?;
            if a.lines != b.lines || !deliberate::is_refused(&a.lines) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends all sessions on both.
    pub fn finish(&mut self) -> Result<Step> {
        self.steps += 1;
        let (a, b) = self.both(Side::finish)?;
        Ok(self.compare("end of the script".into(), a, b))
    }

    /// Synchronizes the sides as well as possible after a difference, to look for the next one.
    pub fn realign(&mut self) {
        self.b.realign(&self.a);
        self.a.realign(&self.b);
    }

    /// Ends all sessions, whatever the servers answer.
    pub fn abandon(&mut self) {
        let _ = self.a.finish();
        let _ = self.b.finish();
    }

    fn both<T: Send>(&mut self, work: impl Fn(&mut Side) -> Result<T> + Sync) -> Result<(T, T)> {
        std::thread::scope(|scope| {
            let b = scope.spawn(|| work(&mut self.b));
            let a = work(&mut self.a);
            let b = b.join().map_err(|_| anyhow!("side B panicked"))?;
            Ok((a?, b?))
        })
    }

    fn compare(&mut self, request: String, a: Observation, b: Observation) -> Step {
        if a.lines != b.lines {
            return Step::Differs(Box::new(Difference {
                step: self.steps,
                request,
                a: a.lines,
                b: b.lines,
                before: self.history.iter().cloned().collect(),
            }));
        }
        if self.print == Print::Everything {
            println!("{}. {request}\n     {}", self.steps, a.lines.join("\n     "));
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((self.steps, request, a.lines.clone()));
        Step::Equal(a)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.before.is_empty() {
            writeln!(f, "the last {} steps, equal on both:", self.before.len())?;
        }
        for (step, request, said) in &self.before {
            writeln!(f, "  {step}. {request}")?;
            for line in said.iter().filter(|line| !line.contains("settled")) {
                writeln!(f, "       {line}")?;
            }
        }
        writeln!(f, "step {} differs: {}", self.step, self.request)?;
        let longest = self.a.len().max(self.b.len());
        for index in 0..longest {
            let (a, b) = (self.a.get(index), self.b.get(index));
            if a == b {
                writeln!(f, "    both: {}", a.map_or("", String::as_str))?;
            } else {
                writeln!(f, "  A: {}", a.map_or("(nothing)", String::as_str))?;
                writeln!(f, "  B: {}", b.map_or("(nothing)", String::as_str))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
