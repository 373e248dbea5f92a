//! Three candidates, one leader. When it resigns or dies the next one leads, with a larger token; an observer reports
//! each change.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example leader_election -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::Election;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let mut leaders = Election::new(&zk, "/examples/leader", "observer")?.observe();
    let mut candidates = Vec::new();
    for id in ["ann", "bob", "cleo"] {
        let client = Client::connect(&servers).await?;
        let election = Election::new(&client, "/examples/leader", id)?;
        candidates.push(tokio::spawn(async move {
            let leadership = election.campaign().await?;
            // Writes through this client fail once another candidate leads.
            let _fenced = leadership.fenced();
            leadership.run(tokio::task::yield_now()).await?;
            let token = leadership.token();
            leadership.resign().await?;
            Ok::<_, herdsman_recipes::Error>((id, token))
        }));
    }
    let mut tokens = Vec::new();
    for candidate in candidates {
        let (id, token) = candidate.await??;
        println!("{id} has led");
        tokens.push(token);
    }
    tokens.sort_unstable();
    tokens.dedup();
    println!("{} different tokens", tokens.len());
    while let Some(leader) = leaders.next().await {
        if leader.is_none() {
            println!("there is no leader");
            break;
        }
    }
    Ok(())
}
