//! The consecutive sessions of a managed client.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use crate::connect_string::ConnectString;
use crate::error::{Error, ErrorKind, Result};
use crate::follow::follow;
use crate::options::Options;
use crate::session::{ClientShared, Session, SessionShared};
use crate::state::{ConnectionState, OnExpiry};

/// The current session, and the state that outlives it.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) client_shared: Arc<ClientShared>,
    current: watch::Sender<Session>,
}

impl Managed {
    /// Starts the first session, and a task that starts each next one.
    pub(crate) fn start(servers: ConnectString, options: Options) -> Result<Arc<Self>> {
        let followed = options.follow_membership.then(|| (servers.clone(), options.client_port()));
        let client_shared = Arc::new(ClientShared::new(servers, &options, OnExpiry::NextSession)?);
        let session = Session::start(client_shared.clone(), options);
        let shared = session.shared().clone();
        let managed = Arc::new(Managed { client_shared, current: watch::Sender::new(session) });
        managed
            .client_shared
            .runtime
            .spawn(replace_expired_sessions(Arc::downgrade(&managed), shared));
        if let Some((given, port)) = followed {
            managed.client_shared.runtime.spawn(follow(Arc::downgrade(&managed), given, port));
        }
        Ok(managed)
    }

    pub(crate) fn session(&self) -> Session {
        self.current.borrow().clone()
    }

    /// Closes the current session. If that has just expired, closes the next one, too.
    pub(crate) async fn close(&self) -> Result<()> {
        let mut sessions = self.current.subscribe();
        loop {
            let session = sessions.borrow_and_update().clone();
            let closed = session.close().await;
            if session.state() != ConnectionState::Expired || sessions.changed().await.is_err() {
                return closed;
            }
        }
    }

    /// Waits for a connected session; fails if there will be none.
    pub(crate) async fn connected_session(&self) -> Result<Session> {
        let mut sessions = self.current.subscribe();
        loop {
            let session = sessions.borrow_and_update().clone();
            let state = session.wait_for(|state| state.is_connected() || state.is_final()).await;
            match state {
                ConnectionState::Expired => {}
                ConnectionState::Closed => return Err(Error::not_applied(ErrorKind::Closed)),
                ConnectionState::AuthFailed => return Err(session.shared().auth_failure()),
                _ => return Ok(session),
            }
            drop(session);
            if sessions.changed().await.is_err() {
                return Err(Error::not_applied(ErrorKind::Closed));
            }
        }
    }
}

/// Opens the next session whenever one has expired. Keeps no strong reference, so that dropping the
/// last client ends this task.
async fn replace_expired_sessions(managed: Weak<Managed>, mut shared: Arc<SessionShared>) {
    while shared.ended().await == ConnectionState::Expired {
        let Some(managed) = managed.upgrade() else {
            return;
        };
        let options = Options { resumed: None, ..shared.options.clone() };
        let next = Session::start(managed.client_shared.clone(), options);
        shared = next.shared().clone();
        managed.current.send_replace(next);
    }
}
