//! Connections opened in another way than by TCP to the named host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::{Acl, Dial, Dialing, ErrorKind, Id, Perms};
use herdsman_server::ServerHandle;
use herdsman_testing::TestServer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::world::{kind, options, within};

/// Connects to a server in this process with another client address.
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
async fn a_dialled_connection_has_the_permissions_of_its_address() {
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

#[tokio::test]
async fn a_tls_port_is_recognized_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = listener.local_addr().unwrap().to_string();
    let alerts = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // What a TLS server sends to a client that does not use TLS: alert, fatal, decode error.
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 50]).await;
        }
    });
    let options = options().connect_timeout(Duration::from_millis(200));
    let error = options.connect(&servers).await.unwrap_err().to_string();
    alerts.abort();
    assert!(error.contains("this port expects TLS, "), "{error}");
}
