//! Sessions of the server's own client port that stand in for those who ask over HTTP.
//!
//! A write over REST is made by a session that the server takes for one of the asker: it comes from
//! the asker's address with the asker's certificate, and presents the asker's credentials. So everything
//! that the client port checks and counts (ACLs, quotas, limits of connections, throttling, audit) is the
//! same here, and none of it is written twice.
//!
//! One session serves all requests of the same address, certificate and credentials. It is closed when
//! nobody has used it for [`IDLE_TIME`]. There are at most [`STAND_INS_MAX`], and of one network at most
//! [`PER_NETWORK_MAX`]; when all are there, the one that has been idle longest makes room, and when none
//! is idle the request is refused.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_client::{Client, Dial, Dialing};
use herdsman_node::ServesAs;
use herdsman_server::{Caller, ServerHandle};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use crate::address_block::AddressBlock;
use crate::error::ApiError;
use crate::identity::{CertificateSubject, Credentials, Identity};

/// Sessions in all.
const STAND_INS_MAX: usize = 128;
/// Sessions of one network, which may have many credentials.
const PER_NETWORK_MAX: usize = 16;
/// How long a session is kept that nobody uses.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How often it is looked whether any is idle that long.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How long a request waits for its session.
const OPEN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a request waits for the answer to a write.
const WRITE_TIME_MAX: Duration = Duration::from_secs(15);
/// The server forgets a session this long after the admin server has gone without a word.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// There is only one server to connect to, and [`OwnPort`] knows the way.
const OWN_PORT: &str = "127.0.0.1:2181";

/// The sessions.
#[derive(Debug)]
pub(crate) struct StandIns {
    server: ServerHandle,
    table: Mutex<Table>,
    me: Weak<StandIns>,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<Key, Slot>,
    /// Whether the task runs that closes idle sessions. There is one for all, so that credentials are held by the
    /// slots only, whose number is limited, and not by a timer for each session that was opened lately.
    is_swept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    address: IpAddr,
    certificate: Option<CertificateSubject>,
    credentials: Option<Credentials>,
}

#[derive(Debug)]
struct Slot {
    client: Arc<OnceCell<Client>>,
    uses: usize,
    idle_since: Instant,
}

/// A session in use.
#[derive(Debug)]
pub(crate) struct StandIn {
    client: Client,
    _use: Use,
}

impl StandIn {
    /// The client that acts for the asker.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

/// Keeps a session from being taken for idle.
#[derive(Debug)]
struct Use {
    stand_ins: Arc<StandIns>,
    key: Key,
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut table = self.stand_ins.table.lock();
        if let Some(slot) = table.slots.get_mut(&self.key) {
            slot.uses -= 1;
            slot.idle_since = Instant::now();
        }
    }
}

impl StandIns {
    /// None yet.
    pub(crate) fn new(server: ServerHandle) -> Arc<Self> {
        Arc::new_cyclic(|me| StandIns { server, table: Mutex::default(), me: me.clone() })
    }

    /// A session in the name of who asks.
    ///
    /// # Errors
    /// There are too many, or the server takes none within [`OPEN_TIME_MAX`].
    pub(crate) async fn of(&self, identity: &Identity) -> Result<StandIn, ApiError> {
        match self.server.serves_as() {
            None => return Err(ApiError::not_serving()),
            Some(ServesAs::ReadOnly) => return Err(read_only()),
            Some(_) => {}
        }
        let key = Key {
            address: identity.peer.ip(),
            certificate: identity.certificate.clone(),
            credentials: identity.credentials().cloned(),
        };
        let (cell, in_use) = self.take(key.clone())?;
        let opened = cell.get_or_try_init(|| self.open(&key, identity.peer)).await;
        Ok(StandIn { client: opened?.clone(), _use: in_use })
    }

    fn take(&self, key: Key) -> Result<(Arc<OnceCell<Client>>, Use), ApiError> {
        let mut table = self.table.lock();
        if !table.slots.contains_key(&key) {
            make_room(&mut table.slots, key.address)?;
        }
        if !table.is_swept {
            table.is_swept = true;
            tokio::spawn(sweep(self.me.clone()));
        }
        let slot = table.slots.entry(key.clone()).or_insert_with(|| Slot {
            client: Arc::default(),
            uses: 0,
            idle_since: Instant::now(),
        });
        slot.uses += 1;
        let stand_ins = self.me.upgrade().expect("whoever calls this holds it");
        Ok((Arc::clone(&slot.client), Use { stand_ins, key }))
    }

    async fn open(&self, key: &Key, peer: SocketAddr) -> Result<Client, ApiError> {
        let certificate = key.certificate.as_ref();
        let caller = Caller {
            address: peer,
            certificate_subject: certificate.map(|CertificateSubject(subject)| Arc::clone(subject)),
        };
        let options = Client::options()
            .dial(Arc::new(OwnPort { server: self.server.clone(), caller }))
            .connect_timeout(OPEN_TIME_MAX)
            .session_timeout(SESSION_TIMEOUT)
            .deadline(WRITE_TIME_MAX)
            .request_bytes_max(self.server.config().limits.frame_bytes_max as usize);
        let options = match &key.credentials {
            Some(Credentials { scheme, secret }) => {
                options.credentials(scheme.clone(), secret.clone())
            }
            None => options,
        };
        Ok(options.connect(OWN_PORT).await?)
    }

    /// Closes what has been idle for long. False when nothing is left to be looked at later.
    fn close_idle(&self) -> bool {
        let mut table = self.table.lock();
        let now = Instant::now();
        let is_idle = |slot: &Slot| slot.uses == 0 && slot.idle_since + IDLE_TIME <= now;
        for (_, idle) in table.slots.extract_if(|_, slot| is_idle(slot)) {
            close(&idle);
        }
        table.is_swept = !table.slots.is_empty();
        table.is_swept
    }
}

/// Closes idle sessions until there are none.
async fn sweep(stand_ins: Weak<StandIns>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(stand_ins) = stand_ins.upgrade() else { return };
        if !stand_ins.close_idle() {
            return;
        }
    }
}

/// Makes sure that one more session may be opened.
fn make_room(slots: &mut HashMap<Key, Slot>, address: IpAddr) -> Result<(), ApiError> {
    let network = AddressBlock::of(address);
    let of_network = slots.keys().filter(|key| AddressBlock::of(key.address) == network).count();
    let may_go: fn(&Key, AddressBlock) -> bool = if of_network >= PER_NETWORK_MAX {
        |key, network| AddressBlock::of(key.address) == network
    } else if slots.len() >= STAND_INS_MAX {
        |_, _| true
    } else {
        return Ok(());
    };
    let idle = slots.iter().filter(|(key, slot)| slot.uses == 0 && may_go(key, network));
    let longest = idle.min_by_key(|(_, slot)| slot.idle_since).map(|(key, _)| key.clone());
    let longest = longest.ok_or_else(|| {
        ApiError::too_many("too many sessions are open for the admin server; try again later")
    })?;
    if let Some(idle) = slots.remove(&longest) {
        close(&idle);
    }
    Ok(())
}

fn close(slot: &Slot) {
    if let Some(client) = slot.client.get().cloned() {
        // Whether the server hears of it or finds out by itself makes no difference.
        tokio::spawn(async move { _ = client.close().await });
    }
}

fn read_only() -> ApiError {
    ApiError::new(
        axum::http::StatusCode::SERVICE_UNAVAILABLE,
        "ReadOnly",
        "the server is cut off from its quorum and answers reads only",
    )
}

/// The way to the client port from inside, in the name of somebody.
#[derive(Debug)]
struct OwnPort {
    server: ServerHandle,
    caller: Caller,
}

impl Dial for OwnPort {
    fn dial<'a>(&'a self, _: &'a str, _: u16) -> Dialing<'a> {
        Box::pin(async {
            let stream = self.server.connect_as(self.caller.clone())?;
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            TcpStream::from_std(stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn key(address: u8, user: usize) -> Key {
        let secret = Bytes::from(format!("u{user}:x"));
        let credentials = Some(Credentials { scheme: "digest".to_owned(), secret });
        Key { address: IpAddr::from([10, 0, 0, address]), certificate: None, credentials }
    }

    fn slot(uses: usize) -> Slot {
        Slot { client: Arc::default(), uses, idle_since: Instant::now() }
    }

    #[tokio::test]
    async fn the_one_that_is_idle_longest_makes_room_among_its_own() {
        let mut slots: HashMap<_, _> =
            (0..PER_NETWORK_MAX).map(|user| (key(1, user), slot(usize::from(user != 3)))).collect();
        slots.insert(key(2, 0), slot(0));
        make_room(&mut slots, key(1, 99).address).unwrap();
        assert!(!slots.contains_key(&key(1, 3)) && slots.contains_key(&key(2, 0)));
        slots.insert(key(1, 3), slot(1));
        let refused = make_room(&mut slots, key(1, 99).address).unwrap_err();
        assert_eq!(refused.status.as_u16(), 429);
        make_room(&mut slots, key(3, 0).address).unwrap();
    }

    #[tokio::test]
    async fn there_are_so_many_in_all() {
        let mut slots: HashMap<_, _> =
            (0..STAND_INS_MAX).map(|n| (key(n as u8, 0), slot(1))).collect();
        assert!(make_room(&mut slots, key(200, 0).address).is_err());
        slots.get_mut(&key(7, 0)).unwrap().uses = 0;
        make_room(&mut slots, key(200, 0).address).unwrap();
        assert!(!slots.contains_key(&key(7, 0)));
    }

    /// Each used to have a timer, which held its credentials also when it had made room for another one.
    #[tokio::test(start_paused = true)]
    async fn sessions_that_have_made_room_leave_nothing_behind() {
        let server = herdsman_testing::TestServer::start();
        let stand_ins = StandIns::new(server.handle());
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for user in 0..1000 {
            drop(stand_ins.take(key(1, user)).unwrap());
        }
        assert_eq!(tasks(), before + 1);
        tokio::time::sleep(IDLE_TIME * 2).await;
        assert_eq!(tasks(), before);
        drop(stand_ins.take(key(1, 1)).unwrap());
        assert_eq!(tasks(), before + 1, "it begins again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_is_closed_and_one_in_use_is_not() {
        let server = herdsman_testing::TestServer::start();
        let stand_ins = StandIns::new(server.handle());
        let (_, in_use) = stand_ins.take(key(1, 1)).unwrap();
        let (_, idle) = stand_ins.take(key(1, 2)).unwrap();
        drop(idle);
        tokio::time::sleep(IDLE_TIME * 2).await;
        assert!(stand_ins.table.lock().slots.keys().eq([&key(1, 1)]));
        drop(in_use);
        tokio::time::sleep(IDLE_TIME * 3).await;
        assert!(stand_ins.table.lock().slots.is_empty());
    }
}
