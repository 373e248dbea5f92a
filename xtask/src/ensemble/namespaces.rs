//! A network that can be cut: every server in its own network namespace.
//!
//! Each server has two links, one to the other servers and one to the clients, so that it can lose
//! either. Links between servers end in one of two bridges; servers at different bridges do not see
//! each other. Packets in one direction only, or between two servers only, are lost by giving the
//! sender a wrong hardware address for the receiver. All of it (namespaces, links, processes) lives
//! inside namespaces that [`enter`] makes for this process, so it is gone when the process is gone and
//! nothing else on the machine sees it.
//! Needs `ip`, `unshare` and a kernel that allows them; [`why_not`] checks this.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Error, Result};

use crate::run;

/// Says that this process already lives in the namespaces.
const INSIDE: &str = "HERDSMAN_XTASK_IN_NAMESPACES";
/// Makes the mounts and links that `ip netns` needs, then runs the arguments. It stays the parent
/// instead of becoming them: the first process of a namespace is deaf to Ctrl-C.
const ENTRANCE: &str = "mount -t tmpfs tmpfs /run && ip link set lo up && \"$0\" \"$@\"; exit $?";
const TRIAL: &str = "ip netns add trial && ip link add bridge0 type bridge && \
    ip link add link0 type veth peer name servers netns trial && \
    ip link set link0 master bridge0 && nsenter --net=/run/netns/trial ip link set lo up";

/// No ensemble of a test has more servers.
const SERVERS_MAX: usize = 9;
/// Where clients are.
const CLIENTS_HOST: &str = "10.111.2.254";
/// The address of a network card that is nowhere.
const NOBODY: &str = "02:00:00:00:00:01";

/// Which bridge a server's link to its peers ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where all are while nothing is cut.
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

/// Why namespaces cannot be had here; `None` when they can.
pub fn why_not() -> Option<Error> {
    let mut trial = entrance();
    run::output(trial.args(["sh", "-c", TRIAL])).err()
}

/// Runs the same command in new namespaces; returns only if that fails.
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
    // Being root of a user namespace is enough, so this works for ordinary users too.
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
    /// Makes them, for servers 1 to `servers`; call it [`inside`] only. Those of an earlier ensemble
    /// are taken down first.
    pub fn build(servers: usize) -> Result<Namespaces> {
        // A namespace that is deleted goes a while later, and its links with it. These have to be gone now.
        for id in 1..=SERVERS_MAX {
            for link in ["peers", "clients"] {
                let _ = ip(&format!("link delete {link}{id}"));
            }
        }
        ip("-all netns delete")?;
        for bridge in ["left", "right", "clients"] {
            // Not there the first time.
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

    /// Where clients reach a server.
    pub fn client_host(&self, id: usize) -> String {
        format!("10.111.2.{id}")
    }

    /// Where servers reach a server.
    pub fn quorum_host(&self, id: usize) -> String {
        format!("10.111.1.{id}")
    }

    /// The command that runs another in a server's namespace.
    pub fn within(&self, id: usize) -> Vec<String> {
        vec!["nsenter".into(), format!("--net=/run/netns/s{id}")]
    }

    /// Moves a server's link to its peers.
    pub fn place(&self, id: usize, side: Side) -> Result<()> {
        ip(&format!("link set peers{id} master {}", side.bridge()))
    }

    /// Pulls a server's link to its peers.
    pub fn cut_from_peers(&self, id: usize) -> Result<()> {
        ip(&format!("link set peers{id} down"))
    }

    /// Pulls a server's link to the clients.
    pub fn cut_from_clients(&self, id: usize) -> Result<()> {
        ip(&format!("link set clients{id} down"))
    }

    /// Loses what one server sends to another; what that one sends still arrives.
    pub fn lose_on_the_way(&self, from: usize, to: usize) -> Result<()> {
        self.misdirect(from, &self.quorum_host(to), "peers")
    }

    /// Loses what a server sends to clients; what they send still arrives.
    pub fn lose_replies(&self, id: usize) -> Result<()> {
        self.misdirect(id, CLIENTS_HOST, "clients")
    }

    /// Makes a server send all packets for a host to a hardware address that no host has.
    fn misdirect(&self, id: usize, host: &str, link: &str) -> Result<()> {
        ip(&format!("-n s{id} neigh replace {host} lladdr {NOBODY} nud permanent dev {link}"))
    }

    /// Makes everything reach everything again.
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
