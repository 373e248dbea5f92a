//! The directory and ports of an ensemble in one process, and a zoo.cfg for each server.
//!
//! ```text
//! DIR/ensemble.lock       only one process at a time
//! DIR/1/zoo.cfg           also works with `herdsman server DIR/1/zoo.cfg`, and with Apache's server
//! DIR/1/data/myid         and the files that the server writes
//! DIR/2/…
//! ```
//!
//! In: the number of servers, and optionally a directory. Out: all of the above on disk. Ports are those of the last
//! start in this directory; in a new directory they are the standard ones (from 2181, 2888, 3888 and 8080 on). A port
//! that is in use is replaced by a free one. Nothing reserves a port until its server opens it.

use std::fs::{self, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use herdsman_config::Config;
use herdsman_config::SystemProperties;
use tempfile::TempDir;
use tracing::warn;

/// The ports of the first server; those of the other servers follow.
const CLIENT_PORT: u16 = 2181;
const QUORUM_PORT: u16 = 2888;
const ELECTION_PORT: u16 = 3888;
const ADMIN_PORT: u16 = 8080;

/// The ports of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    client: u16,
    quorum: u16,
    election: u16,
    admin: u16,
}

/// Which ports a new ensemble uses if they are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreferredPorts {
    /// ZooKeeper's default ports, counting up from them.
    Standard,
    /// Any free ports: for tests, which run at the same time.
    #[cfg(test)]
    Any,
}

impl PreferredPorts {
    fn ports(self, index: u16) -> Ports {
        match self {
            PreferredPorts::Standard => Ports {
                client: CLIENT_PORT + index,
                quorum: QUORUM_PORT + index,
                election: ELECTION_PORT + index,
                admin: ADMIN_PORT + index,
            },
            // The system chooses the ports.
            #[cfg(test)]
            PreferredPorts::Any => Ports { client: 0, quorum: 0, election: 0, admin: 0 },
        }
    }
}

/// The files and the address of one server.
pub(super) struct MemberLayout {
    pub id: u8,
    pub zoo_cfg: PathBuf,
    pub client_address: String,
}

/// A directory with the files that the servers need to start.
pub(super) struct Layout {
    root: PathBuf,
    ports: Vec<Ports>,
    /// Set if the directory is temporary; removed with this.
    temporary: Option<TempDir>,
    _lock: File,
}

impl Layout {
    /// Creates the directory, or reuses one that was created before.
    pub fn prepare(
        count: u8,
        dir: Option<&Path>,
        preferred: PreferredPorts,
    ) -> anyhow::Result<Self> {
        let (root, temporary) = match dir {
            Some(dir) => (std::path::absolute(dir)?, None),
            None => {
                let temporary = TempDir::with_prefix("herdsman-ensemble-")?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        let before = previous_ports(&root)?;
        if !before.is_empty() && before.len() != usize::from(count) {
            bail!(
                "{} contains an ensemble of {} servers: start it with --ensemble {}, or choose another directory",
                root.display(),
                before.len(),
                before.len()
            );
        }
        let lock = lock(&root)?;
        let ports = choose_ports(count, &before, preferred)?;
        let layout = Layout { root, ports, temporary, _lock: lock };
        layout.write()?;
        Ok(layout)
    }

    /// The servers.
    pub fn members(&self) -> impl Iterator<Item = MemberLayout> + '_ {
        (1..).zip(&self.ports).map(|(id, ports)| MemberLayout {
            id,
            zoo_cfg: zoo_cfg(&self.root, id),
            client_address: format!("{}:{}", Ipv4Addr::LOCALHOST, ports.client),
        })
    }

    /// Describes where the data is.
    pub fn describe(&self) -> String {
        let root = self.root.display();
        match self.temporary {
            Some(_) => format!("data directory: {root} (temporary, removed at exit)"),
            None => format!("data directory: {root}"),
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        for member in self.members() {
            let data = data_dir(&self.root, member.id);
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", member.id))?;
            fs::write(&member.zoo_cfg, self.zoo_cfg_text(member.id)?)?;
        }
        Ok(())
    }

    fn zoo_cfg_text(&self, id: u8) -> anyhow::Result<String> {
        let ports = self.ports[usize::from(id - 1)];
        let data = data_dir(&self.root, id);
        let Some(data) = data.to_str().filter(|path| !path.contains(char::is_control)) else {
            bail!("{} contains characters that are not allowed in a zoo.cfg", data.display());
        };
        let mut text = format!(
            "# Written by herdsman server --ensemble {}, which overwrites it at each start.\n\
             # With a short tick, failures are detected soon; sessions may still be long.\n\
             tickTime=500\ninitLimit=20\nsyncLimit=4\n\
             minSessionTimeout=1000\nmaxSessionTimeout=40000\n\
             dataDir={}\npreAllocSize=4096\n\
             clientPort={}\nclientPortAddress=127.0.0.1\n\
             admin.serverAddress=127.0.0.1\nadmin.serverPort={}\n\
             standaloneEnabled=false\n4lw.commands.whitelist=*\n",
            self.ports.len(),
            data.replace('\\', "\\\\"),
            ports.client,
            ports.admin,
        );
        for (id, Ports { client, quorum, election, .. }) in (1..).zip(&self.ports) {
            let id: u8 = id;
            // With the client port, so that each console can query the other servers.
            text.push_str(&format!(
                "server.{id}=127.0.0.1:{quorum}:{election};127.0.0.1:{client}\n"
            ));
        }
        Ok(text)
    }
}

fn zoo_cfg(root: &Path, id: u8) -> PathBuf {
    root.join(id.to_string()).join("zoo.cfg")
}

fn data_dir(root: &Path, id: u8) -> PathBuf {
    root.join(id.to_string()).join("data")
}

/// Returns the ports of the last start; none if the directory is empty.
fn previous_ports(root: &Path) -> anyhow::Result<Vec<Ports>> {
    let is_empty = fs::read_dir(root)?.next().is_none();
    if is_empty {
        return Ok(Vec::new());
    }
    if !zoo_cfg(root, 1).exists() {
        bail!(
            "{} is not empty and does not contain an ensemble: choose another directory",
            root.display()
        );
    }
    let mut ports = Vec::new();
    let mut count = 1;
    while ports.len() < count {
        let id = u8::try_from(ports.len() + 1)?;
        let config = Config::load(&zoo_cfg(root, id), &SystemProperties::new())?.config;
        let members = &config.quorum.membership.members;
        let own = members.iter().nth(ports.len()).and_then(|(_, member)| member.addresses.first());
        let (Some(client), Some(own)) = (&config.listen.client, own) else {
            bail!("{}: clientPort or a server line is missing", zoo_cfg(root, id).display());
        };
        ports.push(Ports {
            client: client.port,
            quorum: own.quorum_port,
            election: own.election_port,
            admin: config.admin.port,
        });
        count = members.len();
    }
    Ok(ports)
}

fn lock(root: &Path) -> anyhow::Result<File> {
    let file = File::create(root.join("ensemble.lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("the ensemble in {} is already run by another process", root.display())
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Chooses free ports. Listeners are kept open meanwhile, so that no port is chosen twice.
fn choose_ports(
    count: u8,
    before: &[Ports],
    preferred: PreferredPorts,
) -> anyhow::Result<Vec<Ports>> {
    let mut held = Vec::new();
    let mut ports = Vec::new();
    for index in 0..u16::from(count) {
        let wanted = before.get(usize::from(index)).copied().unwrap_or(preferred.ports(index));
        let chosen = Ports {
            client: free_port(wanted.client, &mut held)?,
            quorum: free_port(wanted.quorum, &mut held)?,
            election: free_port(wanted.election, &mut held)?,
            admin: free_port(wanted.admin, &mut held)?,
        };
        if wanted.client != 0 && chosen.client != wanted.client {
            let (id, port) = (index + 1, chosen.client);
            warn!("port {} is in use: server {id} uses client port {port}", wanted.client);
        }
        ports.push(chosen);
    }
    Ok(ports)
}

/// Returns the wanted port if it is free, else any free port.
fn free_port(wanted: u16, held: &mut Vec<TcpListener>) -> anyhow::Result<u16> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = bind(wanted).or_else(|_| bind(0)).context("no port is free")?;
    let port = listener.local_addr()?.port();
    held.push(listener);
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(prepared: anyhow::Result<Layout>) -> String {
        prepared.err().map(|failure| format!("{failure:#}")).unwrap_or_default()
    }

    #[test]
    fn every_server_has_a_configuration_that_can_be_read() {
        let layout = Layout::prepare(3, None, PreferredPorts::Any).expect("there are ports");
        let root = layout.root.clone();
        for member in layout.members() {
            let loaded =
                Config::load(&member.zoo_cfg, &SystemProperties::new()).expect("it is valid");
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
            assert_eq!(loaded.config.quorum.membership.members.len(), 3);
            assert!(loaded.config.four_letter_words.allows("mntr"));
        }
        drop(layout);
        assert!(!root.exists());
    }

    #[test]
    fn ports_stay_if_they_are_free() {
        let dir = TempDir::with_prefix("herdsman-layout-").expect("a directory");
        let named = Some(dir.path());
        let first = Layout::prepare(3, named, PreferredPorts::Any).expect("there are ports").ports;
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first[1].client)).expect("it is free");
        let second = Layout::prepare(3, named, PreferredPorts::Any).expect("there are ports").ports;
        assert_eq!((second[0], second[2]), (first[0], first[2]));
        assert_ne!(second[1].client, first[1].client);
        assert_eq!(second[1].quorum, first[1].quorum);
        drop(taken);
        assert_eq!(
            Layout::prepare(3, named, PreferredPorts::Any).expect("there are ports").ports,
            second
        );
    }

    #[test]
    fn a_directory_is_for_one_ensemble_and_one_process() {
        let dir = TempDir::with_prefix("herdsman-layout-").expect("a directory");
        let named = Some(dir.path());
        let running = Layout::prepare(3, named, PreferredPorts::Any).expect("there are ports");
        assert!(
            refusal(Layout::prepare(3, named, PreferredPorts::Any))
                .contains("is already run by another process")
        );
        drop(running);
        assert!(
            refusal(Layout::prepare(5, named, PreferredPorts::Any))
                .contains("start it with --ensemble 3")
        );
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let dir = TempDir::with_prefix("herdsman-layout-").expect("a directory");
        fs::write(dir.path().join("thesis.txt"), "x").expect("written");
        let refused = refusal(Layout::prepare(3, Some(dir.path()), PreferredPorts::Any));
        assert!(refused.contains("does not contain an ensemble"), "{refused}");
    }
}
