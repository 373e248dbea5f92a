//! `herdsman server --ensemble N`: an ensemble in one process, for trying things out.
//!
//! In: how many servers and where; commands typed on standard input; signals. Out: servers that
//! speak to each other over loopback like servers on machines of their own, each with a zoo.cfg and
//! a data directory (see [`layout`]), and a connect string on standard output. Every line of a server
//! in the log carries its number. Deliberately not here: what a server does.

mod console;
mod layout;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use herdsman_config::Config;
use herdsman_config::SystemProperties;
use herdsman_server::log_level::LogLevel;
use herdsman_server::{Server, ServesAs};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{error, info, info_span, warn};

use crate::admin::{self, HttpPorts};
use console::{Command, HELP};
use layout::{Layout, Wish};

/// Prints a line for whoever has started this. If nobody reads it, that is no reason to end.
macro_rules! tell {
    ($($text:tt)*) => {
        _ = writeln!(std::io::stdout(), $($text)*)
    };
}

/// Commands and failures that may wait; whoever has more of them waits.
const EVENTS_MAX: usize = 16;
/// What Apache's process ends with when it is given something that it cannot use.
const BAD_INVOCATION: u8 = 2;

/// Runs `count` servers until it is told to stop. `dir` is where they keep their data; without it a
/// temporary directory is used, and removed.
pub fn run(
    count: u8,
    dir: Option<&Path>,
    properties: &SystemProperties,
    log_level: &LogLevel,
) -> ExitCode {
    let layout = match Layout::prepare(count, dir, Wish::Usual) {
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
    // The thread that reads commands may wait for one for ever.
    runtime.shutdown_background();
    served
}

/// What an ensemble waits for.
enum Event {
    /// Something was typed.
    Command(Command),
    /// A server cannot go on.
    Failed { id: u8, what: String },
}

/// One server, running or not.
struct Member {
    id: u8,
    zoo_cfg: PathBuf,
    client_address: String,
    running: Option<Running>,
}

struct Running {
    server: Server,
    /// Its console; goes with it.
    http: HttpPorts,
    /// Waits for what makes the server useless.
    failure: JoinHandle<()>,
}

/// All of them.
struct Ensemble<'a> {
    members: Vec<Member>,
    properties: &'a SystemProperties,
    /// One for all of them: they are in one process.
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
        let members = layout.members().map(|place| Member {
            id: place.id,
            zoo_cfg: place.zoo_cfg,
            client_address: place.client_address,
            running: None,
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
        self.introduce(layout);
        console::listen(events)?;
        loop {
            let event = tokio::select! {
                event = received.recv() => event,
                _ = terminate.recv() => {
                    info!("SIGTERM");
                    None
                }
                _ = interrupt.recv() => {
                    info!("interrupted");
                    None
                }
            };
            match event {
                None | Some(Event::Command(Command::Quit)) => return Ok(()),
                Some(Event::Command(command)) => self.obey(&command),
                Some(Event::Failed { id, what }) => self.give_up(id, &what),
            }
        }
    }

    /// What whoever has started this wants to know, on standard output.
    fn introduce(&self, layout: &Layout) {
        let addresses: Vec<_> =
            self.members.iter().map(|member| member.client_address.as_str()).collect();
        let (count, place) = (self.members.len(), layout.describe());
        let servers = if count == 1 { "server runs" } else { "servers run" };
        tell!("{count} {servers} in this process, with {place}");
        tell!("connect string: {}", addresses.join(","));
        let admins =
            self.members.iter().filter_map(|member| member.running.as_ref()?.http.admin.as_ref());
        let consoles: Vec<_> = admins.map(|admin| format!("http://{}", admin.address())).collect();
        tell!("consoles: {}", consoles.join(" "));
        tell!("{HELP}");
    }

    fn obey(&mut self, command: &Command) {
        match command {
            Command::Status => self.print_status(),
            Command::Start(id) => self.with_member(*id, |ensemble, index| {
                if ensemble.members[index].running.is_some() {
                    tell!("server {} runs already", ensemble.members[index].id);
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
            Command::Help => tell!("{HELP}"),
            Command::Unknown(text) => tell!("{text:?} is not a command. {HELP}"),
            Command::Quit => {}
        }
    }

    fn with_member(&mut self, id: u8, act: impl FnOnce(&mut Self, usize)) {
        match self.members.iter().position(|member| member.id == id) {
            Some(index) => act(self, index),
            None => tell!("there is no server {id}"),
        }
    }

    fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let Member { id, zoo_cfg, .. } = &self.members[index];
        let id = *id;
        let _entered = info_span!("server", id).entered();
        let loaded = Config::load(zoo_cfg, self.properties)
            .with_context(|| format!("server {id} cannot be started"))?;
        // All of them have the same to say.
        for warning in loaded.warnings.iter().filter(|_| id == 1) {
            warn!("{warning}");
        }
        let config = loaded.config;
        let server = Server::start(config.clone())
            .with_context(|| format!("server {id} cannot be started"))?;
        server.use_log_level(self.log_level.clone());
        let http = admin::open(&server, &config);
        let (failure, events) = (server.failure(), self.events.clone());
        let failure = tokio::spawn(async move {
            let what = failure.await;
            // If nobody listens any more, everything ends anyway.
            _ = events.send(Event::Failed { id, what }).await;
        });
        self.members[index].running = Some(Running { server, http, failure });
        Ok(())
    }

    fn end(&mut self, index: usize, end: fn(Server)) {
        let member = &mut self.members[index];
        let _entered = info_span!("server", id = member.id).entered();
        match member.running.take() {
            Some(Running { server, http, failure }) => {
                failure.abort();
                drop(http);
                end(server);
            }
            None => tell!("server {} does not run", member.id),
        }
    }

    fn give_up(&mut self, id: u8, what: &str) {
        error!("server {id} cannot go on and is stopped: {what}");
        self.with_member(id, |ensemble, index| ensemble.end(index, Server::stop));
    }

    fn print_status(&self) {
        for Member { id, client_address, running, .. } in &self.members {
            match running {
                None => tell!("server {id}  {client_address}  stopped"),
                Some(Running { server, .. }) => {
                    let (role, zxid) = (role_name(server.serves_as()), server.last_zxid());
                    tell!("server {id}  {client_address}  {role}, last txn {zxid}");
                }
            }
        }
    }

    /// The leader last, so that the others need not look for a new one.
    fn stop_all(&mut self) {
        let leads = |member: &Member| {
            let running = member.running.as_ref();
            running.is_some_and(|running| running.server.serves_as() == Some(ServesAs::Leader))
        };
        self.members.sort_by_key(leads);
        for index in 0..self.members.len() {
            if self.members[index].running.is_some() {
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
