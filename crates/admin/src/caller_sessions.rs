//! Sessions of the server's own client port on behalf of HTTP callers.
//!
//! A REST write goes through a session that the server treats as one of the caller: it has the caller's
//! address and certificate, and presents the caller's credentials. So everything that the client port
//! checks and counts (ACLs, quotas, connection limits, throttling, audit) applies here too, and none of
//! it is implemented twice.
//!
//! One session serves all requests of the same address, certificate and credentials. It is closed when
//! it has not been used for [`IDLE_TIME`]. There are at most [`SESSIONS_MAX`], and for one network at
//! most [`PER_NETWORK_MAX`]; beyond that the longest idle one is closed to make room, and if none is
//! idle the request is rejected.

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

/// Most sessions in total.
const SESSIONS_MAX: usize = 128;
/// Most sessions of one network, which may have many credentials.
const PER_NETWORK_MAX: usize = 16;
/// How long an unused session is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How often idle sessions are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How long a request waits for its session.
const OPEN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a request waits for the reply to a write.
const WRITE_TIME_MAX: Duration = Duration::from_secs(15);
/// The session timeout: how long sessions remain if the admin server ends without closing them.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// A placeholder: [`OwnPort`] always connects to this server.
const OWN_PORT: &str = "127.0.0.1:2181";

/// The sessions.
#[derive(Debug)]
pub(crate) struct CallerSessions {
    server: ServerHandle,
    table: Mutex<Table>,
    me: Weak<CallerSessions>,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<Key, Slot>,
    /// Whether the task that closes idle sessions is running. There is one for all, so that credentials are held by the
    /// slots only, whose number is limited, and not by a timer for each recently opened session.
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

/// A session that is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct CallerSession {
    client: Client,
    _use: Use,
}

impl CallerSession {
    /// The client that acts on behalf of the caller.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

/// Keeps a session from counting as idle.
#[derive(Debug)]
struct Use {
    caller_sessions: Arc<CallerSessions>,
    key: Key,
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut table = self.caller_sessions.table.lock();
        if let Some(slot) = table.slots.get_mut(&self.key) {
            slot.uses -= 1;
            slot.idle_since = Instant::now();
        }
    }
}

impl CallerSessions {
    /// Starts without sessions.
    pub(crate) fn new(server: ServerHandle) -> Arc<Self> {
        Arc::new_cyclic(|me| CallerSessions { server, table: Mutex::default(), me: me.clone() })
    }

    /// Returns a session on behalf of the caller.
    ///
    /// # Errors
    /// Fails if there are too many, or if none can be opened within [`OPEN_TIME_MAX`].
    pub(crate) async fn of(&self, identity: &Identity) -> Result<CallerSession, ApiError> {
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
        Ok(CallerSession { client: opened?.clone(), _use: in_use })
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
        let caller_sessions = self.me.upgrade().expect("the caller has a reference to it");
        Ok((Arc::clone(&slot.client), Use { caller_sessions, key }))
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

    /// Closes sessions that have been idle for too long. Returns false if no sessions are left.
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
async fn sweep(caller_sessions: Weak<CallerSessions>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(caller_sessions) = caller_sessions.upgrade() else { return };
        if !caller_sessions.close_idle() {
            return;
        }
    }
}

/// Makes room for one more session.
fn make_room(slots: &mut HashMap<Key, Slot>, address: IpAddr) -> Result<(), ApiError> {
    let network = AddressBlock::of(address);
    let of_network = slots.keys().filter(|key| AddressBlock::of(key.address) == network).count();
    let may_go: fn(&Key, AddressBlock) -> bool = if of_network >= PER_NETWORK_MAX {
        |key, network| AddressBlock::of(key.address) == network
    } else if slots.len() >= SESSIONS_MAX {
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
        // If closing fails, the server expires the session.
        tokio::spawn(async move { _ = client.close().await });
    }
}

fn read_only() -> ApiError {
    ApiError::new(
        axum::http::StatusCode::SERVICE_UNAVAILABLE,
        "ReadOnly",
        "the server is read-only: it is cut off from its quorum",
    )
}

/// Connects to the client port inside the process, on behalf of a caller.
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
    async fn the_longest_idle_session_of_the_network_makes_room() {
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
    async fn the_total_is_limited() {
        let mut slots: HashMap<_, _> =
            (0..SESSIONS_MAX).map(|n| (key(n as u8, 0), slot(1))).collect();
        assert!(make_room(&mut slots, key(200, 0).address).is_err());
        slots.get_mut(&key(7, 0)).unwrap().uses = 0;
        make_room(&mut slots, key(200, 0).address).unwrap();
        assert!(!slots.contains_key(&key(7, 0)));
    }

    /// Each used to have a timer, which kept its credentials even after the session was closed to make room.
    #[tokio::test(start_paused = true)]
    async fn closed_sessions_leave_nothing_behind() {
        let server = herdsman_testing::TestServer::start();
        let caller_sessions = CallerSessions::new(server.handle());
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for user in 0..1000 {
            drop(caller_sessions.take(key(1, user)).unwrap());
        }
        assert_eq!(tasks(), before + 1);
        tokio::time::sleep(IDLE_TIME * 2).await;
        assert_eq!(tasks(), before);
        drop(caller_sessions.take(key(1, 1)).unwrap());
        assert_eq!(tasks(), before + 1, "the task starts again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_is_closed_and_one_in_use_is_not() {
        let server = herdsman_testing::TestServer::start();
        let caller_sessions = CallerSessions::new(server.handle());
        let (_, in_use) = caller_sessions.take(key(1, 1)).unwrap();
        let (_, idle) = caller_sessions.take(key(1, 2)).unwrap();
        drop(idle);
        tokio::time::sleep(IDLE_TIME * 2).await;
        assert!(caller_sessions.table.lock().slots.keys().eq([&key(1, 1)]));
        drop(in_use);
        tokio::time::sleep(IDLE_TIME * 3).await;
        assert!(caller_sessions.table.lock().slots.is_empty());
    }
}
