//! Addresses of other servers, and connecting to them. Names are resolved before every attempt,
//! because a server's addresses may change while its name stays.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::Member;
use herdsman_proto::membership::{Endpoint, PeerAddress};
use socket2::{Domain, Protocol, Socket, Type};

use super::settings::NetworkSettings;
use super::threads::Threads;

/// The election ports of a member.
pub(crate) fn election_endpoints(member: &Member) -> Vec<Endpoint> {
    endpoints(member, |address| address.election_port)
}

/// The quorum ports of a member.
pub(crate) fn quorum_endpoints(member: &Member) -> Vec<Endpoint> {
    endpoints(member, |address| address.quorum_port)
}

/// The observer-master port of a member, which it serves as a follower.
pub(crate) fn observer_master_endpoints(member: &Member, port: NonZeroU16) -> Vec<Endpoint> {
    endpoints(member, |_| port.get())
}

fn endpoints(member: &Member, port: impl Fn(&PeerAddress) -> u16) -> Vec<Endpoint> {
    let addresses = member.addresses.iter();
    addresses.map(|at| Endpoint { host: Some(at.host.clone()), port: port(at) }).collect()
}

/// Encodes a list of endpoints for a hello.
pub(crate) fn hello_text(endpoints: &[Endpoint]) -> String {
    let texts: Vec<_> = endpoints.iter().map(Endpoint::to_string).collect();
    texts.join("|")
}

/// The usable endpoints of a hello. Wildcards and invalid addresses are skipped: the
/// membership may still know where the peer is. Apache drops the connection over the latter.
pub(crate) fn endpoints_in_hello(text: &str) -> Vec<Endpoint> {
    let endpoints = text.split('|').filter_map(|text| Endpoint::parse(text).ok());
    endpoints.filter(|endpoint| !endpoint.is_wildcard()).collect()
}

/// Resolves an endpoint.
pub(crate) fn resolve(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    let host = endpoint.host.as_deref().unwrap_or("localhost");
    Ok((host, endpoint.port).to_socket_addrs()?.collect())
}

/// A dialled socket and the host name used.
pub(crate) struct Dialled {
    pub socket: Arc<TcpStream>,
    pub host: String,
}

/// Connects to the first address that accepts. `limit` applies to all of them together.
pub(crate) fn dial_any(
    threads: &Threads,
    settings: &NetworkSettings,
    endpoints: &[Endpoint],
    limit: Duration,
) -> io::Result<Dialled> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "no address is known");
    let mut addresses = Vec::new();
    for endpoint in endpoints {
        match resolve(endpoint) {
            Ok(found) => addresses.extend(found.into_iter().map(|address| (address, endpoint))),
            Err(error) => failure = describe(&error, &endpoint.to_string()),
        }
    }
    // Even if resolving the names took long, each address gets one attempt.
    let started = Instant::now();
    let patience = match addresses.len() {
        0 | 1 => settings.connect_timeout,
        _ => settings.address_timeout.min(settings.connect_timeout),
    };
    for (address, endpoint) in addresses {
        let rest = limit.saturating_sub(started.elapsed());
        if threads.is_stopping() || rest.is_zero() {
            break;
        }
        match dial(threads, address, patience.min(rest)) {
            Ok(socket) => {
                let host = endpoint.host.clone().unwrap_or_default();
                return Ok(Dialled { socket, host });
            }
            Err(error) => failure = describe(&error, &address.to_string()),
        }
    }
    Err(failure)
}

fn describe(error: &io::Error, place: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

fn dial(threads: &Threads, address: SocketAddr, timeout: Duration) -> io::Result<Arc<TcpStream>> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    let stream = Arc::new(TcpStream::from(socket.try_clone()?));
    // Registered before it connects, so that a stop need not wait for a server that does not answer.
    threads.watch(&stream);
    socket.connect_timeout(&address.into(), timeout)?;
    // A port on this host without a listener may be chosen by the system as our local port,
    // and then the socket would be connected to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_names_addresses_that_can_be_read_again() {
        let endpoints = endpoints_in_hello("[::1]:3888|one.example:3889");
        assert_eq!(endpoints.len(), 2);
        assert_eq!(endpoints_in_hello(&hello_text(&endpoints)), endpoints);
    }

    #[test]
    fn addresses_that_say_nothing_are_left_out() {
        for text in ["", "0.0.0.0:3888", "[::]:3888", "no-port", "one:70000", "|||"] {
            assert_eq!(endpoints_in_hello(text), [], "{text}");
        }
    }
}
