//! Two tasks take two locks in opposite order. The wait-for graph shows the cycle, one of them gives up, and the
//! other continues.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example deadlock -- 127.0.0.1:2181`

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::{HoldOptions, Lock, lock};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let (x, y) = ("/examples/deadlock/x", "/examples/deadlock/y");
    let ann = (
        Lock::new(&zk, x)?.options(&HoldOptions::new().owner("ann")),
        Lock::new(&zk, y)?.options(&HoldOptions::new().owner("ann")),
    );
    let bob = (
        Lock::new(&zk, y)?.options(&HoldOptions::new().owner("bob")),
        Lock::new(&zk, x)?.options(&HoldOptions::new().owner("bob")),
    );
    let (ann_holds, bob_holds) = (ann.0.acquire().await?, bob.0.acquire().await?);

    let ann_waits = tokio::spawn(async move { ann.1.acquire().await });
    let bob_waits = tokio::spawn(async move { bob.1.acquire().await });
    let locks = lock::find_locks(&zk, "/examples/deadlock").await?;
    let deadlock = loop {
        if let Some(deadlock) = lock::find_deadlocks(&zk, &locks).await?.pop() {
            break deadlock;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    println!("deadlock: {deadlock}");

    // Bob gives up: his wait, and the lock that he holds.
    bob_waits.abort();
    bob_holds.release().await?;
    ann_waits.await??.release().await?;
    ann_holds.release().await?;
    println!("ann held both");
    Ok(())
}
