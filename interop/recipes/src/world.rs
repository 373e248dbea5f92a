//! The parties of every check: a client of ours, a Java and a Python contender, and the path of the check.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};
use herdsman_client::Client;

use crate::contender::Contender;

/// Longer than any check, so that one that hangs fails.
const CHECK_MAX: Duration = Duration::from_secs(60);
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// A check: its name, and a function that runs it in its own directory.
pub struct Check {
    pub name: &'static str,
    pub run: for<'a> fn(&'a World, String) -> Running<'a>,
}

/// A running check.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// All parties.
pub struct World {
    pub servers: String,
    pub zk: Client,
    pub java: Contender,
    pub python: Contender,
}

impl World {
    pub async fn start(server: &str, java: &str, python: &str) -> Result<World> {
        let command = |words: &str| {
            words.split(' ').map(String::from).chain([server.to_owned()]).collect::<Vec<_>>()
        };
        let (java, python) = (command(java), command(python));
        let (java, python, zk) = tokio::try_join!(
            Contender::start("java", &java),
            Contender::start("python", &python),
            connect(server),
        )?;
        Ok(World { servers: server.to_owned(), zk, java, python })
    }

    /// Another session of ours.
    pub async fn another(&self) -> Result<Client> {
        connect(&self.servers).await
    }

    pub async fn run(&self, check: &Check) -> Result<()> {
        let path = format!("/contention/{}", check.name);
        tokio::time::timeout(CHECK_MAX, (check.run)(self, path)).await.context("took too long")?
    }

    pub async fn end(self) -> Result<()> {
        self.zk.close().await?;
        self.java.end().await?;
        self.python.end().await
    }
}

async fn connect(server: &str) -> Result<Client> {
    Ok(Client::options().session_timeout(SESSION_TIMEOUT).connect(server).await?)
}
