//! A local copy of a tree that follows the service: reads need no request, changes arrive as a stream.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example cache -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::cache::{CacheEvent, TreeCache};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    zk.create("/examples/tree/a/b", "one").parents().await?;
    let cache = TreeCache::start(&zk, "/examples/tree").await?;
    let snapshot = cache.synced().await?;
    println!(
        "{} nodes; b is {:?}",
        snapshot.len(),
        snapshot.get("/examples/tree/a/b").map(|b| b.data.clone())
    );

    let (_, mut events) = cache.subscribe();
    zk.set("/examples/tree/a/b", "two").await?;
    while let Some(event) = events.next().await {
        if let CacheEvent::Changed { before, now } = event {
            println!("{} changed from {:?} to {:?}", now.path, before.data, now.data);
            break;
        }
    }
    zk.delete("/examples/tree").recursive().await?;
    cache.wait_until(|tree| tree.is_empty()).await?;
    println!("all deleted");
    Ok(())
}
