//! What the steps need, installed by one thread while the steps before them run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::peers::Peer;

use super::steps::Step;

/// What became of the programs that the chosen steps need.
#[derive(Default)]
pub struct Programs {
    /// For each that was tried, why it is missing if it is.
    results: Mutex<BTreeMap<Peer, Option<String>>>,
    changed: Condvar,
}

impl Programs {
    /// Starts to install what these steps need, in their order.
    pub fn install(steps: &[&'static Step]) -> Arc<Programs> {
        let programs = Arc::new(Programs::default());
        let mut seen = BTreeSet::new();
        let needed: Vec<Peer> =
            steps.iter().flat_map(|step| step.needs).copied().filter(|p| seen.insert(*p)).collect();
        let installing = Arc::clone(&programs);
        // Detached: a step waits for what it needs, and nobody for the rest.
        std::thread::spawn(move || {
            for peer in needed {
                let missing = peer.ensure().err().map(|error| format!("{error:#}"));
                let mut results = installing.results.lock().unwrap_or_else(PoisonError::into_inner);
                results.insert(peer, missing);
                installing.changed.notify_all();
            }
        });
        programs
    }

    /// Waits until all of these were tried, and returns the first that is missing, with the reason.
    pub fn missing(&self, peers: &[Peer]) -> Option<(Peer, String)> {
        peers.iter().find_map(|peer| self.wait_for(*peer).map(|why| (*peer, why)))
    }

    /// Whether all of these were tried.
    pub fn are_known(&self, peers: &[Peer]) -> bool {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        peers.iter().all(|peer| results.contains_key(peer))
    }

    fn wait_for(&self, peer: Peer) -> Option<String> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(missing) = results.get(&peer) {
                return missing.clone();
            }
            results = self.changed.wait(results).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
