//! The contenders, each behind its own proxies, one for each server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use herdsman_client::Client;
use herdsman_testing::TestProxy;

use crate::contender::Contender;

pub const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// Longer than any command of another program.
const LIMIT_MS: u64 = 15_000;
/// Clients of ours.
const OURS: usize = 3;

/// The proxies of one party.
pub type Proxies = Arc<Vec<TestProxy>>;

/// All parties.
pub struct Parties {
    pub ours: Vec<Client>,
    pub java: Contender,
    pub python: Contender,
    proxies: Vec<Proxies>,
}

impl Parties {
    pub async fn start(servers: &[SocketAddr], java: &str, python: &str) -> Result<Self> {
        let mut proxies = Vec::new();
        let mut behind_proxies = || {
            let own: Vec<_> = servers.iter().map(|server| TestProxy::start(*server)).collect();
            let addresses: Vec<_> = own.iter().map(TestProxy::connect_string).collect();
            proxies.push(Arc::new(own));
            addresses.join(",")
        };
        let command = |words: &str, servers: String| {
            let words = words.split(' ').map(String::from);
            words.chain([servers, LIMIT_MS.to_string()]).collect::<Vec<_>>()
        };
        let (java, python) = (command(java, behind_proxies()), command(python, behind_proxies()));
        let (java, python) =
            tokio::try_join!(Contender::start("java", &java), Contender::start("python", &python))?;
        let mut ours = Vec::new();
        for _ in 0..OURS {
            let options = Client::options().session_timeout(SESSION_TIMEOUT);
            ours.push(options.connect(&behind_proxies()).await?);
        }
        Ok(Parties { ours, java, python, proxies })
    }

    pub fn proxies(&self) -> Vec<Proxies> {
        self.proxies.clone()
    }

    /// Programs that cannot exit cleanly are killed: their sessions may just have been cut.
    pub async fn end(self) {
        for client in self.ours {
            let _ = client.close().await;
        }
        let (java, python) = tokio::join!(self.java.end(), self.python.end());
        for ended in [java, python] {
            if let Err(error) = ended {
                println!("note: {error:#}");
            }
        }
    }
}
