//! A thousand hostile connections at once: other clients are served all the time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

use herdsman_proto::SessionId;
use herdsman_testing::TestServer;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::certificates::Authority;
use crate::client::{Client, connect_request};
use crate::tls::{self, TlsStream, open_tls};
use crate::words::{ask_bytes, wait_for};

const CROWD: usize = 1000;
/// Requests of each good client while the hostile ones are connected.
const REQUESTS: usize = 500;
/// The pause between two bytes of a slow connection, and before a rejected one reconnects: other tests need the
/// machine, too.
const PAUSE: Duration = Duration::from_millis(200);

/// The bytes of a hostile connection: some at once, and then one at a time, repeatedly.
#[derive(Clone, Debug)]
struct Harm {
    at_once: Vec<u8>,
    then: Vec<u8>,
}

impl Harm {
    fn new(at_once: &[u8], then: &[u8]) -> Self {
        Harm { at_once: at_once.to_vec(), then: then.to_vec() }
    }

    /// Random bytes.
    fn garbage() -> Self {
        let bytes: Vec<u8> =
            (0..200u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        Harm::new(&bytes, &bytes[..1])
    }

    /// The connections to a plain port.
    fn plain() -> Vec<Self> {
        vec![
            Harm::garbage(),
            // A frame that claims to be two gigabytes long.
            Harm::new(&[&i32::MAX.to_be_bytes()[..], &[0; 64]].concat(), &[0x7f]),
            // The beginning of a connect request, one byte at a time.
            Harm::new(&[], &[0]),
            // A four-letter word that is repeated forever.
            Harm::new(b"mntr", b"m"),
        ]
    }

    /// The connections to a TLS port.
    fn tls(client: Arc<ClientConfig>) -> Vec<Self> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut hello = Vec::new();
        let mut handshake = rustls::ClientConnection::new(client, name).unwrap();
        handshake.write_tls(&mut hello).unwrap();
        vec![
            Harm::garbage(),
            // A record with the maximum length in its header.
            Harm::new(&[0x16, 3, 1, 0xff, 0xff], &[1]),
            // A valid beginning, and nothing after it.
            Harm::new(&hello, &[]),
            // The same, one byte at a time.
            Harm::new(&[], &hello),
            // Plain requests on a TLS port.
            Harm::new(b"ruok", b"r"),
        ]
    }

    /// Sends until the server closes the connection or the test ends.
    fn do_it(&self, address: SocketAddr, over: &AtomicBool) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PAUSE))?;
        stream.write_all(&self.at_once)?;
        let mut then = self.then.iter().cycle();
        while !over.load(Ordering::Relaxed) {
            match stream.read(&mut [0; 4096]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(byte) = then.next() {
                        stream.write_all(&[*byte])?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Keeps the connections open, with a thread each.
fn send_in<'scope>(
    scope: &'scope Scope<'scope, '_>,
    address: SocketAddr,
    kinds: &'scope [Harm],
    over: &'scope AtomicBool,
    came: &'scope AtomicUsize,
) {
    for (_, harm) in (0..CROWD).zip(kinds.iter().cycle()) {
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn_scoped(scope, move || {
                while !over.load(Ordering::Relaxed) {
                    came.fetch_add(1, Ordering::Relaxed);
                    // The server is expected to close the connection.
                    _ = harm.do_it(address, over);
                    std::thread::sleep(PAUSE);
                }
            })
            .unwrap();
    }
}

/// Disconnects all clients on drop, also when a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A write, and a read that shows it.
fn check_served<S: Read + Write>(good: &mut Client<S>, path: &str, round: usize) {
    let data = round.to_string();
    good.set(path, data.as_bytes()).ok();
    assert_eq!(good.get(path, false).unwrap().0, data.as_bytes());
}

#[test]
fn a_thousand_hostile_connections_do_not_stop_the_others() {
    let server = TestServer::start_with(|config| {
        config.limits.connections_per_address_max = None;
        config.listen.sessionless_timeout_ms = 500;
    });
    let (over, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    let kinds = Harm::plain();
    let mut good = Client::connect(server.address());
    good.create("/good", b"", 0).ok();
    std::thread::scope(|scope| {
        let _over = Over(&over);
        send_in(scope, server.address(), &kinds, &over, &came);
        let mut served = 0;
        while served < REQUESTS || came.load(Ordering::Relaxed) < CROWD {
            check_served(&mut good, "/good", served);
            served += 1;
        }
        // New clients can connect, too.
        Client::connect(server.address()).create("/newcomer", b"", 0).ok();
    });
}

#[test]
fn a_thousand_hostile_connections_to_the_tls_port_do_not_stop_the_others() {
    let authority = Authority::new("ours");
    let server = tls::start(&authority, |config| {
        config.limits.connections_per_address_max = None;
        config.listen.sessionless_timeout_ms = 1000;
    });
    let client = authority.client_config(Some(&authority.sign("client")));
    let connect = || {
        let stream: TlsStream = open_tls(server.secure_address(), Arc::clone(&client));
        Client::connect_over(stream, &connect_request(SessionId::NONE, &[0; 16]))
    };
    let (over, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    let kinds = Harm::tls(Arc::clone(&client));
    let mut through_tls = connect().expect("a session");
    let mut plain = Client::connect(server.address());
    plain.create("/plain", b"", 0).ok();
    through_tls.create("/tls", b"", 0).ok();
    std::thread::scope(|scope| {
        let _over = Over(&over);
        send_in(scope, server.secure_address(), &kinds, &over, &came);
        let mut served = 0;
        while served < REQUESTS || came.load(Ordering::Relaxed) < CROWD {
            check_served(&mut through_tls, "/tls", served);
            check_served(&mut plain, "/plain", served);
            served += 1;
        }
        Client::connect(server.address()).create("/newcomer", b"", 0).ok();
        // A handshake has a time limit, and this machine may be too busy for the first one.
        wait_for("a new client through TLS", || connect().is_some());
    });
    let metrics = ask_bytes(server.address(), b"mntr");
    let failed = metrics.lines().find_map(|line| line.strip_prefix("zk_unsuccessful_handshake\t"));
    assert!(failed.unwrap().parse::<usize>().unwrap() > CROWD / 10, "{metrics}");
}
