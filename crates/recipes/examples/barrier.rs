//! Three workers begin together and end together, behind a gate that another program opens.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example barrier -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::{Barrier, DoubleBarrier};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let gate = Barrier::new(&zk, "/examples/gate");
    gate.close().await?;
    let workers: Vec<_> = (1..=3).map(|id| tokio::spawn(work(servers.clone(), id))).collect();
    gate.open().await?;
    for worker in workers {
        println!("worker {} is done", worker.await??);
    }
    Ok(())
}

async fn work(servers: String, id: u32) -> Result<u32, Failure> {
    let zk = Client::connect(&servers).await?;
    Barrier::new(&zk, "/examples/gate").wait().await?;
    let barrier = DoubleBarrier::new(&zk, "/examples/together", 3)?;
    let inside = barrier.enter().await?; // until all three are here
    inside.leave().await?; // until all three are done
    Ok(id)
}
