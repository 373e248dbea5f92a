//! The events of an election, as bounded streams.
//!
//! In: the steps of a candidate. Out: a stream for each subscriber. Publishing never waits for a reader: one that
//! falls more than 64 events behind misses the oldest, and always gets the newest.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::error::Error;
use crate::events::Events;
use crate::line::{Place, Step, Turn, after_predecessor};

/// A step of a candidate.
///
/// The steps are those of ZooKeeper's own election recipe, `LeaderElectionSupport`, whose names for them
/// [`apache_name`](ElectionEvent::apache_name) returns, and [`Lost`](ElectionEvent::Lost), which that recipe does not
/// report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionEvent {
    /// It became a candidate: START.
    Started,
    /// It is about to create its node: OFFER_START. Repeated if the session is lost meanwhile.
    Offering,
    /// Its node is in the line: OFFER_COMPLETE.
    Offered {
        /// The name of the node.
        node: String,
    },
    /// It is about to read which candidates are before it: DETERMINE_START.
    Determining,
    /// It has read which candidates are before it: DETERMINE_COMPLETE.
    Determined {
        /// How many candidates are before it.
        ahead: usize,
    },
    /// Others are before it, and it watches the one right before it: READY_START.
    Ready {
        /// The name of the node that it watches.
        behind: String,
    },
    /// It waits for that one to leave: READY_COMPLETE.
    Waiting {
        /// The name of the node that it waits for.
        behind: String,
    },
    /// It is the first, and its term begins: ELECTED_START.
    Elected,
    /// It leads: ELECTED_COMPLETE.
    Leading {
        /// The token of its term.
        token: u64,
    },
    /// It can no longer trust that it leads. Reported by the code that waits for the loss.
    Lost {
        /// The token of the term.
        token: u64,
    },
    /// Its candidacy failed: FAILED.
    Failed {
        /// Why.
        error: Error,
    },
    /// It is about to withdraw or to resign: STOP_START.
    Stopping,
    /// It is no longer a candidate: STOP_COMPLETE. If the future or the guard was dropped, its node is deleted in the
    /// background.
    Stopped,
}

impl ElectionEvent {
    /// Returns the name of this event in `LeaderElectionSupport`; `None` for a loss, which that does not report.
    #[must_use]
    pub fn apache_name(&self) -> Option<&'static str> {
        Some(match self {
            ElectionEvent::Started => "START",
            ElectionEvent::Offering => "OFFER_START",
            ElectionEvent::Offered { .. } => "OFFER_COMPLETE",
            ElectionEvent::Determining => "DETERMINE_START",
            ElectionEvent::Determined { .. } => "DETERMINE_COMPLETE",
            ElectionEvent::Elected => "ELECTED_START",
            ElectionEvent::Leading { .. } => "ELECTED_COMPLETE",
            ElectionEvent::Ready { .. } => "READY_START",
            ElectionEvent::Waiting { .. } => "READY_COMPLETE",
            ElectionEvent::Failed { .. } => "FAILED",
            ElectionEvent::Stopping => "STOP_START",
            ElectionEvent::Stopped => "STOP_COMPLETE",
            ElectionEvent::Lost { .. } => return None,
        })
    }

    /// Returns the state of a candidate after this event.
    #[must_use]
    pub fn state(&self) -> ElectionState {
        match self {
            ElectionEvent::Started => ElectionState::Start,
            ElectionEvent::Offering | ElectionEvent::Offered { .. } => ElectionState::Offer,
            ElectionEvent::Determining
            | ElectionEvent::Determined { .. }
            | ElectionEvent::Lost { .. } => ElectionState::Determine,
            ElectionEvent::Elected | ElectionEvent::Leading { .. } => ElectionState::Elected,
            ElectionEvent::Ready { .. } | ElectionEvent::Waiting { .. } => ElectionState::Ready,
            ElectionEvent::Failed { .. } => ElectionState::Failed,
            ElectionEvent::Stopping | ElectionEvent::Stopped => ElectionState::Stop,
        }
    }
}

/// The state of a candidate; those of ZooKeeper's `LeaderElectionSupport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionState {
    /// It has become a candidate.
    Start,
    /// It creates its node.
    Offer,
    /// It determines whether it leads. Also after a loss, until it is known whether the term continues.
    Determine,
    /// It leads.
    Elected,
    /// It waits for the candidate before it.
    Ready,
    /// It failed with an error.
    Failed,
    /// It is not a candidate: not yet, or no longer.
    #[default]
    Stop,
}

/// Events that a slow reader may be behind.
const EVENTS_KEPT: usize = 64;

/// The sending side of a stream of events. Clones publish to the same readers.
#[derive(Clone)]
pub(crate) struct EventSender<E> {
    send: broadcast::Sender<E>,
}

impl<E> fmt::Debug for EventSender<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

impl<E: Clone + Send + Sync + 'static> EventSender<E> {
    pub(crate) fn new() -> Self {
        EventSender { send: broadcast::Sender::new(EVENTS_KEPT) }
    }

    pub(crate) fn publish(&self, event: E) {
        // No subscribers is not an error.
        let _ = self.send.send(event);
    }

    pub(crate) fn subscribe(&self) -> Events<E> {
        Events::of_broadcast(Some(self.send.subscribe()), |_| None)
    }
}

/// The events of a candidate, and the state after the last one. Clones share both.
#[derive(Clone, Debug)]
pub(super) struct Lifecycle {
    sender: EventSender<ElectionEvent>,
    state: Arc<Mutex<ElectionState>>,
}

impl Lifecycle {
    pub(super) fn new() -> Self {
        Lifecycle { sender: EventSender::new(), state: Arc::default() }
    }

    pub(super) fn publish(&self, event: ElectionEvent) {
        *self.state.lock() = event.state();
        self.sender.publish(event);
    }

    pub(super) fn subscribe(&self) -> Events<ElectionEvent> {
        self.sender.subscribe()
    }

    pub(super) fn state(&self) -> ElectionState {
        *self.state.lock()
    }
}

/// The events of a candidate during its term. Dropping it reports that the candidate has stopped.
#[derive(Debug)]
pub(super) struct TermEvents {
    lifecycle: Lifecycle,
    has_ended: bool,
}

impl TermEvents {
    pub(super) fn new(lifecycle: &Lifecycle) -> Self {
        TermEvents { lifecycle: lifecycle.clone(), has_ended: false }
    }

    pub(super) fn lost(&self, token: u64) {
        self.lifecycle.publish(ElectionEvent::Lost { token });
    }

    /// Notes that the same term continues after a loss. This is not an event, because nothing has happened.
    pub(super) fn regained(&self) {
        *self.lifecycle.state.lock() = ElectionState::Elected;
    }

    /// Reports the start of a resignation now, and its end when this is dropped.
    pub(super) fn stopping(&mut self) {
        self.has_ended = true;
        self.lifecycle.publish(ElectionEvent::Stopping);
    }
}

impl Drop for TermEvents {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lifecycle.publish(ElectionEvent::Stopping);
        }
        self.lifecycle.publish(ElectionEvent::Stopped);
    }
}

/// The events of one campaign. Dropping it before its end means that the candidate withdrew.
pub(super) struct Progress<'a> {
    lifecycle: &'a Lifecycle,
    /// The node whose watch was reported, so that a change of its data is not reported again.
    behind: Mutex<Option<String>>,
    has_ended: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn start(lifecycle: &'a Lifecycle) -> Self {
        lifecycle.publish(ElectionEvent::Started);
        Progress { lifecycle, behind: Mutex::new(None), has_ended: false }
    }

    /// Reports a step on the way to the front of the line.
    pub(super) fn step(&self, step: Step<'_>) {
        match step {
            Step::Joining => self.lifecycle.publish(ElectionEvent::Offering),
            Step::Joined(node) => {
                self.lifecycle.publish(ElectionEvent::Offered { node: node.to_owned() });
            }
            Step::Looking => {
                *self.behind.lock() = None;
                self.lifecycle.publish(ElectionEvent::Determining);
            }
            Step::Watching(behind) => {
                if self.behind.lock().replace(behind.to_owned()).is_none() {
                    let behind = behind.to_owned();
                    self.lifecycle.publish(ElectionEvent::Ready { behind: behind.clone() });
                    self.lifecycle.publish(ElectionEvent::Waiting { behind });
                }
            }
        }
    }

    /// Reports how many are before the candidate at `ours`, and returns whose turn it is in a fair line.
    pub(super) fn determine(&self, places: &[Place], ours: usize) -> Turn {
        self.lifecycle.publish(ElectionEvent::Determined { ahead: ours });
        let turn = after_predecessor(places, ours);
        if turn == Turn::Ours {
            self.lifecycle.publish(ElectionEvent::Elected);
        }
        turn
    }

    pub(super) fn leading(mut self, token: u64) {
        self.has_ended = true;
        self.lifecycle.publish(ElectionEvent::Leading { token });
    }

    pub(super) fn failed(mut self, error: &Error) {
        self.has_ended = true;
        self.lifecycle.publish(ElectionEvent::Failed { error: error.clone() });
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lifecycle.publish(ElectionEvent::Stopping);
            self.lifecycle.publish(ElectionEvent::Stopped);
        }
    }
}
