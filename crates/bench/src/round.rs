//! One round: one workload against one target, with its own connections.
//!
//! In every round, connections are opened before the warm-up and closed afterwards. Otherwise they would have to be
//! kept alive while other targets are measured, and a round would depend on the state that the previous one left.

use std::time::Duration;

use anyhow::Result;

use crate::arguments::{Shape, Znodes};
use crate::closed_loop::{Contents, DriveOptions, Until};
use crate::dial::{close_lanes, open_lanes};
use crate::keys::KeyPicker;
use crate::lane::Lane;
use crate::load::Load;
use crate::names::Family;
use crate::progress::Progress;
use crate::report::Round;
use crate::setup::keys_family;
use crate::stop::Stop;
use crate::sweep::{Extent, sweep};
use crate::tally::{LastReply, Tally, Window};
use crate::target::Target;
use crate::threads::{ThreadShare, drive_all};
use crate::workload::Workload;
use crate::workload::children::{Children, listed_znodes};
use crate::workload::create::Create;
use crate::workload::delete::Delete;
use crate::workload::ephemeral::Ephemeral;
use crate::workload::exists::Exists;
use crate::workload::get::Get;
use crate::workload::lock::Lock;
use crate::workload::mixed::Mixed;
use crate::workload::multi::Multi;
use crate::workload::set::Set;
use crate::workload::watch::Watch;
use crate::workload::{session, watch};

/// Everything that a round depends on.
#[derive(Clone, Copy)]
pub(crate) struct RoundContext<'a> {
    pub(crate) target: &'a Target,
    pub(crate) shape: &'a Shape,
    pub(crate) znodes: &'a Znodes,
    pub(crate) stop: &'a Stop,
    pub(crate) progress: Progress,
    /// Differs in each round, so that keys are picked differently.
    pub(crate) seed: u64,
}

/// Measures one round.
pub(crate) fn run_round(workload: Workload, context: &RoundContext<'_>) -> Result<Round> {
    let (bytes, lanes) = (context.znodes.value_bytes, context.lanes_of_a_thread());
    let keys = || keys_family(context.znodes);
    let round = match workload {
        Workload::Get => {
            context.pipelined(|share| Get::new(&keys(), context.picker(share), lanes, bytes))
        }
        Workload::Set => {
            context.pipelined(|share| Set::new(&keys(), context.picker(share), lanes, bytes))
        }
        Workload::Exists => {
            context.pipelined(|share| Exists::new(&keys(), context.picker(share), lanes, bytes))
        }
        Workload::Multi => {
            context.pipelined(|share| Multi::new(&keys(), context.picker(share), lanes, bytes))
        }
        Workload::Mixed => context.pipelined(|share| {
            let percent = context.shape.read_percent;
            Mixed::new(&keys(), context.picker(share), percent, lanes, bytes)
        }),
        Workload::Children => context.pipelined(|share| {
            Children::new(&context.family(workload), context.picker(share), context.shape.children)
        }),
        Workload::Ephemeral => context
            .pipelined(|share| Ephemeral::new(&context.family(workload), bytes, share, lanes)),
        Workload::Create => context.create(),
        Workload::Delete => context.delete(),
        Workload::Session => session::measure(context),
        Workload::Watch => {
            let lanes = context.shape.connections + watch::WRITERS;
            context.unpipelined(lanes, Watch::new(context.family(workload).parent_path(0), lanes))
        }
        Workload::Lock => {
            let lanes = context.shape.connections;
            context.unpipelined(lanes, Lock::new(context.family(workload).parent_path(0), lanes))
        }
    };
    round.map(Tally::into_round)
}

impl RoundContext<'_> {
    /// Returns the znodes of a workload that has its own.
    pub(crate) fn family(&self, workload: Workload) -> Family {
        family_of(workload, self.znodes, self.shape)
    }

    pub(crate) fn window(&self) -> Window {
        Window::after(self.shape.warmup, self.shape.duration)
    }

    fn picker(&self, share: ThreadShare) -> KeyPicker {
        let seed = self.seed << 16 | u64::from(share.index);
        KeyPicker::new(self.znodes.keys, self.shape.distribution, seed)
    }

    /// Returns the number of threads, without those that would have no connections.
    fn threads(&self) -> u32 {
        self.shape.threads.min(self.shape.connections) as u32
    }

    fn lanes_of_a_thread(&self) -> usize {
        self.shape.connections.div_ceil(self.threads() as usize)
    }

    fn loads<L>(&self, make: impl Fn(ThreadShare) -> L) -> Vec<L> {
        let of = self.threads();
        (0..of).map(|index| make(ThreadShare { index, of })).collect()
    }

    /// Runs one load for each thread, with `depth` requests in flight.
    fn pipelined<L: Load + Send>(&self, make: impl Fn(ThreadShare) -> L) -> Result<Tally> {
        let mut lanes = open_lanes(self.target, self.shape.connections)?;
        let (_, tally) = self.drive(&mut lanes, self.loads(make), self.window())?;
        close_lanes(lanes);
        Ok(tally)
    }

    /// Runs one load on one thread, which decides when a lane has a request.
    fn unpipelined<L: Load + Send>(&self, lanes: usize, load: L) -> Result<Tally> {
        let mut lanes = open_lanes(self.target, lanes)?;
        let (_, tally) = self.drive(&mut lanes, vec![load], self.window())?;
        close_lanes(lanes);
        Ok(tally)
    }

    fn drive<L: Load + Send>(
        &self,
        lanes: &mut Vec<Lane>,
        loads: Vec<L>,
        window: Window,
    ) -> Result<(Vec<L>, Tally)> {
        let last_reply = LastReply::at(window.opens);
        let contents = if self.target.is_echo() { Contents::Ignored } else { Contents::Checked };
        let options = DriveOptions {
            depth: self.shape.depth,
            until: Until::Closed(window),
            contents,
            last_reply: &last_reply,
            stop: self.stop,
        };
        drive_all(lanes, loads, options)
    }

    fn create(&self) -> Result<Tally> {
        let (family, bytes) = (self.family(Workload::Create), self.znodes.value_bytes);
        let tally = self.pipelined(|share| Create::new(&family, bytes, share, u32::MAX))?;
        self.sweep_leaves(&family)?;
        Ok(tally)
    }

    /// Creates znodes for as long as they will be deleted, then deletes them. If deletes are faster than creates, the
    /// measurement ends early when no znode is left.
    fn delete(&self) -> Result<Tally> {
        let (family, bytes) = (self.family(Workload::Delete), self.znodes.value_bytes);
        let mut lanes = open_lanes(self.target, self.shape.connections)?;
        let creates = self.loads(|share| Create::new(&family, bytes, share, u32::MAX));
        let (created, mut creating) = self.drive(&mut lanes, creates, self.window())?;
        let deletes = self.loads(|share| {
            Delete::new(&family, share, created[share.index as usize].next_number())
        });
        // The server and the connections are already warm.
        let window = Window::after(Duration::ZERO, self.shape.duration);
        let (_, tally) = self.drive(&mut lanes, deletes, window)?;
        close_lanes(lanes);
        self.sweep_leaves(&family)?;
        creating.keep_errors_only();
        creating.merge(tally);
        Ok(creating)
    }

    /// Deletes the leaves, so that every round begins with the same tree.
    fn sweep_leaves(&self, family: &Family) -> Result<()> {
        if self.target.is_echo() {
            return Ok(());
        }
        sweep(self.target, vec![family.top().to_owned()], 1, Extent::Leaves, self.progress)
    }
}

/// Returns the znodes of a workload. Workloads that use keys share one family.
pub(crate) fn family_of(workload: Workload, znodes: &Znodes, shape: &Shape) -> Family {
    match workload {
        Workload::Children => {
            Family::new(&znodes.root, workload.name(), listed_znodes(shape.children))
        }
        Workload::Create | Workload::Delete | Workload::Ephemeral => {
            Family::new(&znodes.root, workload.name(), shape.parents)
        }
        Workload::Watch | Workload::Lock | Workload::Session => {
            Family::new(&znodes.root, workload.name(), 1)
        }
        Workload::Get | Workload::Set | Workload::Exists | Workload::Multi | Workload::Mixed => {
            keys_family(znodes)
        }
    }
}
