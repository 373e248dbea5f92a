//! One server of an ensemble: its files, its process, and the role that it reports.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Settings;
use crate::paths;
use crate::server::{self, Jvm, Launch, Program, Server};

const UP_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// A server that does not answer a four-letter word within this time counts as not serving.
const WORD_TIMEOUT: Duration = Duration::from_millis(1000);
const INIT_LIMIT: u32 = 20;

/// Whether a server votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Votes, may lead.
    Participant,
    /// Does not vote.
    Observer,
}

/// The role that a serving server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Decides the order of writes.
    Leader,
    /// Follows a leader and votes.
    Follower,
    /// Follows a leader and does not vote.
    Observer,
}

/// The addresses of a server, and how its process is started.
pub(super) struct Placement {
    /// Host and port for clients.
    pub client: (String, u16),
    /// Host, quorum port and election port.
    pub quorum: (String, u16, u16),
    /// The command its process runs within.
    pub within: Vec<String>,
}

impl Placement {
    /// Returns its line in every server's zoo.cfg, with its client port if memberships change.
    pub fn server_line(&self, id: usize, role: Role, settings: &Settings) -> String {
        let (host, quorum, election) = &self.quorum;
        let role = match role {
            Role::Participant => "participant",
            Role::Observer => "observer",
        };
        let mut line = format!("server.{id}={host}:{quorum}:{election}:{role}");
        if settings.reconfig {
            let (host, port) = &self.client;
            line += &format!(";{host}:{port}");
        }
        line
    }
}

/// One server.
pub struct Member {
    id: usize,
    program: Program,
    role: Role,
    dir: PathBuf,
    address: String,
    within: Vec<String>,
    /// Environment variables of its processes, as `NAME=value`.
    environment: Vec<String>,
    /// Whether clients may change the membership.
    is_changeable: bool,
    /// Whether its clock can be changed.
    has_clock: bool,
    properties: Vec<(String, String)>,
    /// Its zoo.cfg without the lines from [`Member::configure`].
    config: Vec<String>,
    jvm: Jvm,
    process: Process,
}

enum Process {
    Down,
    Running(Server),
    Paused(Server),
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "server {} ({})", self.id, self.program.name())
    }
}

impl Member {
    /// Creates its directory with zoo.cfg, an empty data directory and myid.
    pub(super) fn lay_out(
        work: &Path,
        id: usize,
        program: Program,
        role: Role,
        place: Placement,
        settings: &Settings,
        servers: &[String],
    ) -> Result<Member> {
        let dir = work.join(format!("server-{id}"));
        let (host, port) = &place.client;
        let mut member = Member {
            id,
            program,
            role,
            dir,
            address: format!("{host}:{port}"),
            within: place.within,
            environment: Vec::new(),
            is_changeable: settings.reconfig,
            has_clock: settings.faketime.is_some(),
            properties: settings.properties.clone(),
            config: Vec::new(),
            jvm: settings.jvm,
            process: Process::Down,
        };
        fs::create_dir_all(member.data_dir())?;
        if let Some(library) = &settings.faketime {
            member.set_clock(0)?;
            member.within.extend(member.clock_variables(library));
        }
        fs::write(member.data_dir().join("myid"), format!("{id}\n"))?;
        let mut lines = vec![
            format!("dataDir={}", member.data_dir().display()),
            format!("clientPort={port}"),
            format!("clientPortAddress={host}"),
            format!("tickTime={}", settings.tick_ms),
            format!("initLimit={INIT_LIMIT}"),
            format!("syncLimit={}", settings.sync_limit),
            "maxClientCnxns=0".into(),
            "admin.enableServer=false".into(),
            "4lw.commands.whitelist=*".into(),
        ];
        if settings.reconfig {
            lines.push("reconfigEnabled=true".into());
        }
        if role == Role::Observer {
            lines.push("peerType=observer".into());
        }
        lines.extend(servers.iter().cloned());
        member.config = lines;
        member.configure(&settings.lines)?;
        Ok(member)
    }

    /// Adds these lines to its zoo.cfg, for its next start.
    pub fn configure(&self, lines: &[String]) -> Result<()> {
        let text: String =
            self.config.iter().chain(lines).map(|line| format!("{line}\n")).collect();
        fs::write(self.config_path(), text)?;
        Ok(())
    }

    /// Whether its stored membership does not include itself, so that it cannot start.
    pub fn is_left_out(&self) -> Result<bool> {
        let config = fs::read_to_string(self.config_path())?;
        let kept = config.lines().find_map(|line| line.strip_prefix("dynamicConfigFile="));
        let own = format!("server.{}=", self.id);
        let Some(path) = kept else {
            return Ok(false);
        };
        let kept = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
        Ok(!kept.lines().any(|line| line.starts_with(&own)))
    }

    /// Its id.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Which program it runs, or will run next.
    pub fn program(&self) -> Program {
        self.program
    }

    /// Whether its role allows it to serve in this mode; always, if clients may change its role.
    pub fn is_fit_for(&self, mode: Option<Mode>) -> bool {
        match self.role {
            _ if self.is_changeable => mode.is_some(),
            Role::Participant => matches!(mode, Some(Mode::Leader | Mode::Follower)),
            Role::Observer => mode == Some(Mode::Observer),
        }
    }

    /// `host:port` for clients.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The folder that holds `version-2`.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The output of its processes since it runs the current program.
    pub fn log_path(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.program.name()))
    }

    /// The content of [`Member::log_path`].
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.log_path())?).into_owned())
    }

    /// Sets environment variables, as `NAME=value`, for its next starts.
    pub fn set_environment(&mut self, variables: Vec<String>) {
        self.environment = variables;
    }

    /// Environment variables for a separate wall clock. The monotonic clock is not affected, as on a
    /// machine whose clock is set.
    fn clock_variables(&self, library: &Path) -> Vec<String> {
        let file = self.clock_path();
        vec![
            "env".into(),
            format!("LD_PRELOAD={}", library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
        ]
    }

    /// Whether [`Member::set_clock`] has an effect.
    pub fn has_clock(&self) -> bool {
        self.has_clock
    }

    /// Sets the offset in seconds of its process's wall clock.
    pub fn set_clock(&self, offset_seconds: i64) -> Result<()> {
        // Renamed into place, because the process reads it whenever it reads the clock.
        let new = self.dir.join("clock.new");
        fs::write(&new, format!("{offset_seconds:+}\n"))?;
        Ok(fs::rename(new, self.clock_path())?)
    }

    fn clock_path(&self) -> PathBuf {
        self.dir.join("clock")
    }

    /// The folder with its zoo.cfg, logs and data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn config_path(&self) -> PathBuf {
        self.dir.join("zoo.cfg")
    }

    /// Whether it has a process, paused or not.
    pub fn is_running(&self) -> bool {
        !matches!(self.process, Process::Down)
    }

    /// Whether it has a process that is not paused.
    pub fn is_awake(&self) -> bool {
        matches!(self.process, Process::Running(_))
    }

    /// Its process, if it has one.
    pub fn server(&self) -> Option<&Server> {
        match &self.process {
            Process::Down => None,
            Process::Running(server) | Process::Paused(server) => Some(server),
        }
    }

    /// Starts its process without waiting.
    pub fn launch(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "{self} is already running");
        let mut properties = self.properties.clone();
        if self.program == Program::Apache {
            let settings = paths::root().join("interop/zookeeper/logback-ensemble.xml");
            properties.push(("logback.configurationFile".into(), settings.display().to_string()));
        }
        let mut within = self.within.clone();
        if !self.environment.is_empty() {
            within.push("env".into());
            within.extend(self.environment.iter().cloned());
        }
        let launch = Launch {
            program: self.program,
            properties: &properties,
            config: &self.config_path(),
            log: &self.log_path(),
            address: self.address.clone(),
            jvm: self.jvm,
            within: &within,
        };
        self.process = Process::Running(launch.start()?);
        Ok(())
    }

    /// Waits until it answers on its client port, whether it serves or not.
    pub fn await_up(&mut self) -> Result<()> {
        let deadline = Instant::now() + UP_MAX;
        while self.word("ruok").is_err() {
            self.ensure_alive()?;
            ensure!(Instant::now() < deadline, "{self} does not answer");
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Fails if its process has ended.
    pub fn ensure_alive(&mut self) -> Result<()> {
        let (id, program) = (self.id, self.program);
        match &mut self.process {
            Process::Running(server) | Process::Paused(server) => {
                server.ensure_alive().with_context(|| format!("server {id} ({program:?})"))
            }
            Process::Down => Ok(()),
        }
    }

    /// The mode that it reports; `None` if it does not serve or does not answer in time.
    pub fn mode(&self) -> Option<Mode> {
        let answer = self.word("srvr").ok()?;
        match answer.lines().find_map(|line| line.strip_prefix("Mode: "))? {
            "leader" => Some(Mode::Leader),
            "follower" => Some(Mode::Follower),
            "observer" => Some(Mode::Observer),
            _ => None,
        }
    }

    /// Its answer to a four-letter word.
    pub fn word(&self, word: &str) -> Result<String> {
        server::four_letters(&self.address, word, WORD_TIMEOUT)
    }

    /// Stops it with SIGTERM and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        self.take_process()?.stop()
    }

    /// Kills it with SIGKILL, paused or not.
    pub fn kill(&mut self) -> Result<()> {
        self.take_process()?.kill()
    }

    /// Sends SIGKILL; [`Member::kill`] must follow.
    pub(super) fn send_kill(&mut self) -> Result<()> {
        match &mut self.process {
            Process::Down => Ok(()),
            Process::Running(server) | Process::Paused(server) => server.send_kill(),
        }
    }

    fn take_process(&mut self) -> Result<Server> {
        match std::mem::replace(&mut self.process, Process::Down) {
            Process::Down => anyhow::bail!("{self} does not run"),
            Process::Running(server) | Process::Paused(server) => Ok(server),
        }
    }

    /// Pauses its process (SIGSTOP).
    pub fn pause(&mut self) -> Result<()> {
        let server = self.take_process()?;
        server.pause()?;
        self.process = Process::Paused(server);
        Ok(())
    }

    /// Resumes its process (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        let server = self.take_process()?;
        server.resume()?;
        self.process = Process::Running(server);
        Ok(())
    }

    /// Changes its program, which uses the same data directory; it must not be running.
    pub fn swap(&mut self, program: Program) -> Result<()> {
        ensure!(!self.is_running(), "{self} runs");
        self.program = program;
        Ok(())
    }

    /// Empties its data directory except for myid; it must not be running.
    pub fn wipe(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "{self} runs");
        let version_2 = self.data_dir().join("version-2");
        fs::remove_dir_all(&version_2).with_context(|| format!("emptying {}", version_2.display()))
    }
}
