//! Logging to standard error, as text or JSON, with a level that can be changed while the server runs.
//!
//! In: the format, and `HERDSMAN_LOG`. Out: a subscriber for the whole process, a [`LogLevel`] through which the
//! level is changed, and the [`LogQueue`] that must be flushed before the process ends. Audit lines are always
//! written, whatever the level is, unless it names the target `audit` itself. Deliberately not here: log files
//! and their rotation, which the service manager does better.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use herdsman_server::operators::audit;
use herdsman_server::operators::log_level::{BadLogLevel, LogLevel};
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::log_queue::LogQueue;

/// The environment variable with the level.
const VARIABLE: &str = "HERDSMAN_LOG";
const DEFAULT: &str = "info";
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain text
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// A log that goes to standard error. Dropping it flushes its queue.
pub struct Log {
    /// The level, which can be changed.
    pub level: LogLevel,
    /// The lines that are not written yet.
    pub queue: Arc<LogQueue>,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.flush();
    }
}

/// Sends the process's log to standard error.
///
/// # Errors
/// The thread that writes the log cannot be started.
pub fn to_stderr(format: LogFormat) -> io::Result<Log> {
    let queue = LogQueue::start(io::stderr())?;
    let wanted = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let (level, filter, bad) = match wanted.as_deref().map(|text| (text, parse(text))) {
        Some((text, Ok(filter))) => (text, filter, None),
        Some((_, Err(bad))) => (DEFAULT, default_filter(), Some(bad)),
        None => (DEFAULT, default_filter(), None),
    };
    let (filter, handle) = reload::Layer::new(filter);
    tracing_subscriber::registry().with(filter).with(lines(format, Arc::clone(&queue))).init();
    if let Some(bad) = bad {
        warn!("{VARIABLE}: {bad}; using {DEFAULT}");
    }
    Ok(Log { level: changeable(level, handle), queue })
}

type Lines<S> = Box<dyn Layer<S> + Send + Sync>;

fn lines<S>(format: LogFormat, queue: Arc<LogQueue>) -> Lines<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(queue);
    match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Text => {
            let ansi = io::stderr().is_terminal();
            layer.with_ansi(ansi).event_format(TextFormat::default()).boxed()
        }
    }
}

fn changeable(level: &str, handle: reload::Handle<EnvFilter, Registry>) -> LogLevel {
    let current = Arc::new(Mutex::new(level.to_owned()));
    let shown = Arc::clone(&current);
    let get = move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    LogLevel::new(get, move |wanted| {
        let filter = parse(wanted)?;
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        handle.reload(filter).map_err(|error| BadLogLevel(error.to_string()))?;
        let before = std::mem::replace(&mut *current, wanted.to_owned());
        drop(current);
        warn!("log level changed from {before} to {wanted}");
        Ok(())
    })
}

fn default_filter() -> EnvFilter {
    parse(DEFAULT).unwrap_or_else(|_| EnvFilter::new(DEFAULT))
}

/// Parses a level, or several levels with targets. `EnvFilter` alone would take any other word for the name of a
/// module, log everything from that module, and nothing from all others.
fn parse(text: &str) -> Result<EnvFilter, BadLogLevel> {
    let wrong = |what: &str| {
        BadLogLevel(format!(
            "{what:?} is not a log level: write error, warn, info, debug, trace or off, or \
             TARGET=LEVEL as in info,herdsman_server::clients::connection=debug"
        ))
    };
    let directives = || text.split(',').map(str::trim);
    for directive in directives() {
        let level = directive.rsplit('=').next().unwrap_or_default().to_ascii_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            return Err(wrong(directive));
        }
    }
    let filter = EnvFilter::try_new(text).map_err(|_| wrong(text))?;
    if directives().any(|directive| directive.starts_with(audit::TARGET)) {
        return Ok(filter);
    }
    let always = format!("{}=info", audit::TARGET).parse().map_err(|_| wrong(text))?;
    Ok(filter.add_directive(always))
}

/// Text lines without the target, which means little to readers, except for audit lines, which must be recognizable.
#[derive(Default)]
struct TextFormat {
    plain: Format,
}

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let is_audit = event.metadata().target() == audit::TARGET;
        self.plain.clone().with_target(is_audit).format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        // The order in which `EnvFilter` shows directives is not defined.
        let shown = |filter: EnvFilter| {
            let filter = filter.to_string();
            let mut directives: Vec<_> = filter.split(',').collect();
            directives.sort_unstable();
            directives.join(",")
        };
        let parsed = parse(text).map(shown).map_err(|bad| bad.to_string());
        match (parsed, expected) {
            (Ok(filter), Ok(expected)) => assert_eq!(filter, expected, "{text}"),
            (Err(bad), Err(expected)) => assert!(bad.starts_with(expected), "{text}: {bad}"),
            (parsed, _) => panic!("{text}: {parsed:?}"),
        }
    }

    #[test]
    fn levels_are_read_and_mistakes_are_named() {
        check("info", Ok("audit=info,info"));
        check("WARN", Ok("audit=info,warn"));
        check(
            "warn,herdsman_server::clients::connection=debug",
            Ok("audit=info,herdsman_server::clients::connection=debug,warn"),
        );
        check("warn,audit=off", Ok("audit=off,warn"));
        check("inof", Err("\"inof\" is not a log level"));
        check("info,herdsman_server=loud", Err("\"herdsman_server=loud\" is not a log level"));
        check("", Err("\"\" is not a log level"));
    }

    #[test]
    fn a_valid_level_is_set_and_an_invalid_one_changes_nothing() {
        let (layer, handle) = reload::Layer::new(default_filter());
        let _subscriber = tracing_subscriber::registry().with(layer);
        let level = changeable("info", handle);
        assert_eq!(level.get(), "info");
        assert!(level.set("nonsense").is_err());
        assert_eq!(level.get(), "info");
        level.set("debug").expect("a level");
        assert_eq!(level.get(), "debug");
    }
}
