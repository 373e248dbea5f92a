//! A TLS connection with both ends in one test and no socket in between.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use herdsman_tls::rustls::{
    ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection,
};
use herdsman_tls::{Peer, TlsContext, describe_failure};

/// The address of both ends.
pub const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Both ends.
pub struct Link {
    pub client: Connection,
    pub server: Connection,
}

/// The errors of a failed handshake at each end.
#[derive(Debug)]
pub struct Refusal {
    pub client: Option<Error>,
    pub server: Option<Error>,
}

impl Refusal {
    /// The client's error as text.
    pub fn client_error(&self) -> String {
        self.client.as_ref().map(describe_failure).unwrap_or_default()
    }

    /// The server's error as text.
    pub fn server_error(&self) -> String {
        self.server.as_ref().map(describe_failure).unwrap_or_default()
    }
}

/// Connects a client to "localhost" at 127.0.0.1.
pub fn connect(server: &TlsContext, client: &TlsContext) -> Result<Link, Box<Refusal>> {
    let dialled = Peer::dialled("localhost", HERE);
    connect_as(server, &Peer::at(HERE), client, &dialled)
}

/// Connects a client, which the server sees as `from`, to a server, which the client knows as `to`.
pub fn connect_as(
    server: &TlsContext,
    from: &Peer,
    client: &TlsContext,
    to: &Peer,
) -> Result<Link, Box<Refusal>> {
    link(server.server_config(from).unwrap(), client.client_config(to).unwrap(), to)
}

/// Transfers bytes until the handshake is complete on both ends or has failed on one.
pub fn link(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    to: &Peer,
) -> Result<Link, Box<Refusal>> {
    let client = ClientConnection::new(client, to.server_name()).unwrap();
    let server = ServerConnection::new(server).unwrap();
    let mut link = Link { client: client.into(), server: server.into() };
    let mut refusal = Refusal { client: None, server: None };
    loop {
        let to_server = carry(&mut link.client, &mut link.server, &mut refusal.server);
        let to_client = carry(&mut link.server, &mut link.client, &mut refusal.client);
        if to_server + to_client == 0 {
            break;
        }
    }
    if refusal.client.is_some() || refusal.server.is_some() {
        return Err(Box::new(refusal));
    }
    assert!(!link.client.is_handshaking() && !link.server.is_handshaking());
    Ok(link)
}

/// Transfers what one end has written to the other and returns the number of bytes.
fn carry(from: &mut Connection, to: &mut Connection, error: &mut Option<Error>) -> usize {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut unread = bytes.as_slice();
    while !unread.is_empty() && error.is_none() {
        to.read_tls(&mut unread).unwrap();
        *error = to.process_new_packets().err();
    }
    bytes.len()
}

impl Link {
    /// Sends a message in each direction.
    pub fn exchange(&mut self) {
        send(&mut self.client, &mut self.server, b"ruok");
        send(&mut self.server, &mut self.client, b"imok");
    }

    /// The server's certificate as the client received it.
    pub fn server_certificate(&self) -> Vec<u8> {
        self.client.peer_certificates().unwrap()[0].to_vec()
    }
}

fn send(from: &mut Connection, to: &mut Connection, word: &[u8; 4]) {
    from.writer().write_all(word).unwrap();
    let mut error = None;
    carry(from, to, &mut error);
    assert_eq!(error, None);
    let mut heard = [0; 4];
    to.reader().read_exact(&mut heard).unwrap();
    assert_eq!(&heard, word);
}
