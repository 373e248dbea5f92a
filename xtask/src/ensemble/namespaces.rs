//! A network that can be cut: every server has its own network namespace.
//!
//! Each server has two links, one to the other servers and one to the clients, so that it can lose either.
//! Links between servers end in one of two bridges; servers at different bridges cannot reach each other.
//! Packets in one direction only, or between two servers only, are dropped by giving the sender a wrong
//! hardware address for the receiver. All of it (namespaces, links, processes) lives inside namespaces that
//! [`enter`] creates for this process, so it disappears with the process and is invisible to the rest of
//! the machine.
//! Needs `ip`, `unshare` and a kernel that allows them; [`why_not`] checks this.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Error, Result};

use crate::run;

/// Marks a process that already runs in the namespaces.
const INSIDE: &str = "HERDSMAN_XTASK_IN_NAMESPACES";
/// Makes the mounts and links that `ip netns` needs, then runs the arguments. The shell stays the parent
/// instead of exec-ing them: the first process of a namespace ignores Ctrl-C.
const ENTRANCE: &str = "mount -t tmpfs tmpfs /run && ip link set lo up && \"$0\" \"$@\"; exit $?";
const TRIAL: &str = "ip netns add trial && ip link add bridge0 type bridge && \
    ip link add link0 type veth peer name servers netns trial && \
    ip link set link0 master bridge0 && nsenter --net=/run/netns/trial ip link set lo up";

/// The maximum number of servers.
const SERVERS_MAX: usize = 9;
/// The address of the clients.
const CLIENTS_HOST: &str = "10.111.2.254";
/// A hardware address that does not exist.
const UNUSED_MAC: &str = "02:00:00:00:00:01";

/// The bridge in which a server's link to its peers ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The bridge of all servers while nothing is cut.
    Left,
    /// The other one.
    Right,
}

impl Side {
    fn bridge(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }
}

/// Whether this process is in its own namespaces.
pub fn inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Why namespaces are not available here; `None` if they are.
pub fn why_not() -> Option<Error> {
    let mut trial = entrance();
    run::output(trial.args(["sh", "-c", TRIAL])).err()
}

/// Runs the same command in new namespaces; returns only on failure.
pub fn enter() -> Error {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return error.into(),
    };
    let mut command = entrance();
    command.arg(own).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    Error::from(command.exec()).context("starting unshare")
}

fn entrance() -> Command {
    let mut command = Command::new("unshare");
    // Root of a user namespace is enough, so this also works for ordinary users.
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-c", ENTRANCE]);
    command
}

/// The namespaces and links of some servers.
pub struct Namespaces {
    servers: usize,
}

impl Namespaces {
    /// Creates them for servers 1 to `servers`; only for a process that is [`inside`]. Those of an earlier
    /// ensemble are removed first.
    pub fn build(servers: usize) -> Result<Namespaces> {
        // A deleted namespace disappears some time later, and its links with it. These must be removed now.
        for id in 1..=SERVERS_MAX {
            for link in ["peers", "clients"] {
                let _ = ip(&format!("link delete {link}{id}"));
            }
        }
        ip("-all netns delete")?;
        for bridge in ["left", "right", "clients"] {
            // Missing the first time.
            let _ = ip(&format!("link delete {bridge}"));
            ip(&format!("link add {bridge} type bridge forward_delay 0"))?;
            ip(&format!("link set {bridge} up"))?;
        }
        ip(&format!("address add {CLIENTS_HOST}/24 dev clients"))?;
        let namespaces = Namespaces { servers };
        for id in 1..=servers {
            ip(&format!("netns add s{id}"))?;
            ip(&format!("-n s{id} link set lo up"))?;
            for (link, net, bridge) in [("peers", 1, "left"), ("clients", 2, "clients")] {
                ip(&format!("link add {link}{id} type veth peer name {link} netns s{id}"))?;
                ip(&format!("link set {link}{id} master {bridge} up"))?;
                ip(&format!("-n s{id} address add 10.111.{net}.{id}/24 dev {link}"))?;
                ip(&format!("-n s{id} link set {link} up"))?;
            }
        }
        Ok(namespaces)
    }

    /// The address of a server for clients.
    pub fn client_host(&self, id: usize) -> String {
        format!("10.111.2.{id}")
    }

    /// The address of a server for other servers.
    pub fn quorum_host(&self, id: usize) -> String {
        format!("10.111.1.{id}")
    }

    /// The command that runs another command in a server's namespace.
    pub fn within(&self, id: usize) -> Vec<String> {
        vec!["nsenter".into(), format!("--net=/run/netns/s{id}")]
    }

    /// Moves a server's link to its peers.
    pub fn place(&self, id: usize, side: Side) -> Result<()> {
        ip(&format!("link set peers{id} master {}", side.bridge()))
    }

    /// Takes down a server's link to its peers.
    pub fn cut_from_peers(&self, id: usize) -> Result<()> {
        ip(&format!("link set peers{id} down"))
    }

    /// Takes down a server's link to the clients.
    pub fn cut_from_clients(&self, id: usize) -> Result<()> {
        ip(&format!("link set clients{id} down"))
    }

    /// Drops packets from one server to another; the other direction still works.
    pub fn lose_on_the_way(&self, from: usize, to: usize) -> Result<()> {
        self.misdirect(from, &self.quorum_host(to), "peers")
    }

    /// Drops packets from a server to clients; the other direction still works.
    pub fn lose_replies(&self, id: usize) -> Result<()> {
        self.misdirect(id, CLIENTS_HOST, "clients")
    }

    /// Makes a server send all packets for a host to a hardware address that no host has.
    fn misdirect(&self, id: usize, host: &str, link: &str) -> Result<()> {
        ip(&format!("-n s{id} neigh replace {host} lladdr {UNUSED_MAC} nud permanent dev {link}"))
    }

    /// Restores all connections.
    pub fn heal(&self) -> Result<()> {
        for id in 1..=self.servers {
            self.place(id, Side::Left)?;
            ip(&format!("link set peers{id} up"))?;
            ip(&format!("link set clients{id} up"))?;
            for link in ["peers", "clients"] {
                ip(&format!("-n s{id} neigh flush dev {link} nud permanent"))?;
            }
        }
        Ok(())
    }
}

fn ip(arguments: &str) -> Result<()> {
    let mut ip = Command::new("ip");
    let done = run::output(ip.args(arguments.split(' ')));
    done.map(drop).with_context(|| format!("ip {arguments}"))
}
