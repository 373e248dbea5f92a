//! Several real server processes that form one ensemble, of either program or mixed.
//!
//! In: for each server its program and role, common settings, and the network. Out: servers that can be
//! started, stopped, killed, paused, given another program on the same data directory, and queried for the
//! leader. Ids count from 1. All processes are killed when the value is dropped, and when the process that
//! started them ends for any reason.
//! Not here: clients (`load`), and what must hold afterwards (`verdict`).

mod member;
mod namespaces;

pub use member::{Member, Mode, Role};
pub use namespaces::{Namespaces, Side, enter, inside, why_not};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::ports;
use crate::run;
use crate::server::{Jvm, Program, SUPER_DIGEST};
use member::Placement;

/// Java starts slowly, and more slowly if several start at once on few cores.
const SERVE_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);
const LEAD_TRIES_MAX: usize = 5;

/// Settings shared by all servers of an ensemble.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `tickTime`.
    pub tick_ms: u32,
    /// `syncLimit`, in ticks: how long to wait for a silent peer.
    pub sync_limit: u32,
    /// System properties, as `-Dname=value`.
    pub properties: Vec<(String, String)>,
    /// Further lines of every server's zoo.cfg.
    pub lines: Vec<String>,
    /// How Java runs Apache's servers.
    pub jvm: Jvm,
    /// The library for [`Member::set_clock`], which changes the wall clock of a server.
    pub faketime: Option<PathBuf>,
    /// Whether clients may change the membership.
    pub reconfig: bool,
}

impl Settings {
    /// Creates settings with all test interfaces enabled, small files, and frequent snapshots.
    pub fn new(tick_ms: u32, sync_limit: u32) -> Settings {
        let properties = [
            SUPER_DIGEST,
            ("zookeeper.extendedTypesEnabled", "true"),
            ("zookeeper.preAllocSize", "64"),
            ("zookeeper.snapCount", "2000"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
        let properties = properties.map(owned).to_vec();
        let (lines, jvm) = (Vec::new(), Jvm::Quick);
        let (faketime, reconfig) = (None, false);
        Settings { tick_ms, sync_limit, properties, lines, jvm, faketime, reconfig }
    }

    /// Sets a system property.
    pub fn property(mut self, name: &str, value: &str) -> Settings {
        self.properties.retain(|(own, _)| own != name);
        self.properties.push((name.into(), value.into()));
        self
    }
}

/// The network of an ensemble's servers.
pub enum Network {
    /// All on the loopback address, each with its own ports.
    Loopback,
    /// Each in its own network namespace; links can be cut.
    Namespaces(Namespaces),
}

/// The servers.
pub struct Ensemble {
    members: Vec<Member>,
    lines: Vec<String>,
    network: Network,
}

impl Ensemble {
    /// Creates the files of an ensemble in a directory; starts nothing.
    pub fn new(
        work: &Path,
        servers: &[(Program, Role)],
        settings: &Settings,
        network: Network,
    ) -> Result<Ensemble> {
        let places = (1..=servers.len()).map(|id| place(&network, id));
        let places = places.collect::<Result<Vec<_>>>()?;
        let lines: Vec<String> = (1..)
            .zip(servers)
            .zip(&places)
            .map(|((id, (_, role)), place)| place.server_line(id, *role, settings))
            .collect();
        let mut members = Vec::new();
        for ((id, (program, role)), place) in (1..).zip(servers).zip(places) {
            members.push(Member::lay_out(work, id, *program, *role, place, settings, &lines)?);
        }
        Ok(Ensemble { members, lines, network })
    }

    /// Returns a server.
    pub fn member(&self, id: usize) -> &Member {
        &self.members[id - 1]
    }

    /// Returns a server, to start or stop it.
    pub fn member_mut(&mut self, id: usize) -> &mut Member {
        &mut self.members[id - 1]
    }

    /// All ids.
    pub fn ids(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.members.len()
    }

    /// The client addresses of all servers, running or not.
    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.address().to_string()).collect()
    }

    /// The servers' lines in the membership.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the network namespaces, if the servers have their own.
    pub fn cables(&self) -> Option<&Namespaces> {
        match &self.network {
            Network::Loopback => None,
            Network::Namespaces(namespaces) => Some(namespaces),
        }
    }

    /// Starts all that are not running, and waits until one leads and all others serve.
    pub fn start_all(&mut self) -> Result<usize> {
        for member in self.members.iter_mut().filter(|member| !member.is_running()) {
            member.launch()?;
        }
        self.await_serving()
    }

    /// Starts one and waits until it serves.
    pub fn start(&mut self, id: usize) -> Result<()> {
        self.member_mut(id).launch()?;
        self.await_serving().map(drop)
    }

    /// Starts all, and makes this one the leader: it is started first, and any other leader is stopped
    /// until this one leads.
    pub fn start_all_led_by(&mut self, wanted: usize) -> Result<()> {
        self.member_mut(wanted).launch()?;
        self.member_mut(wanted).await_up()?;
        let mut leader = self.start_all()?;
        for _ in 0..LEAD_TRIES_MAX {
            if leader == wanted {
                return Ok(());
            }
            self.member_mut(leader).stop()?;
            let next = self.await_serving()?;
            self.start(leader)?;
            leader = next;
        }
        ensure!(leader == wanted, "server {wanted} never became the leader");
        Ok(())
    }

    /// Waits until one of the running servers leads and all others that are not paused follow or
    /// observe; returns the leader's id.
    pub fn await_serving(&mut self) -> Result<usize> {
        let deadline = Instant::now() + SERVE_MAX;
        loop {
            let modes = self.modes()?;
            let leaders = || modes.iter().filter(|(_, mode)| *mode == Some(Mode::Leader));
            let settled = modes.iter().all(|(id, mode)| self.member(*id).is_fit_for(*mode));
            if settled && let [(leader, _)] = leaders().collect::<Vec<_>>()[..] {
                return Ok(*leader);
            }
            ensure!(
                Instant::now() < deadline,
                "the ensemble does not settle: {modes:?}\n{}",
                self.log_tails()
            );
            std::thread::sleep(POLL);
        }
    }

    /// The mode that each running, unpaused server reports; `None` if it does not serve.
    pub fn modes(&mut self) -> Result<Vec<(usize, Option<Mode>)>> {
        let mut modes = Vec::new();
        for member in self.members.iter_mut().filter(|member| member.is_awake()) {
            member.ensure_alive()?;
            modes.push((member.id(), member.mode()));
        }
        Ok(modes)
    }

    /// Returns the leader, if a server reports that it leads. There may be two until an old leader notices that it was
    /// replaced.
    pub fn leader(&mut self) -> Result<Option<usize>> {
        let modes = self.modes()?;
        Ok(modes.iter().find(|(_, mode)| *mode == Some(Mode::Leader)).map(|(id, _)| *id))
    }

    /// Kills these servers at the same moment.
    pub fn kill(&mut self, ids: &[usize]) -> Result<()> {
        ids.iter().try_for_each(|id| self.member_mut(*id).send_kill())?;
        ids.iter().try_for_each(|id| self.member_mut(*id).kill())
    }

    /// Stops all running servers with SIGTERM.
    pub fn stop_all(&mut self) -> Result<()> {
        for member in self.members.iter_mut().filter(|member| member.is_running()) {
            member.stop().with_context(|| format!("stopping server {}", member.id()))?;
        }
        Ok(())
    }

    fn log_tails(&self) -> String {
        let tail = |member: &Member| {
            format!("-- {member}: {}", run::tail(&member.log_path(), 12)).trim_end().to_string()
        };
        self.members.iter().map(tail).collect::<Vec<_>>().join("\n")
    }
}

fn place(network: &Network, id: usize) -> Result<Placement> {
    match network {
        Network::Loopback => {
            let port = ports::free_ports(3)?;
            Ok(Placement {
                client: ("127.0.0.1".into(), port),
                quorum: ("127.0.0.1".into(), port + 1, port + 2),
                within: dies_with_us(),
            })
        }
        Network::Namespaces(namespaces) => Ok(Placement {
            client: (namespaces.client_host(id), 2181),
            quorum: (namespaces.quorum_host(id), 2888, 3888),
            within: namespaces.within(id),
        }),
    }
}

/// A server must not outlive this process even if it is killed. The kernel ties it to the thread that
/// starts it, so only the main thread starts servers.
pub fn dies_with_us() -> Vec<String> {
    if run::exists("setpriv") {
        ["setpriv", "--pdeathsig", "KILL"].map(Into::into).to_vec()
    } else {
        Vec::new()
    }
}
