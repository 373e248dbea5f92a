//! How a master becomes the active one, and the check that rejects its steps when it no longer is.
//!
//! In: a root, and whose turn it is. Out: the node of the active master. Two forms, of which all masters of a root
//! must use the same: a line of candidates in `<root>/master`, or `<root>/master` itself.

use herdsman_client::{Client, Op};

use super::nodes::Paths;
use crate::election::{Leadership, Race};
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder, LostWhen};
use crate::line::{Layout, Line, after_predecessor};
use crate::retrying::retrying;

/// The marker of the nodes in the masters' line.
const MARKER: &str = "latch-";

/// How masters wait for their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In a line: one of them wakes up when the active one leaves.
    Line,
    /// For the one node: all of them wake up.
    SingleNode,
}

/// The node of the active master. Dropping it resigns.
#[derive(Debug)]
pub(super) enum Mastership {
    FirstInLine(Hold),
    SingleNode(Leadership),
}

impl Mastership {
    /// Waits until it is this master's turn.
    pub(super) async fn wait(client: &Client, paths: &Paths, form: Form, id: &str) -> Result<Self> {
        let directory = paths.masters();
        match form {
            Form::Line => {
                // Every write is checked, so it is safe to continue through a fail-over.
                let holder = Holder::new(client, id.to_owned()).until_session_timeout();
                let (layout, markers) = (Layout::Curator, &[MARKER]);
                let line = Line { holder, directory, layout, markers };
                Ok(Mastership::FirstInLine(line.wait(MARKER, after_predecessor).await?))
            }
            Form::SingleNode => {
                refuse_line(client, &directory).await?;
                let race = Race::new(client, &directory, id)?;
                let race = race.options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut));
                Ok(Mastership::SingleNode(race.campaign().await?))
            }
        }
    }

    pub(super) fn hold(&self) -> &Hold {
        match self {
            Mastership::FirstInLine(hold) => hold,
            Mastership::SingleNode(leadership) => leadership.hold(),
        }
    }

    /// Returns an operation that fails once another master is, or has been, the active one.
    pub(super) fn check(&self) -> Op {
        self.hold().check()
    }
}

/// Fails if the path is that of a line of masters, which would be waited for like a master, and without end.
async fn refuse_line(client: &Client, path: &str) -> Result<()> {
    match retrying(client).exists(path).await? {
        Some(stat) if stat.ephemeral_owner == 0 => Err(Error::invalid(format!(
            "{path} is not the node of a master: masters in a line use this path, or have used it"
        ))),
        _ => Ok(()),
    }
}
