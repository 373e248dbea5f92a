//! Connections opened in another way than by TCP to the named host.

use std::net::SocketAddr;
use std::sync::Arc;

use herdsman_client::{Acl, Dial, Dialing, ErrorKind, Id, Perms};
use herdsman_server::{ServerHandle, TestServer};
use tokio::net::TcpStream;

use crate::world::{kind, options, within};

/// Reaches a server in this process, in the name of an address elsewhere.
#[derive(Debug)]
struct Inside {
    server: ServerHandle,
    peer: SocketAddr,
}

impl Dial for Inside {
    fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> Dialing<'a> {
        Box::pin(async move {
            let stream = self.server.connect_as(self.peer)?;
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        })
    }
}

#[tokio::test]
async fn a_dialled_connection_has_the_rights_of_the_address_it_stands_for() {
    let server = TestServer::start();
    let inside = |peer: &str| {
        let dial = Inside { server: server.handle(), peer: peer.parse().unwrap() };
        options().dial(Arc::new(dial)).connect("nowhere:1")
    };
    let far = within(inside("192.0.2.7:1")).await.unwrap();
    let mine = [Acl { perms: Perms::ALL, id: Id::new("ip", "192.0.2.7") }];
    far.create("/far", "x").acl(mine).await.unwrap();
    far.get("/far").await.unwrap();
    let near = within(inside("127.0.0.1:1")).await.unwrap();
    assert_eq!(kind(near.get("/far").await), ErrorKind::NoAuth);
}
