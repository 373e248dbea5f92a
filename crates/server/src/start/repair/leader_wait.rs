//! Watches a server that has joined a leader because it cannot use its files: if that leader is gone before its tree has
//! replaced them, the other members may need this server. Its files are unchanged, so the repair can begin again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use herdsman_runtime::spawn;

use crate::core::Core;
use crate::error::ServerFailure;
use crate::start::repair::FilesState;
use crate::start::stop_signal::StopSignal;

/// How long there may be no leader. An election takes much less.
const WITHOUT_LEADER_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The thread that watches.
pub(crate) struct LeaderWait {
    stop: StopSignal,
    handle: JoinHandle<()>,
}

impl LeaderWait {
    /// Starts it for a server that cannot use its files.
    pub fn start_if(files: FilesState, core: &Arc<Core>) -> std::io::Result<Option<Self>> {
        if files == FilesState::Whole {
            return Ok(None);
        }
        let stop = StopSignal::default();
        let (core, stopped) = (Arc::clone(core), stop.clone());
        let handle = spawn("leader-wait", move || watch(&core, &stopped))?;
        Ok(Some(LeaderWait { stop, handle }))
    }

    pub fn stop(self) {
        self.stop.stop();
        _ = self.handle.join();
    }
}

fn watch(core: &Core, stop: &StopSignal) {
    let mut answered = Instant::now();
    while !stop.wait(LOOK_EVERY) {
        let (starts_over, has_leader) = core.with_node(|node| match node.zab() {
            Some(zab) => (zab.starts_over(), zab.has_answer_of_leader()),
            None => (false, false),
        });
        if !starts_over {
            return;
        }
        if has_leader {
            answered = Instant::now();
        } else if answered.elapsed() >= WITHOUT_LEADER_MAX {
            let seconds = answered.elapsed().as_secs();
            return core.report_fatal(ServerFailure::LeaderGone { seconds });
        }
    }
}
