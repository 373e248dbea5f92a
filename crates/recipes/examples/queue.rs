//! Orders are delivered through a queue at least once: a worker that gives up hands its order back, and another one
//! takes it.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example queue -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::queue::{PriorityQueue, WorkQueue};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let orders = WorkQueue::new(&zk, "/examples/orders")?;
    for order in ["tea", "coffee", "milk"] {
        orders.offer(order).await?;
    }
    drop(orders.take().await?); // began with tea, and gave up: it goes back

    let mut done = Vec::new();
    for _ in 0..3 {
        let order = orders.take().await?;
        done.push(String::from_utf8_lossy(order.payload()).into_owned());
        order.done().await?;
    }
    done.sort();
    println!("done: {}", done.join(", "));

    let urgent = PriorityQueue::new(&zk, "/examples/urgent")?;
    urgent.offer(5, "can wait").await?;
    urgent.offer(-5, "at once").await?;
    let first = urgent.take().await?;
    println!("first: {}", String::from_utf8_lossy(first.payload()));
    first.done().await?;
    urgent.take().await?.done().await?;
    Ok(())
}
