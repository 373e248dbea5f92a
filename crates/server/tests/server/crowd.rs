//! A thousand connections that mean harm, beside a client that does not: it is served all the while.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

use herdsman_server::TestServer;

use crate::client::Client;

const CROWD: usize = 1000;
/// Requests of the good client while the crowd is there.
const REQUESTS: usize = 500;
/// Between two bytes of a trickle, and before one that was sent away comes back: other tests want the
/// machine, too.
const PAUSE: Duration = Duration::from_millis(200);

/// What the hostile ones do.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Bytes without sense.
    Garbage,
    /// A frame that claims to be two gigabytes long.
    HugeLength,
    /// The beginning of a handshake, one byte at a time.
    Trickle,
    /// A question that is asked for ever, and whose answers nobody reads.
    Flood,
}

impl Harm {
    fn bytes(self) -> Vec<u8> {
        match self {
            Harm::Garbage => {
                (0..200u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
            }
            Harm::HugeLength => [&i32::MAX.to_be_bytes()[..], &[0; 64]].concat(),
            Harm::Trickle => vec![0],
            Harm::Flood => b"mntr".to_vec(),
        }
    }

    /// Goes on until the server closes the connection or all is over.
    fn do_it(self, address: SocketAddr, over: &AtomicBool) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PAUSE))?;
        let bytes = self.bytes();
        stream.write_all(&bytes)?;
        while !over.load(Ordering::Relaxed) {
            match stream.read(&mut [0; 16]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.write_all(&bytes[..1])?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Keeps the crowd there, a thread each.
fn send_in<'scope>(
    scope: &'scope Scope<'scope, '_>,
    address: SocketAddr,
    over: &'scope AtomicBool,
    came: &'scope AtomicUsize,
) {
    let kinds = [Harm::Garbage, Harm::HugeLength, Harm::Trickle, Harm::Flood];
    for (_, &harm) in (0..CROWD).zip(kinds.iter().cycle()) {
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn_scoped(scope, move || {
                while !over.load(Ordering::Relaxed) {
                    came.fetch_add(1, Ordering::Relaxed);
                    // That the server hangs up on it is what should happen.
                    _ = harm.do_it(address, over);
                    std::thread::sleep(PAUSE);
                }
            })
            .unwrap();
    }
}

#[test]
fn a_thousand_hostile_connections_do_not_stop_the_others() {
    let server = TestServer::start_with(|config| {
        config.limits.connections_per_address_max = None;
        config.listen.sessionless_timeout_ms = 500;
    });
    let (over, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut good = Client::connect(server.address());
    std::thread::scope(|scope| {
        send_in(scope, server.address(), &over, &came);
        good.create("/good", b"", 0).ok();
        let mut served = 0;
        while served < REQUESTS || came.load(Ordering::Relaxed) < CROWD {
            good.set("/good", served.to_string().as_bytes()).ok();
            let (data, _) = good.get("/good", false).unwrap();
            assert_eq!(data, served.to_string().as_bytes());
            served += 1;
        }
        // Newcomers get in, too.
        Client::connect(server.address()).create("/newcomer", b"", 0).ok();
        over.store(true, Ordering::Relaxed);
    });
}
