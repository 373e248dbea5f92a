//! One round: one workload against one target, with connections of its own.
//!
//! Connections are opened before the warm-up and closed afterwards, in every round. Kept ones would have to
//! be kept alive while other targets are measured, and a round would depend on what the one before left.

use std::time::Duration;

use anyhow::Result;

use crate::arguments::{Shape, Znodes};
use crate::closed_loop::{Contents, Drive, Until};
use crate::dial::{close_lanes, open_lanes};
use crate::keys::KeyPicker;
use crate::lane::Lane;
use crate::load::Load;
use crate::names::Family;
use crate::parts::{Part, drive_all};
use crate::progress::Progress;
use crate::report::Round;
use crate::stage::keys_family;
use crate::stop::Stop;
use crate::sweep::{Extent, sweep};
use crate::tally::{LastReply, Tally, Window};
use crate::target::Target;
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
pub(crate) struct Setting<'a> {
    pub(crate) target: &'a Target,
    pub(crate) shape: &'a Shape,
    pub(crate) znodes: &'a Znodes,
    pub(crate) stop: &'a Stop,
    pub(crate) progress: Progress,
    /// Tells rounds apart: keys are picked differently in each.
    pub(crate) seed: u64,
}

/// Measures one round.
pub(crate) fn run_round(workload: Workload, setting: &Setting<'_>) -> Result<Round> {
    let (bytes, lanes) = (setting.znodes.value_bytes, setting.lanes_of_a_thread());
    let keys = || keys_family(setting.znodes);
    let round = match workload {
        Workload::Get => {
            setting.pipelined(|part| Get::new(&keys(), setting.picker(part), lanes, bytes))
        }
        Workload::Set => {
            setting.pipelined(|part| Set::new(&keys(), setting.picker(part), lanes, bytes))
        }
        Workload::Exists => {
            setting.pipelined(|part| Exists::new(&keys(), setting.picker(part), lanes, bytes))
        }
        Workload::Multi => {
            setting.pipelined(|part| Multi::new(&keys(), setting.picker(part), lanes, bytes))
        }
        Workload::Mixed => setting.pipelined(|part| {
            let percent = setting.shape.read_percent;
            Mixed::new(&keys(), setting.picker(part), percent, lanes, bytes)
        }),
        Workload::Children => setting.pipelined(|part| {
            Children::new(&setting.family(workload), setting.picker(part), setting.shape.children)
        }),
        Workload::Ephemeral => {
            setting.pipelined(|part| Ephemeral::new(&setting.family(workload), bytes, part, lanes))
        }
        Workload::Create => setting.create(),
        Workload::Delete => setting.delete(),
        Workload::Session => session::measure(setting),
        Workload::Watch => {
            let lanes = setting.shape.connections + watch::WRITERS;
            setting.unpipelined(lanes, Watch::new(setting.family(workload).parent_path(0), lanes))
        }
        Workload::Lock => {
            let lanes = setting.shape.connections;
            setting.unpipelined(lanes, Lock::new(setting.family(workload).parent_path(0), lanes))
        }
    };
    round.map(Tally::into_round)
}

impl Setting<'_> {
    /// The znodes of a workload that has its own.
    pub(crate) fn family(&self, workload: Workload) -> Family {
        family_of(workload, self.znodes, self.shape)
    }

    pub(crate) fn window(&self) -> Window {
        Window::after(self.shape.warmup, self.shape.duration)
    }

    fn picker(&self, part: Part) -> KeyPicker {
        let seed = self.seed << 16 | u64::from(part.index);
        KeyPicker::new(self.znodes.keys, self.shape.distribution, seed)
    }

    /// There is no use in a thread without connections.
    fn threads(&self) -> u32 {
        self.shape.threads.min(self.shape.connections) as u32
    }

    fn lanes_of_a_thread(&self) -> usize {
        self.shape.connections.div_ceil(self.threads() as usize)
    }

    fn loads<L>(&self, make: impl Fn(Part) -> L) -> Vec<L> {
        let of = self.threads();
        (0..of).map(|index| make(Part { index, of })).collect()
    }

    /// One load for each thread, `depth` requests in flight.
    fn pipelined<L: Load + Send>(&self, make: impl Fn(Part) -> L) -> Result<Tally> {
        let mut lanes = open_lanes(self.target, self.shape.connections)?;
        let (_, tally) = self.drive(&mut lanes, self.loads(make), self.window())?;
        close_lanes(lanes);
        Ok(tally)
    }

    /// One load on one thread, which decides itself when a lane has something to ask.
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
        let how = Drive {
            depth: self.shape.depth,
            until: Until::Closed(window),
            contents,
            last_reply: &last_reply,
            stop: self.stop,
        };
        drive_all(lanes, loads, how)
    }

    fn create(&self) -> Result<Tally> {
        let (family, bytes) = (self.family(Workload::Create), self.znodes.value_bytes);
        let tally = self.pipelined(|part| Create::new(&family, bytes, part, u32::MAX))?;
        self.sweep_leaves(&family)?;
        Ok(tally)
    }

    /// Creates for as long as it will delete, then deletes. Where deletes are faster than creates, the znodes
    /// are gone before the time is over, and the measurement ends there.
    fn delete(&self) -> Result<Tally> {
        let (family, bytes) = (self.family(Workload::Delete), self.znodes.value_bytes);
        let mut lanes = open_lanes(self.target, self.shape.connections)?;
        let creates = self.loads(|part| Create::new(&family, bytes, part, u32::MAX));
        let (created, mut creating) = self.drive(&mut lanes, creates, self.window())?;
        let deletes = self
            .loads(|part| Delete::new(&family, part, created[part.index as usize].next_number()));
        // Server and connections are warm from creating.
        let window = Window::after(Duration::ZERO, self.shape.duration);
        let (_, tally) = self.drive(&mut lanes, deletes, window)?;
        close_lanes(lanes);
        self.sweep_leaves(&family)?;
        creating.keep_errors_only();
        creating.merge(tally);
        Ok(creating)
    }

    /// Every round begins with the same tree.
    fn sweep_leaves(&self, family: &Family) -> Result<()> {
        if self.target.is_echo() {
            return Ok(());
        }
        sweep(self.target, vec![family.top().to_owned()], 1, Extent::Leaves, self.progress)
    }
}

/// The znodes of a workload. Those that work on keys share one family.
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
