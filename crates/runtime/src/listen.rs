//! Opens listening ports.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use herdsman_proto::membership::Endpoint;
use socket2::{Domain, Protocol, Socket, Type};

/// The listen backlog. Java's default is 50; accepting is cheap here.
const BACKLOG: i32 = 1024;

/// Opens the port. Without a host it listens on all addresses, IPv6 and IPv4 in one socket.
pub fn bind(endpoint: &Endpoint, backlog: Option<u32>) -> io::Result<TcpListener> {
    let backlog = backlog.and_then(|backlog| i32::try_from(backlog).ok()).unwrap_or(BACKLOG);
    let Some(host) = endpoint.host.as_deref() else {
        let any = SocketAddr::from(([0u16; 8], endpoint.port));
        return listen(any, backlog).or_else(|_| listen(([0u8; 4], endpoint.port).into(), backlog));
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, format!("no address for {host}"));
    for address in (host, endpoint.port).to_socket_addrs()? {
        match listen(address, backlog) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}
