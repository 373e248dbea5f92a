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
use herdsman_server::operators::log_level::LogLevel;
use herdsman_server::{Server, ServerFailure, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::admin;
use crate::ensemble;
use crate::log_queue::LogQueue;
use crate::logging::{self, LogFormat};

/// Run a server in the foreground; logs go to standard error.
///
/// Without arguments the server listens on 127.0.0.1:2181, stores its data in ./herdsman-data, and serves the
/// console on http://127.0.0.1:8080. A zoo.cfg written for Apache ZooKeeper works as it is, for a standalone server
/// or a member of an ensemble. With --ensemble a whole ensemble runs on this machine, to try things out. SIGTERM or
/// Ctrl-C stops the server.
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
-Dname=value is also read from the environment variables SERVER_JVMFLAGS and JVMFLAGS.
HERDSMAN_LOG sets the log level (error, warn, info, debug, or per module); the default is info.
HERDSMAN_LOG_FORMAT=json is the same as --log-format json.")]
pub struct Arguments {
    /// Set a Java system property of Apache ZooKeeper, for example -Dzookeeper.snapCount=10000
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// Run N servers (1 to 9, preferably an odd number) in this process
    #[arg(long, value_name = "N", conflicts_with = "config")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=9))]
    ensemble: Option<u8>,
    /// Data directory of the ensemble; by default a temporary directory that is removed at exit
    #[arg(long, value_name = "PATH", requires = "ensemble")]
    dir: Option<PathBuf>,
    /// Check the configuration and the key and login files it names, report errors and settings without effect,
    /// and exit
    #[arg(long, conflicts_with = "ensemble")]
    check: bool,
    /// Format of log lines
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
    info!("the configuration is valid; {warnings} warnings");
    Ok(())
}

/// Aborts the process on a panic: after a broken invariant the server must not continue. Everything acknowledged is in
/// the log, and a restart finds it there. The message goes through the queue because writing to standard error may
/// block.
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
    // An interrupted start may still be reading files; nothing needs to wait for it.
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
            _ = terminate.recv() => info!("received SIGTERM, stopping"),
            _ = interrupt.recv() => info!("received SIGINT, stopping"),
            () = terminal_closed(hangup) => {}
        }
    });
    loop {
        let starting = config.clone();
        let starting = tokio::task::spawn_blocking(move || Server::start(starting));
        let server = tokio::select! {
            started = starting => started.map_err(std::io::Error::other)??,
            // Also while it waits for other members, to repair its files.
            () = &mut stop => return Ok(()),
        };
        server.use_log_level(log_level.clone());
        let http = admin::open(&server, &config);
        report(&server, config.mode, start);
        let failure = tokio::select! {
            () = &mut stop => None,
            failure = server.failure() => Some(failure),
        };
        drop(http);
        server.stop();
        match failure {
            None => return Ok(()),
            Some(ServerFailure::Port(why)) => return Err(StartError::PeerPort(why)),
            Some(gone @ ServerFailure::LeaderGone { .. }) => warn!("{gone}"),
        }
    }
}

/// Resolves when SIGHUP says that the terminal is closed. A server without a terminal gets SIGHUP from log rotation and
/// continues: it creates moved log files again by itself.
async fn terminal_closed(mut hangup: Signal) {
    let has_terminal = std::io::stderr().is_terminal();
    while hangup.recv().await.is_some() {
        if has_terminal {
            return info!("received SIGHUP: the terminal was closed, stopping");
        }
        info!("received SIGHUP: ignored; a moved audit log is created again with its next line");
    }
    std::future::pending::<()>().await;
}

fn report(server: &Server, mode: Mode, start: Instant) {
    if let Some(address) = server.secure_address() {
        info!("listening for TLS clients on {address}");
    }
    let Some(address) = server.address() else {
        if server.secure_address().is_none() {
            warn!(
                "no client port is configured (clientPort, secureClientPort): clients cannot connect"
            );
        }
        return;
    };
    let took_ms = start.elapsed().as_millis();
    match mode {
        Mode::Standalone => info!("serving clients on {address}, started in {took_ms} ms"),
        Mode::Ensemble { .. } => {
            info!("listening for clients on {address}; waiting for a leader");
        }
    }
}
