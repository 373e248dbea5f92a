//! A real server process for a test: Apache ZooKeeper or Herdsman, on a free port of the loopback address.
//!
//! In: which program, a data directory, settings. Out: an address that answers. The process is killed when
//! the value is dropped. Both programs get the same zoo.cfg and the same `-D` properties, which is part of
//! the test. [`Spec`] is one standalone server; `ensemble` starts several with [`Launch`].

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};

use crate::paths;
use crate::peers::Peer;
use crate::ports;

const START_MAX: Duration = Duration::from_secs(40);
const STOP_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const WORD_TIMEOUT: Duration = Duration::from_secs(5);
/// The unit of processor time in `/proc/PID/stat`, on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The digest of `super:test`, which lets a test read everything.
pub const SUPER_DIGEST: (&str, &str) =
    ("zookeeper.DigestAuthenticationProvider.superDigest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// The credentials that match [`SUPER_DIGEST`].
pub const SUPER_AUTH: &str = "super:test";

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// Apache ZooKeeper 3.9.5, from Maven.
    Apache,
    /// Apache ZooKeeper 3.8.0, from Debian's package; used to make fixtures.
    #[value(name = "apache-3.8")]
    Apache38,
    /// Herdsman's release build.
    Herdsman,
}

impl Program {
    /// A short name for files and headings.
    pub fn name(self) -> &'static str {
        match self {
            Program::Apache => "apache-3.9.5",
            Program::Apache38 => "apache-3.8.0",
            Program::Herdsman => "herdsman",
        }
    }

    /// Fails if the program is missing.
    pub fn ensure_here(self) -> Result<()> {
        match self {
            Program::Apache => Peer::Zookeeper.ensure(),
            Program::Apache38 => Peer::Zookeeper38.ensure(),
            Program::Herdsman => {
                let binary = paths::herdsman();
                ensure!(binary.exists(), "no {}; run `cargo build --release`", binary.display());
                Ok(())
            }
        }
    }

    /// The command up to its arguments, including properties.
    fn command(self, jvm: Jvm, properties: &[(String, String)]) -> Command {
        let flags = properties.iter().map(|(name, value)| format!("-D{name}={value}"));
        let mut command = match self {
            Program::Herdsman => Command::new(paths::herdsman()),
            Program::Apache | Program::Apache38 => java_within(self, jvm),
        };
        match self {
            Program::Herdsman => command.arg("server").args(flags),
            Program::Apache | Program::Apache38 => {
                command.args(flags).arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            }
        };
        command
    }
}

/// How Java runs Apache's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jvm {
    /// Starts quickly and uses little memory, for tests.
    Quick,
    /// Java's own defaults and a heap of this size, as in Apache's start script.
    Usual {
        /// `-Xmx`, in MiB.
        heap_mib: u32,
    },
}

impl Jvm {
    fn flags(self) -> Vec<String> {
        match self {
            Jvm::Quick => {
                ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"].map(Into::into).to_vec()
            }
            Jvm::Usual { heap_mib } => vec![format!("-Xmx{heap_mib}m")],
        }
    }
}

/// The Java command line up to its main class, with Apache's jars of that release.
pub fn java(program: Program) -> Command {
    java_within(program, Jvm::Quick)
}

fn java_within(program: Program, jvm: Jvm) -> Command {
    let classpath = match program {
        Program::Apache38 => {
            DEBIAN_JARS.map(|name| format!("/usr/share/java/{name}.jar")).join(":")
        }
        _ => apache_classpath(),
    };
    let mut command = Command::new("java");
    command.args(jvm.flags());
    command.args(["-Dfile.encoding=UTF-8", "-cp", &classpath]);
    command
}

/// The classpath of Apache 3.9.5, with our logging settings first.
pub fn apache_classpath() -> String {
    let settings = paths::root().join("interop/zookeeper");
    format!("{}:{}/*", settings.display(), paths::peers("zookeeper").display())
}

const DEBIAN_JARS: [&str; 12] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "netty-common",
    "netty-buffer",
    "netty-transport",
    "netty-handler",
    "netty-codec",
    "netty-resolver",
];

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Which program.
    pub program: Program,
    /// The directory that contains (or will contain) `version-2`.
    pub data_dir: PathBuf,
    /// System properties, as `-Dname=value`.
    pub properties: Vec<(String, String)>,
    /// Further lines of its zoo.cfg.
    pub settings: Vec<String>,
    /// How Java runs it, if it is Apache's.
    pub jvm: Jvm,
    /// A command that execs the command given to it; or empty.
    pub within: Vec<String>,
}

impl Spec {
    /// A server with all operator interfaces enabled: super user, all four-letter words, TTL nodes, small
    /// log files.
    pub fn new(program: Program, data_dir: &Path) -> Spec {
        let properties = [
            SUPER_DIGEST,
            ("zookeeper.extendedTypesEnabled", "true"),
            ("zookeeper.preAllocSize", "64"),
        ];
        Spec {
            properties: properties.map(|(name, value)| (name.into(), value.into())).to_vec(),
            ..Spec::plain(program, data_dir)
        }
    }

    /// A server with default settings, except for a free port and four-letter words.
    pub fn plain(program: Program, data_dir: &Path) -> Spec {
        Spec {
            program,
            data_dir: data_dir.to_path_buf(),
            properties: Vec::new(),
            settings: Vec::new(),
            jvm: Jvm::Quick,
            within: Vec::new(),
        }
    }

    /// Sets a system property.
    pub fn property(mut self, name: &str, value: &str) -> Spec {
        self.properties.retain(|(own, _)| own != name);
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Starts the server and waits until it serves.
    pub fn start(&self) -> Result<Server> {
        let mut server = self.launch()?;
        server.await_serving()?;
        Ok(server)
    }

    /// Starts the process; the caller finds out whether it serves.
    pub fn launch(&self) -> Result<Server> {
        let port = ports::free_ports(1)?;
        fs::create_dir_all(&self.data_dir)?;
        let beside = |ending: &str| self.data_dir.with_extension(ending);
        let config = beside("cfg");
        fs::write(&config, self.config_text(port))?;
        let launch = Launch {
            program: self.program,
            properties: &self.properties,
            config: &config,
            log: &beside("log"),
            address: format!("127.0.0.1:{port}"),
            jvm: self.jvm,
            within: &self.within,
        };
        launch.start()
    }

    fn config_text(&self, port: u16) -> String {
        let mut lines = vec![
            format!("dataDir={}", self.data_dir.display()),
            format!("clientPort={port}"),
            "clientPortAddress=127.0.0.1".to_string(),
            "tickTime=2000".to_string(),
            "maxClientCnxns=0".to_string(),
            "admin.enableServer=false".to_string(),
            "4lw.commands.whitelist=*".to_string(),
        ];
        lines.extend(self.settings.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// The parameters of a server's process.
pub struct Launch<'a> {
    /// Which program.
    pub program: Program,
    /// System properties, as `-Dname=value`.
    pub properties: &'a [(String, String)],
    /// Its zoo.cfg.
    pub config: &'a Path,
    /// The file for its output, which is appended.
    pub log: &'a Path,
    /// `host:port` for clients, according to its zoo.cfg.
    pub address: String,
    /// How Java runs it, if it is Apache's.
    pub jvm: Jvm,
    /// A command that execs the command given to it, such as `nsenter`; or empty.
    pub within: &'a [String],
}

impl Launch<'_> {
    /// Starts the process; the caller finds out whether it serves.
    pub fn start(self) -> Result<Server> {
        let log = File::options().create(true).append(true).open(self.log)?;
        let own = self.program.command(self.jvm, self.properties);
        let mut command = match self.within {
            [] => own,
            [outer, arguments @ ..] => {
                let mut command = Command::new(outer);
                command.args(arguments).arg(own.get_program()).args(own.get_args());
                command
            }
        };
        command.arg(self.config).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {}", self.program.name()))?;
        Ok(Server { child, address: self.address, log_path: self.log.to_path_buf() })
    }
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// `host:port` of the client port.
    pub address: String,
    /// The file with everything that the program printed.
    pub log_path: PathBuf,
}

impl Server {
    fn await_serving(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        loop {
            if self.four_letters("srvr").is_ok_and(|text| text.contains("Mode: ")) {
                return Ok(());
            }
            self.ensure_alive()?;
            ensure!(Instant::now() < deadline, "the server does not serve:\n{}", self.log_tail());
            std::thread::sleep(POLL);
        }
    }

    /// Fails if the process has ended.
    pub fn ensure_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server ended unexpectedly ({status}); its log:\n{}", self.log_tail());
        }
        Ok(())
    }

    /// The exit status if the process has ended by itself; `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// The last lines that the program printed.
    pub fn log_tail(&self) -> String {
        crate::run::tail(&self.log_path, 30)
    }

    /// Everything that the program printed.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log_path)?).into_owned())
    }

    /// Sends a four-letter word.
    pub fn four_letters(&self, word: &str) -> Result<String> {
        four_letters(&self.address, word, WORD_TIMEOUT)
    }

    /// Its resident memory now, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Its peak resident memory, in bytes.
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next());
        let kib = kib.with_context(|| format!("no {name} line in {path}"))?;
        Ok(kib.parse::<u64>()? * 1024)
    }

    /// Its number of open file descriptors.
    pub fn descriptors(&self) -> Result<usize> {
        let path = format!("/proc/{}/fd", self.pid());
        Ok(fs::read_dir(&path).with_context(|| format!("reading {path}"))?.count())
    }

    /// Processor time of its threads so far, in seconds. Running threads count to the nanosecond; the
    /// kernel's number that includes ended threads counts hundredths of a second.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.pid());
        let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        // After the program's name, which may contain spaces, from the third field on; the 14th and 15th
        // count.
        let fields =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        let tasks = format!("/proc/{}/task", self.pid());
        let mut nanoseconds = 0;
        for task in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
            // A thread may end between the two reads.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let ran = text.split_whitespace().next().and_then(|ran| ran.parse::<u64>().ok());
            nanoseconds += ran.unwrap_or(0);
        }
        Ok((nanoseconds as f64 / 1e9).max(ticks as f64 / TICKS_PER_SECOND))
    }

    /// Pauses the process (SIGSTOP): its connections stay open and silent.
    pub fn pause(&self) -> Result<()> {
        Ok(kill_process(self.pid(), Signal::STOP)?)
    }

    /// Resumes a paused process (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        Ok(kill_process(self.pid(), Signal::CONT)?)
    }

    /// Stops the server with SIGTERM and waits for it.
    pub fn stop(mut self) -> Result<()> {
        kill_process(self.pid(), Signal::TERM)?;
        let status = self.await_exit()?;
        // Java reports a handled SIGTERM as 128 + 15.
        ensure!(
            status.success() || status.code() == Some(143),
            "the server ended with {status}:\n{}",
            self.log_tail()
        );
        Ok(())
    }

    /// Kills the server with SIGKILL, like a power failure.
    pub fn kill(mut self) -> Result<()> {
        self.send_kill()?;
        self.await_exit().map(drop)
    }

    /// Sends SIGKILL and does not wait for the end.
    pub fn send_kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn await_exit(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + STOP_MAX;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the server does not end:\n{}", self.log_tail());
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already after `stop` or `kill`; a failure here would only hide that of the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a four-letter word; fails if connecting or any part of the answer takes this long.
pub fn four_letters(address: &str, word: &str, patience: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address.parse()?, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
