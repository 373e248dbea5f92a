//! The session: `connect`, `close` and `quit`.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::Run;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::shell::Shell;

/// Open a session, with the same or with other servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  connect                               after `close`, or to get a new session
  connect zk1:2181,zk2:2181/app         other servers; paths are relative to /app
The present session is closed: its ephemerals and watches are removed.")]
pub(crate) struct Connect {
    /// `host:port,host:port/chroot`.
    #[arg(value_name = "SERVERS")]
    servers: Option<String>,
}

impl Run for Connect {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let mut arguments = shell.connection_arguments.clone();
        if let Some(servers) = self.servers {
            arguments.servers = servers;
        }
        let connection = Connection::open(&arguments, |line| shell.output.note(line)).await?;
        let session = connection.root().session().id();
        if let Some(old) = shell.detach() {
            close_session(shell, &old).await;
        }
        shell.attach(connection);
        shell.connection_arguments = arguments;
        match shell.output.is_json() {
            true => {
                let servers = &shell.connection_arguments.servers;
                let answer = json!({"servers": servers, "session": session.to_string()});
                shell.output.json(&answer)
            }
            false => shell.output.say(format!("connected, session {session}")),
        }
    }
}

/// Close the session, but not the shell.
#[derive(Args, Debug)]
#[command(after_help = "Its ephemerals are deleted at once. `connect` opens a new session.")]
pub(crate) struct Close {}

impl Run for Close {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        shell.connection()?;
        if let Some(connection) = shell.detach() {
            close_session(shell, &connection).await;
        }
        match shell.output.is_json() {
            true => shell.output.json(&json!({"closed": true})),
            false => Ok(()),
        }
    }
}

/// Close the session and end the shell.
#[derive(Args, Debug)]
pub(crate) struct Quit {}

impl Run for Quit {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        shell.quit();
        Ok(())
    }
}

/// How long to wait for a server to confirm the end of the session.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Closes a session, but does not wait forever.
pub(crate) async fn close_session(shell: &mut Shell, connection: &Connection) {
    let is_connected = connection.root().state().is_connected();
    let closed = tokio::time::timeout(CLOSE_MAX, connection.root().close()).await;
    if is_connected && !matches!(closed, Ok(Ok(()))) {
        shell
            .output
            .note("the server did not confirm the close; the session expires after its timeout");
    }
}
