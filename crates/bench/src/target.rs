//! Targets: a name and the servers to measure.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use herdsman_tls::{Peer, TlsContext};

use crate::report::ECHO;
use crate::wire::Wire;

/// The port of a server that is written without one.
const DEFAULT_PORT: u16 = 2181;
/// The prefix of the servers of a target with TLS.
const TLS: &str = "tls://";

/// A target as it is written: `NAME=[tls://]HOST:PORT[,HOST:PORT...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSpec {
    name: String,
    servers: Vec<String>,
    is_secured: bool,
}

impl FromStr for TargetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, servers) = text.split_once('=').unwrap_or((text, text));
        if name.is_empty() {
            return Err("the name before `=` is missing; expected NAME=HOST:PORT".to_owned());
        }
        if name == ECHO {
            return Err(format!(
                "`{ECHO}` is the name of the target that --echo starts; choose another"
            ));
        }
        let is_secured = servers.starts_with(TLS);
        let servers = servers.strip_prefix(TLS).unwrap_or(servers);
        let servers: Result<Vec<String>, String> = servers.split(',').map(server).collect();
        Ok(TargetSpec { name: name.to_owned(), servers: servers?, is_secured })
    }
}

/// A server with its port.
fn server(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a server is missing; expected NAME=HOST:PORT[,HOST:PORT...]".to_owned());
    }
    if text.contains('/') {
        return Err(format!("`{text}`: a chroot is not supported here; use --root"));
    }
    // A colon that is not inside the brackets of an IPv6 address precedes a port.
    let Some((_, port)) = text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) else {
        return Ok(format!("{text}:{DEFAULT_PORT}"));
    };
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(text.to_owned()),
        _ => Err(format!("`{text}`: the port must be a number from 1 to 65535")),
    }
}

impl TargetSpec {
    /// Returns the name of the target in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Resolves the hosts.
    pub(crate) fn resolve(&self, tls: Option<&Arc<TlsContext>>) -> Result<Target> {
        let mut addresses = Vec::new();
        if self.is_secured && tls.is_none() {
            bail!(
                "target {}: {TLS} needs --tls-trust-store: the file with the trusted certificates",
                self.name
            );
        }
        for server in &self.servers {
            let found = server
                .to_socket_addrs()
                .with_context(|| format!("target {}: cannot look up {server}", self.name))?;
            // One address for a host, preferably IPv4: `localhost` has two, and servers are more likely to listen on
            // that one.
            let Some(address) = prefer_v4(found) else {
                bail!("target {}: {server} has no address", self.name);
            };
            addresses.push(address);
        }
        let hosts = self.servers.iter().map(|server| host_of(server).to_owned()).collect();
        let tls = tls.filter(|_| self.is_secured).cloned();
        Ok(Target { name: self.name.clone(), addresses, hosts, tls })
    }
}

/// The host without its port, and an IPv6 address without its brackets.
fn host_of(server: &str) -> &str {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

fn prefer_v4(found: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let all: Vec<SocketAddr> = found.collect();
    all.iter().find(|address| address.is_ipv4()).or(all.first()).copied()
}

/// A target that can be connected to. It has at least one address.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    name: String,
    addresses: Vec<SocketAddr>,
    /// The hosts of the addresses, as they were written.
    hosts: Vec<String>,
    tls: Option<Arc<TlsContext>>,
}

impl Target {
    /// Creates the target for the echo server of this run.
    pub(crate) fn echo(address: SocketAddr) -> Self {
        let hosts = vec![address.ip().to_string()];
        Target { name: ECHO.to_owned(), addresses: vec![address], hosts, tls: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Wraps a socket to one of the addresses, with TLS if the target uses it.
    pub(crate) fn wire<S>(&self, address: SocketAddr, socket: S) -> io::Result<Wire<S>> {
        let Some(context) = &self.tls else { return Ok(Wire::Plain(socket)) };
        let mut known = self.addresses.iter().zip(&self.hosts);
        let peer = match known.find(|(known, _)| **known == address) {
            Some((_, host)) => Peer::dialled(host.as_str(), address.ip()),
            None => Peer::at(address.ip()),
        };
        Wire::secured(socket, context, &peer)
    }

    /// Whether this is the echo server, which has no znodes to prepare and whose replies are not checked.
    pub(crate) fn is_echo(&self) -> bool {
        self.name == ECHO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_keeps_its_tls_flag_and_host_names() {
        let spec: TargetSpec = "a=tls://zk1:7,[::1],10.0.0.1".parse().unwrap();
        assert_eq!((spec.is_secured, spec.servers[0].as_str()), (true, "zk1:7"));
        let hosts: Vec<_> = spec.servers.iter().map(|server| host_of(server)).collect();
        assert_eq!(hosts, ["zk1", "::1", "10.0.0.1"]);
        let error = spec.resolve(None).unwrap_err().to_string();
        assert!(error.contains("--tls-trust-store"), "{error}");
    }

    #[test]
    fn targets_are_parsed() {
        for (text, expected) in [
            ("herdsman=127.0.0.1:2181", Ok(("herdsman", vec!["127.0.0.1:2181"]))),
            ("a=h1:1,h2:2, h3:3", Ok(("a", vec!["h1:1", "h2:2", "h3:3"]))),
            ("a=zk1,[::1],[::1]:7", Ok(("a", vec!["zk1:2181", "[::1]:2181", "[::1]:7"]))),
            ("127.0.0.1:2181", Ok(("127.0.0.1:2181", vec!["127.0.0.1:2181"]))),
            ("=h:1", Err("the name before `=`")),
            ("a=", Err("a server is missing")),
            ("a=h:1,", Err("a server is missing")),
            ("a=h:x", Err("the port must be")),
            ("a=h:0", Err("the port must be")),
            ("a=h:65536", Err("the port must be")),
            ("a=h:1/chroot", Err("use --root")),
            ("a=tls://", Err("a server is missing")),
            ("a=h:1,tls://h:2", Err("use --root")),
            ("echo=h:1", Err("choose another")),
        ] {
            match (text.parse::<TargetSpec>(), expected) {
                (Ok(spec), Ok((name, servers))) => {
                    assert_eq!(spec.name(), name, "{text}");
                    assert_eq!(spec.servers, servers, "{text}");
                }
                (Err(words), Err(share)) => assert!(words.contains(share), "{text}: {words}"),
                (found, expected) => panic!("{text}: {found:?} and not {expected:?}"),
            }
        }
    }
}
