//! Commands for whole subtrees, and the library below them.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod broken_connections;
mod copying;
mod deleting;
mod differing;
mod editing;
mod exporting;
mod importing;
mod looking;
mod walking;
mod watching;

use std::path::PathBuf;

use herdsman_client::Client;
use herdsman_testing::TestServer;
use tempfile::TempDir;

use crate::world::{Ran, World, shell};

/// A directory for files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Files(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path as a word of a command line.
    fn word(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.word(name)
    }
}

async fn client(server: &TestServer) -> Client {
    Client::connect(&server.connect_string()).await.unwrap()
}

/// A server that supports times to live, and checks for empty containers all the time.
fn world_of_all_types() -> World {
    let server = TestServer::start_with(|config| {
        config.znodes.ttl = true;
        config.znodes.sweep_interval_ms = 5;
    });
    World { server }
}

/// Runs a shell that is logged in as `ann`.
fn run_as_ann(world: &World, words: &[&str]) -> Ran {
    let servers = world.server.connect_string();
    let before = ["--server", servers.as_str(), "--auth", "digest:ann:secret"];
    shell(&[&before, words].concat(), "")
}

/// Runs a shell while the test's own runtime is active.
fn run_aside(world: &World, words: &[&str]) -> Ran {
    std::thread::scope(|scope| scope.spawn(|| world.run(words)).join().unwrap())
}
