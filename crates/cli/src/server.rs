//! `herdsman server`: runs a server in the foreground.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use herdsman_config::Config;
use herdsman_config::{ConfigError, Loaded, Mode, SystemProperties};
use herdsman_server::log_level::LogLevel;
use herdsman_server::{Server, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::admin;
use crate::ensemble;
use crate::log_queue::LogQueue;
use crate::logging::{self, LogFormat};

/// Run a server in the foreground; logs go to standard error.
///
/// Without arguments it listens on 127.0.0.1:2181, keeps its data in ./herdsman-data, and has its
/// console on http://127.0.0.1:8080. With a
/// zoo.cfg written for Apache ZooKeeper it does what that says, alone or as a member of an ensemble.
/// With --ensemble it runs a whole ensemble on this machine, to try things out. SIGTERM or Ctrl-C
/// stops it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  herdsman server
  herdsman server conf/zoo.cfg
  herdsman server --check conf/zoo.cfg
  herdsman server -Dzookeeper.extendedTypesEnabled=true -Djute.maxbuffer=4194304 zoo.cfg
  herdsman server 2181 /var/lib/zookeeper
  herdsman server --ensemble 3
  herdsman server --ensemble 3 --dir ./playground

An ensemble takes commands on standard input: status, stop N, kill N, start N, quit.
The environment variables SERVER_JVMFLAGS and JVMFLAGS are searched for -Dname=value as well.
HERDSMAN_LOG sets the log level (error, warn, info, debug, or per module); info by default.
HERDSMAN_LOG_FORMAT=json has the effect of --log-format json.")]
pub struct Arguments {
    /// A system property as Apache takes it, for example -Dzookeeper.snapCount=10000
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// Run N servers, 1 to 9, in this one process; an odd number is best
    #[arg(long, value_name = "N", conflicts_with = "config")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=9))]
    ensemble: Option<u8>,
    /// Where they keep their data; a temporary directory, removed at the end, if not given
    #[arg(long, value_name = "PATH", requires = "ensemble")]
    dir: Option<PathBuf>,
    /// Only read the configuration and the keys and logins that it names, say what is wrong with them or
    /// has no effect, and end
    #[arg(long, conflicts_with = "ensemble")]
    check: bool,
    /// How log lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    #[arg(env = "HERDSMAN_LOG_FORMAT", hide_env = true)]
    log_format: LogFormat,
    /// A zoo.cfg; or PORT DATADIR [TICKTIME [MAXCLIENTCNXNS]]
    #[arg(value_name = "ZOO_CFG", num_args = 0..=4)]
    config: Vec<String>,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let start = Instant::now();
    let log = match logging::to_stderr(arguments.log_format) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("herdsman: cannot start the thread that writes the log: {error}");
            return ExitCode::FAILURE;
        }
    };
    stop_on_panic(Arc::clone(&log.queue));
    herdsman_server::raise_descriptor_limit();
    let properties = properties(arguments);
    if let Some(count) = arguments.ensemble {
        return ensemble::run(count, arguments.dir.as_deref(), &properties, &log.level);
    }
    let loaded = match load(arguments, &properties) {
        Ok(loaded) => loaded,
        Err(failure) => {
            error!("{failure}");
            return ExitCode::from(failure.exit_code());
        }
    };
    for warning in &loaded.warnings {
        warn!("{warning}");
    }
    let done = match arguments.check {
        true => check(&loaded),
        false => serve(loaded.config, log.level.clone(), start),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn check(loaded: &Loaded) -> Result<(), StartError> {
    Server::check(&loaded.config)?;
    let mut warnings = loaded.warnings.len() + admin::check(&loaded.config);
    match Server::purge_forecast(&loaded.config)? {
        Some(forecast) if forecast.is_surprising() => {
            warnings += 1;
            warn!("{forecast}");
        }
        Some(forecast) => info!("{forecast}"),
        None => {}
    }
    info!("the configuration can be used; {warnings} warnings");
    Ok(())
}

/// A broken invariant must not go on serving: what is acknowledged is in the log, and a restart
/// finds it there. What is said about it goes through the queue: standard error may take nothing.
fn stop_on_panic(queue: Arc<LogQueue>) {
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("<unnamed>");
        let backtrace = Backtrace::capture();
        let trace = match backtrace.status() {
            BacktraceStatus::Captured => format!("{backtrace}\n"),
            _ => String::new(),
        };
        queue.push(format!("thread '{name}' {info}\n{trace}").as_bytes());
        queue.flush();
        std::process::abort();
    }));
}

fn properties(arguments: &Arguments) -> SystemProperties {
    let mut properties = SystemProperties::new();
    for variable in ["SERVER_JVMFLAGS", "JVMFLAGS"] {
        if let Ok(flags) = std::env::var(variable) {
            properties.add_flags(&flags);
        }
    }
    for property in &arguments.properties {
        properties.add_flag(&format!("-D{property}"));
    }
    properties
}

fn load(arguments: &Arguments, properties: &SystemProperties) -> Result<Loaded, ConfigError> {
    match arguments.config.as_slice() {
        [] => Config::standalone_default(properties),
        [file] => Config::load(Path::new(file), properties),
        several => {
            let several: Vec<_> = several.iter().map(String::as_str).collect();
            Config::from_args(&several, properties)
        }
    }
}

fn serve(config: Config, log_level: LogLevel, start: Instant) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut served = Ok(());
    runtime.block_on(async {
        served = serve_until_signalled(config, log_level, start).await;
    });
    // A start that was interrupted may still be reading; it has nothing to finish.
    runtime.shutdown_background();
    served
}

async fn serve_until_signalled(
    config: Config,
    log_level: LogLevel,
    start: Instant,
) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?;
    let mut stop = std::pin::pin!(async {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM"),
            _ = interrupt.recv() => info!("interrupted"),
            () = terminal_gone(hangup) => {}
        }
    });
    let told = config.clone();
    let starting = tokio::task::spawn_blocking(move || Server::start(config));
    let server = tokio::select! {
        started = starting => started.map_err(std::io::Error::other)??,
        () = &mut stop => return Ok(()),
    };
    server.use_log_level(log_level);
    let http = admin::open(&server, &told);
    report(&server, told.mode, start);
    let failed = tokio::select! {
        () = stop => Ok(()),
        what = server.failure() => Err(StartError::PeerPort(what)),
    };
    drop(http);
    server.stop();
    failed
}

/// SIGHUP means that the terminal is gone, or to a server without one that log files were moved; they
/// are found again by themselves.
async fn terminal_gone(mut hangup: Signal) {
    let has_terminal = std::io::stderr().is_terminal();
    while hangup.recv().await.is_some() {
        if has_terminal {
            return info!("SIGHUP: the terminal is gone");
        }
        info!("SIGHUP: log files that were moved are made anew with their next line");
    }
    std::future::pending::<()>().await;
}

fn report(server: &Server, mode: Mode, start: Instant) {
    if let Some(address) = server.secure_address() {
        info!("the client port with TLS is {address}");
    }
    let Some(address) = server.address() else {
        if server.secure_address().is_none() {
            warn!("no client port is configured: nobody can connect");
        }
        return;
    };
    let took_ms = start.elapsed().as_millis();
    match mode {
        Mode::Standalone => info!("serving clients on {address}, {took_ms} ms after the start"),
        Mode::Ensemble { .. } => {
            info!("the client port is {address}; clients are served as soon as there is a leader");
        }
    }
}
