//! The attacked servers: a standalone server, or a follower of an ensemble of three.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::attack::{Attack, Servers};
use super::tls::Certificates;
use crate::ensemble::{Ensemble, Network, Role, Settings, dies_with_us};
use crate::paths;
use crate::ports::free_ports;
use crate::run;
use crate::server::{Program, Server, Spec};

/// The resources of an attack must be released within this time; sessions need their timeout.
const RECOVERY_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// Descriptors that vary by themselves: log and snapshot files, and our own connections.
const DESCRIPTORS_FREE: usize = 8;
/// Short, so that sessions of attackers expire soon.
const TICK_MS: u32 = 500;
const SYNC_LIMIT: u32 = 10;

/// The open resources of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    descriptors: usize,
    connections: usize,
    sessions: usize,
}

/// What attackers know about the server.
pub struct Target {
    /// `host:port` for clients.
    pub address: String,
    /// The same with TLS, if there is such a port.
    pub secure: Option<String>,
}

enum Running {
    Alone(Server),
    Follower { ensemble: Ensemble, id: usize },
}

/// The servers, and the one that is attacked.
pub struct Site {
    running: Running,
    target: Target,
}

impl Site {
    /// Starts what the attack needs.
    pub fn start(attack: &Attack) -> Result<Site> {
        let work = paths::fresh_dir(&format!("hostile-{}", attack.name))?;
        let mut lines: Vec<String> = attack.settings.iter().map(ToString::to_string).collect();
        if let Servers::Three = attack.servers {
            let mut settings = Settings::new(TICK_MS, SYNC_LIMIT);
            lines.push("maxClientCnxns=0".into());
            settings.lines = lines;
            let servers = [(Program::Herdsman, Role::Participant); 3];
            let mut ensemble = Ensemble::new(&work, &servers, &settings, Network::Loopback)?;
            let leader = ensemble.start_all()?;
            let id = ensemble.ids().find(|id| *id != leader).context("two of three follow")?;
            let target =
                Target { address: ensemble.member(id).address().to_string(), secure: None };
            return Ok(Site { running: Running::Follower { ensemble, id }, target });
        }
        let mut spec = Spec::new(Program::Herdsman, &work.join("data"));
        // Log files are started and snapshots taken all the time: an attack must not prevent that.
        spec = spec.property("zookeeper.snapCount", "500");
        spec.within = dies_with_us();
        if let Servers::AloneWithDescriptors(count) = attack.servers {
            ensure!(run::exists("prlimit"), "prlimit is missing; it is in Debian's util-linux");
            spec.within.extend(["prlimit".to_owned(), format!("--nofile={count}:{count}")]);
        }
        let mut secure = None;
        if let Servers::AloneWithTls = attack.servers {
            let port = free_ports(1)?;
            lines.push(format!("secureClientPort={port}"));
            lines.push("secureClientPortAddress=127.0.0.1".into());
            lines.extend(Certificates::make(&work)?.settings());
            secure = Some(format!("127.0.0.1:{port}"));
        }
        lines.push(format!("tickTime={TICK_MS}"));
        spec.settings = lines;
        let server = spec.start()?;
        let target = Target { address: server.address.clone(), secure };
        Ok(Site { running: Running::Alone(server), target })
    }

    /// What attackers know.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Where good clients are served.
    pub fn address(&self) -> &str {
        &self.target.address
    }

    /// Fails if a server has ended or changed its role.
    pub fn ensure_alive(&mut self) -> Result<()> {
        match &mut self.running {
            Running::Alone(server) => server.ensure_alive(),
            Running::Follower { ensemble, id } => {
                let modes = ensemble.modes()?;
                let is_following = modes.contains(&(*id, Some(crate::ensemble::Mode::Follower)));
                ensure!(is_following, "server {id} no longer follows: {modes:?}");
                Ok(())
            }
        }
    }

    fn attacked(&self) -> Result<&Server> {
        match &self.running {
            Running::Alone(server) => Ok(server),
            Running::Follower { ensemble, id } => {
                ensemble.member(*id).server().context("the follower does not run")
            }
        }
    }

    /// The peak memory of the attacked server.
    pub fn peak_bytes(&self) -> Result<u64> {
        self.attacked()?.peak_resident_bytes()
    }

    /// The open resources of the attacked server.
    pub fn levels(&self) -> Result<Levels> {
        let server = self.attacked()?;
        let text = server.four_letters("mntr")?;
        let value = |name: &str| -> Result<usize> {
            let mut pairs = text.lines().filter_map(|line| line.split_once('\t'));
            let found = pairs.find(|(known, _)| *known == name);
            let (_, value) = found.with_context(|| format!("mntr does not print {name}"))?;
            Ok(value.trim().parse()?)
        };
        Ok(Levels {
            descriptors: server.descriptors()?,
            connections: value("zk_num_alive_connections")?,
            sessions: value("zk_global_sessions")?,
        })
    }

    /// Waits until the server has about as many open resources as before the attack.
    pub fn await_levels(
        &self,
        before: Levels,
        mut meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + RECOVERY_MAX;
        loop {
            meanwhile()?;
            let now = self.levels();
            let is_recovered = now.as_ref().is_ok_and(|now| now.is_about(before));
            if is_recovered {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("not released: {before:?} before the attack, {now:?} after it");
            }
            std::thread::sleep(POLL);
        }
    }

    /// Stops the servers with SIGTERM: they must still react to it.
    pub fn stop(self) -> Result<()> {
        match self.running {
            Running::Alone(server) => server.stop(),
            Running::Follower { mut ensemble, .. } => ensemble.stop_all(),
        }
    }
}

impl Levels {
    fn is_about(&self, before: Levels) -> bool {
        // The connection of the query itself may be counted or not.
        self.connections <= before.connections + 1
            && self.sessions <= before.sessions
            && self.descriptors <= before.descriptors + DESCRIPTORS_FREE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_are_not_released_are_detected() {
        let before = Levels { descriptors: 50, connections: 4, sessions: 3 };
        assert!(before.is_about(before));
        assert!(Levels { descriptors: 55, connections: 5, ..before }.is_about(before));
        assert!(!Levels { descriptors: 60, ..before }.is_about(before));
        assert!(!Levels { connections: 6, ..before }.is_about(before));
        assert!(!Levels { sessions: 4, ..before }.is_about(before));
    }
}
