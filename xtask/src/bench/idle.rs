//! The memory of an idle session.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::lab::{Lab, PROGRAMS, spec, target_name};
use super::raw::Measured;
use crate::server::Server;
use crate::wire::Session;

/// Longer than it takes to open all sessions, which send no pings.
const SESSION_TIMEOUT_MS: i32 = 600_000;
const OPENERS: usize = 4;
/// Descriptors that a process needs besides its sessions.
const OTHER_FILES: u64 = 200;
const SETTLE: Duration = Duration::from_secs(2);

/// The memory of a process before and after clients connected to it.
pub fn measure(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    let count = lab.scale.idle_sessions;
    // Servers inherit the limit.
    allow_files(count as u64 + OTHER_FILES)?;
    for program in PROGRAMS {
        let dir = lab.fresh("idle")?.join("data");
        let mut spec = spec(program, &dir);
        spec.settings.push(format!("maxSessionTimeout={SESSION_TIMEOUT_MS}"));
        let server = spec.start()?;
        let before = server.resident_bytes()?;
        let sessions = open(&server.address, count)?;
        std::thread::sleep(SETTLE);
        let after = server.resident_bytes()?;
        let connected = connections(&server)?;
        ensure!(connected >= count, "only {connected} of {count} sessions are connected");
        println!("{}: {before} bytes before, {after} after {count} sessions", program.name());
        let each = after.saturating_sub(before) as f64 / count as f64;
        measured.note("bytes_per_session", target_name(program), each);
        drop(sessions);
        server.kill()?;
    }
    Ok(measured)
}

fn open(address: &str, count: usize) -> Result<Vec<Session>> {
    let some = |opener: usize| -> Result<Vec<Session>> {
        let share = count * opener / OPENERS..count * (opener + 1) / OPENERS;
        share.map(|_| Session::connect(address, SESSION_TIMEOUT_MS)).collect()
    };
    std::thread::scope(|scope| -> Result<Vec<Session>> {
        let openers: Vec<_> =
            (0..OPENERS).map(|opener| scope.spawn(move || some(opener))).collect();
        let mut sessions = Vec::new();
        for opener in openers {
            sessions.extend(opener.join().map_err(|_| anyhow::anyhow!("an opener panicked"))??);
        }
        Ok(sessions)
    })
    .with_context(|| format!("opening {count} sessions"))
}

fn connections(server: &Server) -> Result<usize> {
    let text = server.four_letters("mntr")?;
    let mut pairs = text.lines().filter_map(|line| line.split_once('\t'));
    let found = pairs.find(|(name, _)| *name == "zk_num_alive_connections");
    let (_, value) = found.context("mntr does not print zk_num_alive_connections")?;
    Ok(value.trim().parse()?)
}

fn allow_files(wanted: u64) -> Result<()> {
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limits.maximum;
    ensure!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "{wanted} open files are needed, {maximum:?} allowed; raise the limit (ulimit -Hn)"
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    Ok(())
}
