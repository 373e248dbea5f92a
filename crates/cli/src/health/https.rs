//! One question over HTTPS.
//!
//! In: an address behind `https://`, and whom to trust. Out: whether the answer was good, and what it said.
//! It asks with HTTP/1.0, so that the answer is a head, a body, and the end.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use herdsman_tls::rustls::{ClientConnection, StreamOwned};
use herdsman_tls::{Peer, Side, TlsContext, TlsSettings, describe_io_failure};

/// No answer about health is longer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
const PORT_DEFAULT: u16 = 443;

/// Asks for `host:port/path`.
pub fn get(address: &str, tls: TlsSettings, timeout: Duration) -> Result<(bool, String)> {
    let (authority, path) = address.split_once('/').unwrap_or((address, ""));
    let (host, port) = split(authority)?;
    let context = TlsContext::load(tls, Side::Client)?;
    let mut addresses = (host, port).to_socket_addrs()?;
    let address = addresses.next().context("the host has no address")?;
    let socket = TcpStream::connect_timeout(&address, timeout)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    let peer = Peer::dialled(host, address.ip());
    let session = ClientConnection::new(context.client_config(&peer)?, peer.server_name())?;
    let mut stream = StreamOwned::new(session, socket);
    let head = format!("GET /{path} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
    let mut answer = Vec::new();
    let asked = stream
        .write_all(head.as_bytes())
        .and_then(|()| (&mut stream).take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map(drop));
    asked.map_err(|error| anyhow::anyhow!(describe_io_failure(&error)))?;
    read_answer(&String::from_utf8_lossy(&answer))
}

/// Host and port; an IPv6 address stands in brackets.
fn split(authority: &str) -> Result<(&str, u16)> {
    match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => {
            let port = port.parse().context("the port must be a number from 1 to 65535")?;
            Ok((host.trim_matches(['[', ']']), port))
        }
        None => Ok((authority.trim_matches(['[', ']']), PORT_DEFAULT)),
    }
}

fn read_answer(answer: &str) -> Result<(bool, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    Ok((status.starts_with('2'), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_told_apart() {
        for (authority, expected) in [
            ("zk1:8080", Some(("zk1", 8080))),
            ("zk1", Some(("zk1", 443))),
            ("[::1]:7", Some(("::1", 7))),
            ("[::1]", Some(("::1", 443))),
            ("zk1:x", None),
        ] {
            assert_eq!(split(authority).ok(), expected, "{authority}");
        }
    }

    #[test]
    fn an_answer_is_good_by_its_status() {
        let good = read_answer("HTTP/1.0 200 OK\r\nA: b\r\n\r\nfine").unwrap();
        assert_eq!(good, (true, "fine".to_owned()));
        assert!(!read_answer("HTTP/1.1 503 No\r\n\r\n").unwrap().0);
        assert!(read_answer("ruok?").is_err());
    }
}
