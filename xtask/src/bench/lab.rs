//! The measured servers: Herdsman and Apache 3.9.5, with the same zoo.cfg, the same properties, and data
//! directories on the same disk.
//!
//! Parts that only send load share one running pair, so that Java's compiler has warmed up before most of
//! them start. Parts that need other servers start them from [`Lab::spec`], one at a time. All servers are
//! killed when the lab is dropped, and when this process ends for any reason.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::generator::{self, Target};
use super::raw::{APACHE, HERDSMAN};
use super::scale::Scale;
use crate::ensemble::{Ensemble, Network, Role, Settings, dies_with_us};
use crate::server::{Jvm, Program, Server, Spec};

/// The compared programs, in this order.
pub const PROGRAMS: [Program; 2] = [Program::Herdsman, Program::Apache];
/// Java's heap in Apache's own start script.
pub const HEAP_MIB: u32 = 1000;
/// The path of the znodes on a filled server.
pub const FILL_ROOT: &str = "/filled";

const TICK_MS: u32 = 2000;
const SYNC_LIMIT: u32 = 5;
const SERVERS: usize = 3;

/// A program's name in reports.
pub fn target_name(program: Program) -> &'static str {
    match program {
        Program::Herdsman => HERDSMAN,
        Program::Apache | Program::Apache38 => APACHE,
    }
}

/// The number of servers of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A standalone server.
    One,
    /// An ensemble of three.
    Three,
}

enum Running {
    One(Vec<(Program, Server)>),
    Three(Vec<(Program, Ensemble)>),
}

/// Provides servers to the parts.
pub struct Lab {
    /// Sizes and times.
    pub scale: Scale,
    work: PathBuf,
    running: Option<Running>,
    filled: Vec<(Program, PathBuf)>,
}

impl Lab {
    /// Creates an empty directory for the data directories.
    pub fn open(work: &Path, scale: Scale) -> Result<Lab> {
        remove(work)?;
        fs::create_dir_all(work).with_context(|| format!("creating {}", work.display()))?;
        Ok(Lab { scale, work: work.to_path_buf(), running: None, filled: Vec::new() })
    }

    /// A directory on the disk that the servers use.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Both programs, running at the same time with empty trees; the current ones if they have the same
    /// size.
    pub fn side_by_side(&mut self, size: Size) -> Result<Vec<Target>> {
        let fits = match &self.running {
            Some(Running::One(_)) => size == Size::One,
            Some(Running::Three(_)) => size == Size::Three,
            None => false,
        };
        if !fits {
            self.stop();
            self.running = Some(self.start(size)?);
        }
        Ok(match &self.running {
            Some(Running::One(servers)) => {
                servers.iter().map(|(program, server)| target(*program, server)).collect()
            }
            Some(Running::Three(ensembles)) => ensembles.iter().map(three_target).collect(),
            None => Vec::new(),
        })
    }

    /// Stops the shared servers, if there are any, and removes their data.
    pub fn stop(&mut self) {
        self.running = None;
        for name in ["one", "three"] {
            // A directory that could not be removed only takes space: the next start empties it.
            let _ = remove(&self.work.join(name));
        }
    }

    fn start(&self, size: Size) -> Result<Running> {
        match size {
            Size::One => {
                let start = |program: Program| {
                    let dir = self.fresh(&format!("one/{}", program.name()))?;
                    Ok((program, spec(program, &dir.join("data")).start()?))
                };
                Ok(Running::One(PROGRAMS.into_iter().map(start).collect::<Result<_>>()?))
            }
            Size::Three => {
                let start = |program: Program| {
                    let dir = self.fresh(&format!("three/{}", program.name()))?;
                    Ok((program, start_three(program, &dir)?))
                };
                Ok(Running::Three(PROGRAMS.into_iter().map(start).collect::<Result<_>>()?))
            }
        }
    }

    /// Creates an empty directory.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let dir = self.work.join(name);
        remove(&dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(dir)
    }

    /// Copies the data directory of a server that was filled with [`Scale::znodes`] znodes and then killed.
    pub fn filled_copy(&mut self, program: Program) -> Result<PathBuf> {
        if !self.filled.iter().any(|(own, _)| *own == program) {
            let dir = self.fresh(&filled_name(program))?.join("data");
            let server = spec(program, &dir).start()?;
            generator::fill(&target(program, &server), FILL_ROOT, self.scale.znodes)?;
            self.keep_filled(program, server, dir)?;
        }
        let found = self.filled.iter().find(|(own, _)| *own == program);
        let (_, filled) = found.context("it was filled above")?;
        let copy = self.fresh(&format!("copy-{}", program.name()))?.join("data");
        crate::paths::copy_dir(filled, &copy)?;
        // Data of the copy that is still to be written must not slow down the server that starts on it.
        rustix::fs::sync();
        Ok(copy)
    }

    /// The directory of the server that [`Lab::filled_copy`] fills.
    pub fn filled_dir(&self, program: Program) -> Result<PathBuf> {
        Ok(self.fresh(&filled_name(program))?.join("data"))
    }

    /// Kills a filled server and keeps its data directory for [`Lab::filled_copy`].
    pub fn keep_filled(&mut self, program: Program, server: Server, dir: PathBuf) -> Result<()> {
        server.kill()?;
        self.filled.retain(|(own, _)| *own != program);
        self.filled.push((program, dir));
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop();
        // Gigabytes that are no longer needed; leftovers are removed by the next run.
        let _ = remove(&self.work);
    }
}

/// A standalone server with the settings used for all measurements.
pub fn spec(program: Program, data_dir: &Path) -> Spec {
    let plain = Spec::plain(program, data_dir).property("zookeeper.forceSync", "yes");
    Spec { jvm: Jvm::Usual { heap_mib: HEAP_MIB }, within: dies_with_us(), ..plain }
}

/// An ensemble with the settings used for all measurements.
pub fn ensemble_settings() -> Settings {
    let force_sync = ("zookeeper.forceSync".to_string(), "yes".to_string());
    let jvm = Jvm::Usual { heap_mib: HEAP_MIB };
    let (properties, lines) = (vec![force_sync], Vec::new());
    Settings {
        tick_ms: TICK_MS,
        sync_limit: SYNC_LIMIT,
        properties,
        lines,
        jvm,
        faketime: None,
        reconfig: false,
    }
}

fn start_three(program: Program, dir: &Path) -> Result<Ensemble> {
    let servers = [(program, Role::Participant); SERVERS];
    let mut ensemble = Ensemble::new(dir, &servers, &ensemble_settings(), Network::Loopback)?;
    ensemble.start_all()?;
    Ok(ensemble)
}

/// A server as a target of the load generator.
pub fn target(program: Program, server: &Server) -> Target {
    Target { name: target_name(program), addresses: vec![server.address.clone()] }
}

fn three_target((program, ensemble): &(Program, Ensemble)) -> Target {
    Target { name: target_name(*program), addresses: ensemble.addresses() }
}

fn filled_name(program: Program) -> String {
    format!("filled-{}", program.name())
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    Ok(())
}
