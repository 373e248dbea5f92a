//! `herdsman server --ensemble N`: an ensemble in one process, for trying things out.
//!
//! In: the number of servers and their directory; commands typed on standard input; signals. Out: servers that
//! communicate over loopback as they would on separate machines, each with a zoo.cfg and a data directory (see
//! [`layout`]), and a connect string on standard output. Every log line of a server contains the server's number.
//! Deliberately not here: what a server does.

mod console;
mod layout;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use herdsman_config::Config;
use herdsman_config::SystemProperties;
use herdsman_server::operators::log_level::LogLevel;
use herdsman_server::{Server, ServesAs, StartError, StopSignal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{error, info, info_span, warn};

use crate::admin::{self, HttpPorts};
use console::{Command, HELP};
use layout::{Layout, PreferredPorts};

/// Prints a line for the user. Unlike `println!`, ignores a closed standard output.
macro_rules! print_line {
    ($($text:tt)*) => {
        _ = writeln!(std::io::stdout(), $($text)*)
    };
}

/// How many commands and failures may be queued before senders wait.
const EVENTS_MAX: usize = 16;
/// The exit code of Apache's server for invalid arguments or configuration.
const BAD_INVOCATION: u8 = 2;

/// Runs `count` servers until it is stopped by a command or a signal. Their data is below `dir`, or in a temporary
/// directory that is removed at the end.
pub fn run(
    count: u8,
    dir: Option<&Path>,
    properties: &SystemProperties,
    log_level: &LogLevel,
) -> ExitCode {
    let layout = match Layout::prepare(count, dir, PreferredPorts::Standard) {
        Ok(layout) => layout,
        Err(failure) => {
            error!("{failure:#}");
            return ExitCode::from(BAD_INVOCATION);
        }
    };
    match serve(&layout, properties, log_level) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!("{failure:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(
    layout: &Layout,
    properties: &SystemProperties,
    log_level: &LogLevel,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let mut ensemble = Ensemble::new(layout, properties, log_level, events.clone());
        let served = ensemble.serve(layout, events, received).await;
        ensemble.stop_all();
        served
    });
    // The thread that reads commands may block forever.
    runtime.shutdown_background();
    served
}

/// What an ensemble waits for.
enum Event {
    /// The user typed a command.
    Command(Command),
    /// A server failed and must be stopped.
    Failed { id: u8, reason: String },
    /// A start has ended.
    Started(Box<Started>),
}

/// How the start of a server has ended.
struct Started {
    index: usize,
    config: Config,
    server: Result<Server, StartError>,
}

/// One server, running or not.
struct Member {
    id: u8,
    zoo_cfg: PathBuf,
    client_address: String,
    running: Option<Running>,
    /// Cancels a start that is in progress: a server whose files are damaged waits for the others.
    starting: Option<StopSignal>,
}

struct Running {
    server: Server,
    /// Its admin and metrics ports; closed with it.
    http: HttpPorts,
    /// The task that waits for a failure of the server.
    failure: JoinHandle<()>,
}

/// The servers of the ensemble.
struct Ensemble<'a> {
    members: Vec<Member>,
    properties: &'a SystemProperties,
    /// Common to all servers, which share one process.
    log_level: &'a LogLevel,
    events: mpsc::Sender<Event>,
}

impl<'a> Ensemble<'a> {
    fn new(
        layout: &Layout,
        properties: &'a SystemProperties,
        log_level: &'a LogLevel,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let members = layout.members().map(|member| Member {
            id: member.id,
            zoo_cfg: member.zoo_cfg,
            client_address: member.client_address,
            running: None,
            starting: None,
        });
        Ensemble { members: members.collect(), properties, log_level, events }
    }

    async fn serve(
        &mut self,
        layout: &Layout,
        events: mpsc::Sender<Event>,
        mut received: mpsc::Receiver<Event>,
    ) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        for index in 0..self.members.len() {
            self.start(index)?;
        }
        let mut introduced = false;
        loop {
            if !introduced && self.members.iter().all(|member| member.running.is_some()) {
                introduced = true;
                self.print_introduction(layout);
                console::listen(events.clone())?;
            }
            let event = tokio::select! {
                event = received.recv() => event,
                _ = terminate.recv() => {
                    info!("received SIGTERM, stopping");
                    None
                }
                _ = interrupt.recv() => {
                    info!("received SIGINT, stopping");
                    None
                }
            };
            match event {
                None | Some(Event::Command(Command::Quit)) => return Ok(()),
                Some(Event::Command(command)) => self.execute(&command),
                Some(Event::Failed { id, reason }) => self.stop_failed(id, &reason),
                Some(Event::Started(started)) => match self.take_up(*started) {
                    Err(failure) if introduced => error!("{failure:#}"),
                    taken_up => taken_up?,
                },
            }
        }
    }

    /// Prints the connect string, the consoles and the commands.
    fn print_introduction(&self, layout: &Layout) {
        let addresses: Vec<_> =
            self.members.iter().map(|member| member.client_address.as_str()).collect();
        let count = self.members.len();
        let servers = if count == 1 { "server" } else { "servers" };
        print_line!("running {count} {servers} in this process; {}", layout.describe());
        print_line!("connect string: {}", addresses.join(","));
        let admins =
            self.members.iter().filter_map(|member| member.running.as_ref()?.http.admin.as_ref());
        let consoles: Vec<_> = admins.map(|admin| format!("http://{}", admin.address())).collect();
        print_line!("consoles: {}", consoles.join(" "));
        print_line!("{HELP}");
    }

    fn execute(&mut self, command: &Command) {
        match command {
            Command::Status => self.print_status(),
            Command::Start(id) => self.with_member(*id, |ensemble, index| {
                let Member { id, running, starting, .. } = &ensemble.members[index];
                if running.is_some() || starting.is_some() {
                    print_line!("server {id} is already running");
                } else if let Err(failure) = ensemble.start(index) {
                    error!("{failure:#}");
                }
            }),
            Command::Stop(id) => self.with_member(*id, |ensemble, index| {
                ensemble.end(index, Server::stop);
            }),
            Command::Kill(id) => self.with_member(*id, |ensemble, index| {
                ensemble.end(index, Server::kill);
            }),
            Command::Help => print_line!("{HELP}"),
            Command::Unknown(text) => print_line!("{text:?} is not a command. {HELP}"),
            Command::Quit => {}
        }
    }

    fn with_member(&mut self, id: u8, act: impl FnOnce(&mut Self, usize)) {
        match self.members.iter().position(|member| member.id == id) {
            Some(index) => act(self, index),
            None => print_line!("no such server: {id}"),
        }
    }

    /// Begins to start a server.
    fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let Member { id, zoo_cfg, .. } = &self.members[index];
        let id = *id;
        let _entered = info_span!("server", id).entered();
        let loaded = Config::load(zoo_cfg, self.properties)
            .with_context(|| format!("cannot start server {id}"))?;
        // The warnings are the same for all servers.
        for warning in loaded.warnings.iter().filter(|_| id == 1) {
            warn!("{warning}");
        }
        let (config, events) = (loaded.config, self.events.clone());
        let (stop, span) = (StopSignal::default(), tracing::Span::current());
        self.members[index].starting = Some(stop.clone());
        tokio::task::spawn_blocking(move || {
            let server = span.in_scope(|| Server::start_until(config.clone(), &stop));
            // The receiver is dropped only when the process ends.
            _ = events.blocking_send(Event::Started(Box::new(Started { index, config, server })));
        });
        Ok(())
    }

    /// Takes up a server that has started.
    fn take_up(&mut self, started: Started) -> anyhow::Result<()> {
        let Started { index, config, server } = started;
        let id = self.members[index].id;
        let _entered = info_span!("server", id).entered();
        self.members[index].starting = None;
        let server = match server {
            Err(StartError::Stopped) => return Ok(()),
            server => server.with_context(|| format!("cannot start server {id}"))?,
        };
        server.use_log_level(self.log_level.clone());
        let http = admin::open(&server, &config);
        let (failure, events) = (server.failure(), self.events.clone());
        let failure = tokio::spawn(async move {
            let reason = failure.await.to_string();
            // The receiver is dropped only when the process ends.
            _ = events.send(Event::Failed { id, reason }).await;
        });
        self.members[index].running = Some(Running { server, http, failure });
        Ok(())
    }

    fn end(&mut self, index: usize, end: fn(Server)) {
        let member = &mut self.members[index];
        let _entered = info_span!("server", id = member.id).entered();
        if let Some(stop) = member.starting.take() {
            return stop.stop();
        }
        match member.running.take() {
            Some(Running { server, http, failure }) => {
                failure.abort();
                drop(http);
                end(server);
            }
            None => print_line!("server {} is not running", member.id),
        }
    }

    fn stop_failed(&mut self, id: u8, reason: &str) {
        error!("stopping server {id} after a failure: {reason}");
        self.with_member(id, |ensemble, index| ensemble.end(index, Server::stop));
    }

    fn print_status(&self) {
        for Member { id, client_address, running, .. } in &self.members {
            match running {
                None => print_line!("server {id}  {client_address}  stopped"),
                Some(Running { server, .. }) => {
                    let (role, zxid) = (role_name(server.serves_as()), server.last_zxid());
                    print_line!("server {id}  {client_address}  {role}, last txn {zxid}");
                }
            }
        }
    }

    /// Stops the leader last, so that the other servers do not start an election.
    fn stop_all(&mut self) {
        let leads = |member: &Member| {
            let running = member.running.as_ref();
            running.is_some_and(|running| running.server.serves_as() == Some(ServesAs::Leader))
        };
        self.members.sort_by_key(leads);
        for index in 0..self.members.len() {
            let Member { running, starting, .. } = &self.members[index];
            if running.is_some() || starting.is_some() {
                self.end(index, Server::stop);
            }
        }
    }
}

fn role_name(role: Option<ServesAs>) -> &'static str {
    match role {
        None => "looking for a leader",
        Some(ServesAs::Standalone) => "standalone",
        Some(ServesAs::Leader) => "leader",
        Some(ServesAs::Follower) => "follower",
        Some(ServesAs::Observer) => "observer",
        Some(ServesAs::ReadOnly) => "read-only",
    }
}
