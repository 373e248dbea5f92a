//! Reports at once that no server can be reached, while the client keeps trying.
//!
//! In: connection options and servers. Out: a client; and one line as soon as each of the servers has failed once
//! before any of them was reached. Deliberately not here: servers that accept a connection and then do not reply, and
//! connections that are lost later.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herdsman_client::{Client, ConnectString, Dial, Dialing, HostPort, Options};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Connects with these options, which give up after `wait_max`. When all servers have failed once, calls `note` with a
/// line that names them and the reasons.
///
/// # Errors
/// As [`Options::connect`].
pub async fn connect_with_note(
    options: Options,
    servers: &str,
    wait_max: Duration,
    note: impl FnOnce(String),
) -> herdsman_client::Result<Client> {
    // An invalid connect string is rejected at once, with a reason.
    let Ok(parsed) = servers.parse::<ConnectString>() else {
        return options.connect(servers).await;
    };
    let (report, reported) = oneshot::channel();
    let mut connecting =
        pin!(options.dial(Arc::new(ReportingDial::new(&parsed, report))).connect(servers));
    tokio::select! {
        biased;
        connected = &mut connecting => return connected,
        failures = reported => {
            // No report means that a server was reached.
            if let Ok(failures) = failures {
                note(format!("cannot connect to {failures}; retrying for up to {} s", wait_max.as_secs_f64()));
            }
        }
    }
    connecting.await
}

/// Opens TCP connections, and records failures until the first one is open.
#[derive(Debug)]
struct ReportingDial {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    untried: Vec<HostPort>,
    failures: Vec<String>,
    report: Option<oneshot::Sender<String>>,
}

impl ReportingDial {
    fn new(servers: &ConnectString, report: oneshot::Sender<String>) -> Self {
        let state =
            State { untried: servers.hosts().to_vec(), failures: Vec::new(), report: Some(report) };
        ReportingDial { state: Mutex::new(state) }
    }

    fn note(&self, host: &str, port: u16, outcome: &io::Result<TcpStream>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(_) => state.report = None,
            Err(error) => state.note_failure(host, port, error),
        }
    }
}

impl State {
    fn note_failure(&mut self, host: &str, port: u16, error: &io::Error) {
        let is_this = |server: &HostPort| server.host() == host && server.port() == port;
        let Some(server) = self.untried.iter().find(|server| is_this(server)) else { return };
        self.failures.push(format!("{server}: {}", reason(error)));
        self.untried.retain(|server| !is_this(server));
        if self.untried.is_empty()
            && let Some(report) = self.report.take()
        {
            // The receiver is gone if the attempt was just given up.
            let _ = report.send(self.failures.join(", "));
        }
    }
}

impl Dial for ReportingDial {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a> {
        Box::pin(async move {
            let dialed = TcpStream::connect((host, port)).await;
            self.note(host, port, &dialed);
            dialed
        })
    }
}

/// A short reason such as `connection refused`, without the number of the system's error.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    match text.strip_prefix("failed to lookup address information: ") {
        Some(why) => format!("unknown host ({why})"),
        None => text.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> io::Error {
        io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error())
    }

    #[test]
    fn failures_are_reported_when_all_servers_have_failed() {
        let (report, mut reported) = oneshot::channel();
        let dial = ReportingDial::new(&"a:1,[::1]:2".parse().unwrap(), report);
        dial.note("a", 1, &Err(refused()));
        dial.note("a", 1, &Err(refused()));
        assert!(reported.try_recv().is_err());
        dial.note("::1", 2, &Err(refused()));
        let expected = "a:1: connection refused, [::1]:2: connection refused";
        assert_eq!(reported.try_recv().unwrap(), expected);
        dial.note("a", 1, &Err(refused()));
    }

    #[tokio::test]
    async fn after_a_connection_nothing_is_reported() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (report, mut reported) = oneshot::channel();
        let dial = ReportingDial::new(&"a:1".parse().unwrap(), report);
        let open = TcpStream::connect(listener.local_addr().unwrap()).await;
        dial.note("a", 1, &open);
        dial.note("a", 1, &Err(refused()));
        assert!(reported.try_recv().is_err());
    }

    #[test]
    fn reasons_are_short() {
        assert_eq!(reason(&refused()), "connection refused");
        let unknown = io::Error::other("failed to lookup address information: Name not known");
        assert_eq!(reason(&unknown), "unknown host (Name not known)");
    }
}
