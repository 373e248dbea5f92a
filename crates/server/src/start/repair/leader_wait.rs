//! Watches a server that has joined a leader because it cannot use its files: if that leader is gone before its tree
//! has replaced them, the other members may need this server. Its files are unchanged, so the repair can begin again.

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
    let mut wait = Wait::since(Instant::now());
    while !stop.wait(LOOK_EVERY) {
        let seen = core.with_node(|node| {
            node.zab().map(|zab| (zab.starts_over(), zab.has_answer_of_leader()))
        });
        let (starts_over, has_leader) = seen.unwrap_or_default();
        match wait.look(Instant::now(), starts_over, has_leader) {
            Look::Waits => {}
            Look::IsOver => return,
            Look::LeaderGone { seconds } => {
                return core.report_fatal(ServerFailure::LeaderGone { seconds });
            }
        }
    }
}

/// Since when there is no leader.
struct Wait {
    answered: Instant,
}

/// What a look at the server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Waits,
    /// The leader's tree has replaced the files.
    IsOver,
    LeaderGone {
        seconds: u64,
    },
}

impl Wait {
    fn since(now: Instant) -> Self {
        Wait { answered: now }
    }

    fn look(&mut self, now: Instant, starts_over: bool, has_leader: bool) -> Look {
        if !starts_over {
            return Look::IsOver;
        }
        if has_leader {
            self.answered = now;
        }
        let without = now - self.answered;
        match without >= WITHOUT_LEADER_MAX {
            true => Look::LeaderGone { seconds: without.as_secs() },
            false => Look::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each second shows: whether the files are still to be replaced, and whether a leader answers.
    fn look_each_second(seen: impl IntoIterator<Item = (bool, bool)>) -> (usize, Look) {
        let start = Instant::now();
        let mut wait = Wait::since(start);
        let mut seconds = 0;
        for (starts_over, has_leader) in seen {
            seconds += 1;
            let now = start + Duration::from_secs(seconds as u64);
            match wait.look(now, starts_over, has_leader) {
                Look::Waits => {}
                look => return (seconds, look),
            }
        }
        (seconds, Look::Waits)
    }

    #[test]
    fn a_leader_may_be_away_for_a_minute() {
        let gone = |seconds| std::iter::repeat_n((true, false), seconds);
        let there = std::iter::repeat_n((true, true), 1000);
        assert_eq!(look_each_second(gone(1000)), (60, Look::LeaderGone { seconds: 60 }));
        assert_eq!(look_each_second(there.clone()), (1000, Look::Waits));
        // Another one is elected in time, and then goes for good.
        let changing = gone(59).chain(there).chain(gone(1000));
        assert_eq!(look_each_second(changing), (1119, Look::LeaderGone { seconds: 60 }));
        assert_eq!(look_each_second(gone(59).chain([(false, false)])), (60, Look::IsOver));
    }
}
