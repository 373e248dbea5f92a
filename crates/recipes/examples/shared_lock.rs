//! Readers share a lock, a writer holds it exclusively, and changes to reading without letting another writer in.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example shared_lock -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::RwLock;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let lock = RwLock::new(&zk, "/examples/shared-lock")?;

    let (one, two) = (lock.read().await?, lock.read().await?);
    println!("two readers; a writer: {}", lock.try_write().await?.is_some());
    one.release().await?;
    two.release().await?;

    let writer = lock.write().await?;
    println!("a writer; a reader: {}", lock.try_read().await?.is_some());
    let reader = writer.downgrade().await?;
    println!("downgraded; a reader: {}", lock.try_read().await?.is_some());
    reader.release().await?;
    Ok(())
}
