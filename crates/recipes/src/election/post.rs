//! A post that one candidate at a time can hold: a node at a fixed path, guarded by an epoch node.
//!
//! Others come to hold the same path later. So its existence says nothing about who holds it, and
//! it must not be deleted by its name alone: whatever a former holder does carries a check of the
//! epoch that each new holder has raised.

use herdsman_client::{Fenced, Op};

use super::epoch::{Entry, Farewell};
use super::vacate::{Vacancy, is_gone};
use crate::error::Result;
use crate::hold::Hold;

/// A held post. Dropping it gives it up in the background.
#[derive(Debug)]
pub(super) struct Post {
    hold: Hold,
    entry: Entry,
    is_given_up: bool,
}

impl Post {
    pub(super) fn new(mut hold: Hold, entry: Entry) -> Self {
        hold.let_go();
        Post { hold, entry, is_given_up: false }
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Writes that fail once the post was given up, or somebody else has held it.
    pub(super) fn fenced(&self) -> Fenced {
        self.hold.fenced().and(&self.entry.ledger.path).at_version(self.entry.version)
    }

    /// What these writes check.
    pub(super) fn check(&self) -> Op {
        Op::check(&self.entry.ledger.path).version(self.entry.version)
    }

    pub(super) async fn give_up(mut self) -> Result<()> {
        let closed = Vacancy::of(&self.hold).close_term(&self.entry, Farewell::Resigned).await;
        self.is_given_up = is_gone(&closed);
        closed
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.is_given_up {
            let (vacancy, entry) = (Vacancy::of(&self.hold), self.entry.clone());
            self.hold.client().spawn(async move {
                // Only the session's end stops it, and the node goes with that.
                let _ = vacancy.close_term(&entry, Farewell::Dropped).await;
            });
        }
    }
}
