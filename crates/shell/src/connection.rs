//! The shell's connection: its servers, its credentials and its state.

use herdsman_client::{
    Client, ConnectString, ConnectionEvent, ConnectionEvents, ConnectionState, Error, ErrorKind,
    Options, ReadOnlyServers,
};

use crate::arguments::ConnectionArguments;
use crate::failure::Failure;
use crate::reachability::connect_with_note;

/// A client of the servers: it opens a new session when the present one expires.
pub(crate) struct Connection {
    servers: ConnectString,
    root: Client,
    client: Client,
    events: ConnectionEvents,
}

impl Connection {
    /// Waits for a server. If none can be reached at first, calls `note` with a line that says so.
    pub(crate) async fn open(
        arguments: &ConnectionArguments,
        note: impl FnOnce(String),
    ) -> Result<Self, Failure> {
        let servers = parse(&arguments.servers)?;
        let (options, hosts) = (options(arguments)?, without_chroot(&servers)?);
        let root = connect_with_note(options, &hosts, arguments.connect_timeout, note).await;
        Connection::of(servers, root.map_err(as_usage)?)
    }

    /// Keeps trying to connect in the background.
    pub(crate) fn open_later(arguments: &ConnectionArguments) -> Result<Self, Failure> {
        let servers = parse(&arguments.servers)?;
        let root = options(arguments)?.start(&without_chroot(&servers)?).map_err(as_usage)?;
        Connection::of(servers, root)
    }

    /// The session uses the whole tree, and the commands' client only what is below the chroot:
    /// quotas and the ensemble's configuration are outside of it.
    fn of(servers: ConnectString, root: Client) -> Result<Self, Failure> {
        let client = match servers.chroot() {
            "" => root.clone(),
            chroot => root.namespace(chroot)?,
        };
        let events = root.events();
        Ok(Connection { servers, root, client, events })
    }

    /// The client for commands: its root is the chroot.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The client for the whole tree.
    pub(crate) fn root(&self) -> &Client {
        &self.root
    }

    pub(crate) fn servers(&self) -> &ConnectString {
        &self.servers
    }

    /// zkCli's name for the state of the connection.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.root.state() {
            ConnectionState::Connected => "CONNECTED",
            ConnectionState::ReadOnly => "CONNECTEDREADONLY",
            ConnectionState::AuthFailed => "AUTH_FAILED",
            ConnectionState::Closed => "CLOSED",
            _ => "CONNECTING",
        }
    }

    /// Waits for the next change of the connection. Cancel-safe.
    pub(crate) async fn next_change(&mut self) -> Option<Change> {
        self.events.next().await.map(Change)
    }
}

/// A change of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change(ConnectionEvent);

impl Change {
    /// The event's name, for scripts.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            ConnectionEvent::Connected { .. } => "Connected",
            ConnectionEvent::Suspended => "Suspended",
            ConnectionEvent::Reconnected { .. } => "Reconnected",
            ConnectionEvent::ReadOnly => "ReadOnly",
            ConnectionEvent::Lost => "Lost",
            ConnectionEvent::Expired => "Expired",
            ConnectionEvent::AuthFailed => "AuthFailed",
            ConnectionEvent::Closed => "Closed",
            _ => "Unknown",
        }
    }

    /// A description for users.
    pub(crate) fn text(self) -> String {
        match self.0 {
            ConnectionEvent::Connected { session } => format!("connected, session {session}"),
            ConnectionEvent::Suspended => "connection lost; reconnecting".to_owned(),
            ConnectionEvent::Reconnected { session } => {
                format!("reconnected, same session {session}")
            }
            ConnectionEvent::ReadOnly => {
                "connected to a read-only server (cut off from its quorum)".to_owned()
            }
            ConnectionEvent::Lost => {
                "no contact for a whole session timeout; the session may have expired".to_owned()
            }
            ConnectionEvent::Expired => {
                "the session expired; its ephemerals and watches are gone".to_owned()
            }
            ConnectionEvent::AuthFailed => {
                "authentication failed: the server rejected the credentials".to_owned()
            }
            ConnectionEvent::Closed => "closed".to_owned(),
            _ => "the connection has changed".to_owned(),
        }
    }
}

fn options(arguments: &ConnectionArguments) -> Result<Options, Failure> {
    let read_only = match arguments.read_only {
        true => ReadOnlyServers::Accepted,
        false => ReadOnlyServers::Refused,
    };
    let options = Client::options()
        .session_timeout(arguments.session_timeout)
        .connect_timeout(arguments.connect_timeout)
        .read_only_servers(read_only);
    arguments.protection.apply(options).map_err(|error| Failure::usage(error.to_string()))
}

/// Reports invalid settings as a usage error, not as a server's reply.
fn as_usage(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::InvalidArgument(why) => Failure::usage(why.clone()),
        _ => error.into(),
    }
}

fn parse(servers: &str) -> Result<ConnectString, Failure> {
    servers.parse().map_err(|error| Failure::usage(format!("servers {servers:?}: {error}")))
}

fn without_chroot(servers: &ConnectString) -> Result<String, Failure> {
    let hosts = ConnectString::new(servers.hosts().iter().cloned(), "");
    Ok(hosts.map_err(|error| Failure::usage(error.to_string()))?.to_string())
}
