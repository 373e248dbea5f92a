//! `kill -9` under load: acknowledged writes must be there after a restart.
//!
//! Several clients create znodes as fast as they get replies and record each acknowledgement. The process
//! is killed, restarted with the same directory, and queried for every znode that was ever acknowledged.
//! Snapshots are taken all the time, so that some kills interrupt one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::paths;
use crate::server::{Program, Server, Spec};
use crate::wire::{Op, Session};

const ROUNDS: usize = 8;
const WRITERS: usize = 4;
/// Acknowledgements before the kill in the first round, and how many more in each further round, so that
/// kills happen at different moments.
const ACKNOWLEDGED_MIN: usize = 300;
const ACKNOWLEDGED_STEP: usize = 171;
const TIMEOUT_MS: i32 = 20_000;

type Acknowledged = Mutex<BTreeSet<String>>;

/// Kills and restarts the server repeatedly.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("crash-{}", program.name()))?;
    let acknowledged = Acknowledged::default();
    let mut server = spec(program, &work.join("data")).start()?;
    for round in 0..ROUNDS {
        write_and_kill(server, round, &acknowledged)?;
        server = spec(program, &work.join("data")).start()?;
        check(&server, round, &acknowledged)?;
    }
    server.stop()
}

fn spec(program: Program, data_dir: &Path) -> Spec {
    Spec::new(program, data_dir).property("zookeeper.snapCount", "200")
}

fn write_and_kill(server: Server, round: usize, acknowledged: &Acknowledged) -> Result<()> {
    let address = server.address.clone();
    let before = count(acknowledged);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let address = &address;
            scope.spawn(move || write_until_cut_off(address, round, writer, acknowledged));
        }
        let wanted = before + ACKNOWLEDGED_MIN + round * ACKNOWLEDGED_STEP;
        while count(acknowledged) < wanted {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.kill()
    })
}

/// Ends with the first request without a reply: the server was killed.
fn write_until_cut_off(address: &str, round: usize, writer: usize, acknowledged: &Acknowledged) {
    let Ok(mut session) = Session::connect(address, TIMEOUT_MS) else { return };
    for i in 0.. {
        let name = format!("r{round}-w{writer}-{i:06}");
        let create = Op::create(&format!("/{name}"), Some(name.as_bytes()), 0);
        match session.call(&create) {
            Ok(reply) if reply.err == 0 => lock(acknowledged).insert(name),
            _ => return,
        };
    }
}

fn check(server: &Server, round: usize, acknowledged: &Acknowledged) -> Result<()> {
    let mut session = Session::connect(&server.address, TIMEOUT_MS)?;
    let there: BTreeSet<String> = session.children("/")?.into_iter().collect();
    let acknowledged = lock(acknowledged);
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    ensure!(lost.is_empty(), "round {round} lost {} acknowledged writes: {lost:?}", lost.len());
    println!("ok      round {round}: {} acknowledged writes, none lost", acknowledged.len());
    session.close()
}

fn count(acknowledged: &Acknowledged) -> usize {
    lock(acknowledged).len()
}

fn lock(acknowledged: &Acknowledged) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
    acknowledged.lock().expect("no writer panics while it notes a name")
}
