//! A service follows its configuration as typed values. Invalid data is reported and changes nothing.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example configuration -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::config::{Config, ConfigUpdate, Publisher};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Limits {
    connections: u32,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let path = "/examples/config/limits";
    let publisher = Publisher::new(&zk, path)?;
    publisher.publish(&Limits { connections: 100 }).await?;

    let config = Config::<Limits>::start(&zk, path).await?;
    let mut changes = config.changes();
    println!("at first: {:?}", config.value().await?.value);

    zk.set(path, "one hundred, or so").await?;
    while let Some(update) = changes.next().await {
        if let ConfigUpdate::Invalid { .. } = update {
            let kept = config.current().map(|kept| kept.value.connections);
            println!("invalid data was published; still in force: {kept:?}");
            break;
        }
    }
    publisher.publish(&Limits { connections: 50 }).await?;
    let is_new = |limits: &Limits| limits.connections == 50;
    let limits = config.wait_for(|now| now.is_some_and(|now| is_new(&now.value))).await?;
    println!("now: {:?}", limits.map(|limits| limits.value.connections));
    zk.delete(path).await?;
    Ok(())
}
