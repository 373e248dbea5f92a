//! Where an ensemble of one process lives: a directory, ports, and a zoo.cfg for each server.
//!
//! ```text
//! DIR/ensemble.lock       one process at a time
//! DIR/1/zoo.cfg           good for `herdsman server DIR/1/zoo.cfg`, too, and for Apache's server
//! DIR/1/data/myid         and what the server writes
//! DIR/2/…
//! ```
//!
//! In: how many servers, and a directory or none. Out: all of the above on disk. Ports are those of
//! the last start in this directory, or the usual ones in a new one (from 2181, 2888, 3888 and 8080 on), or
//! any that is free instead of one that is taken. Nothing holds a port until its server opens it.

use std::fs::{self, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use herdsman_config::Config;
use herdsman_config::SystemProperties;
use tempfile::TempDir;
use tracing::warn;

/// The ports of the first server; the others' follow.
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

/// Which ports a new ensemble would like to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Those that everybody expects.
    Usual,
    /// Any: for tests, which must not get in each other's way.
    #[cfg(test)]
    Any,
}

impl Wish {
    fn ports(self, index: u16) -> Ports {
        match self {
            Wish::Usual => Ports {
                client: CLIENT_PORT + index,
                quorum: QUORUM_PORT + index,
                election: ELECTION_PORT + index,
                admin: ADMIN_PORT + index,
            },
            // The system chooses.
            #[cfg(test)]
            Wish::Any => Ports { client: 0, quorum: 0, election: 0, admin: 0 },
        }
    }
}

/// One server's part of it.
pub(super) struct Place {
    pub id: u8,
    pub zoo_cfg: PathBuf,
    pub client_address: String,
}

/// A directory with everything that the servers need to start.
pub(super) struct Layout {
    root: PathBuf,
    ports: Vec<Ports>,
    /// Goes with this, unless the directory has a name.
    temporary: Option<TempDir>,
    _lock: File,
}

impl Layout {
    /// Makes the directory, or takes up one that was made before.
    pub fn prepare(count: u8, dir: Option<&Path>, wish: Wish) -> anyhow::Result<Self> {
        let (root, temporary) = match dir {
            Some(dir) => (std::path::absolute(dir)?, None),
            None => {
                let temporary = TempDir::with_prefix("herdsman-ensemble-")?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let before = before(&root)?;
        if !before.is_empty() && before.len() != usize::from(count) {
            bail!(
                "{} holds an ensemble of {}: start it with --ensemble {}, or choose another directory",
                root.display(),
                before.len(),
                before.len()
            );
        }
        let lock = lock(&root)?;
        let ports = choose_ports(count, &before, wish)?;
        let layout = Layout { root, ports, temporary, _lock: lock };
        layout.write()?;
        Ok(layout)
    }

    /// The servers.
    pub fn members(&self) -> impl Iterator<Item = Place> + '_ {
        (1..).zip(&self.ports).map(|(id, ports)| Place {
            id,
            zoo_cfg: zoo_cfg(&self.root, id),
            client_address: format!("{}:{}", Ipv4Addr::LOCALHOST, ports.client),
        })
    }

    /// Where the data is, in words.
    pub fn describe(&self) -> String {
        let root = self.root.display();
        match self.temporary {
            Some(_) => format!("data below {root}, which is removed at the end"),
            None => format!("data below {root}"),
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        for place in self.members() {
            let data = data_dir(&self.root, place.id);
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", place.id))?;
            fs::write(&place.zoo_cfg, self.zoo_cfg_text(place.id)?)?;
        }
        Ok(())
    }

    fn zoo_cfg_text(&self, id: u8) -> anyhow::Result<String> {
        let ports = self.ports[usize::from(id - 1)];
        let data = data_dir(&self.root, id);
        let Some(data) = data.to_str().filter(|path| !path.contains(char::is_control)) else {
            bail!("{} has characters that a zoo.cfg cannot have", data.display());
        };
        let mut text = format!(
            "# Written by herdsman server --ensemble {}, which writes it anew at each start.\n\
             # A short tick makes failures show soon; sessions may still be long.\n\
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
            // With the client's port, so that the consoles can ask each other's servers.
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

/// The ports of the last start; nothing in an empty directory.
fn before(root: &Path) -> anyhow::Result<Vec<Ports>> {
    let is_empty = fs::read_dir(root)?.next().is_none();
    if is_empty {
        return Ok(Vec::new());
    }
    if !zoo_cfg(root, 1).exists() {
        bail!("{} is not empty and holds no ensemble: choose another directory", root.display());
    }
    let mut ports = Vec::new();
    let mut count = 1;
    while ports.len() < count {
        let id = u8::try_from(ports.len() + 1)?;
        let config = Config::load(&zoo_cfg(root, id), &SystemProperties::new())?.config;
        let members = &config.quorum.membership.members;
        let own = members.iter().nth(ports.len()).and_then(|(_, member)| member.addresses.first());
        let (Some(client), Some(own)) = (&config.listen.client, own) else {
            bail!("{} is not as it was written", zoo_cfg(root, id).display());
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
            bail!("another process runs the ensemble in {}", root.display())
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Listeners are held while ports are chosen, so that none is chosen twice.
fn choose_ports(count: u8, before: &[Ports], wish: Wish) -> anyhow::Result<Vec<Ports>> {
    let mut held = Vec::new();
    let mut ports = Vec::new();
    for index in 0..u16::from(count) {
        let wanted = before.get(usize::from(index)).copied().unwrap_or(wish.ports(index));
        let chosen = Ports {
            client: free_port(wanted.client, &mut held)?,
            quorum: free_port(wanted.quorum, &mut held)?,
            election: free_port(wanted.election, &mut held)?,
            admin: free_port(wanted.admin, &mut held)?,
        };
        if wanted.client != 0 && chosen.client != wanted.client {
            let (id, port) = (index + 1, chosen.client);
            warn!("port {} is taken: server {id} takes clients on port {port}", wanted.client);
        }
        ports.push(chosen);
    }
    Ok(ports)
}

/// This port if nobody has it, else any.
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
        let layout = Layout::prepare(3, None, Wish::Any).expect("there are ports");
        let root = layout.root.clone();
        for place in layout.members() {
            let loaded =
                Config::load(&place.zoo_cfg, &SystemProperties::new()).expect("it is right");
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
        let first = Layout::prepare(3, named, Wish::Any).expect("there are ports").ports;
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first[1].client)).expect("it is free");
        let second = Layout::prepare(3, named, Wish::Any).expect("there are ports").ports;
        assert_eq!((second[0], second[2]), (first[0], first[2]));
        assert_ne!(second[1].client, first[1].client);
        assert_eq!(second[1].quorum, first[1].quorum);
        drop(taken);
        assert_eq!(Layout::prepare(3, named, Wish::Any).expect("there are ports").ports, second);
    }

    #[test]
    fn a_directory_is_for_one_ensemble_and_one_process() {
        let dir = TempDir::with_prefix("herdsman-layout-").expect("a directory");
        let named = Some(dir.path());
        let running = Layout::prepare(3, named, Wish::Any).expect("there are ports");
        assert!(
            refusal(Layout::prepare(3, named, Wish::Any))
                .contains("another process runs the ensemble")
        );
        drop(running);
        assert!(
            refusal(Layout::prepare(5, named, Wish::Any)).contains("start it with --ensemble 3")
        );
    }

    #[test]
    fn somebody_elses_directory_is_left_alone() {
        let dir = TempDir::with_prefix("herdsman-layout-").expect("a directory");
        fs::write(dir.path().join("thesis.txt"), "x").expect("written");
        let refused = refusal(Layout::prepare(3, Some(dir.path()), Wish::Any));
        assert!(refused.contains("holds no ensemble"), "{refused}");
    }
}
