//! A service registers, another program finds it, and notices when it leaves.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example discovery -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::discovery::{Registry, ServiceEvent, ServiceInstance};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let registry: Registry<String> = Registry::new(&zk, "/examples/services")?;
    let cache = registry.cache("web").open().await?;
    let mut events = cache.events();

    let instance = ServiceInstance::new("web")
        .with_id("web-1")
        .with_address("10.0.0.1")
        .with_port(8080)
        .with_payload("zone a".to_owned());
    // Put back after the end of a session, and after it was deleted.
    let registration = registry.register(instance).await?;
    if let Some(ServiceEvent::Added(found)) = events.next().await {
        println!("found {} at {:?}:{:?}", found.id, found.address, found.port);
    }
    println!("services: {:?}", registry.names().await?);
    registration.unregister().await?;
    if let Some(ServiceEvent::Removed(removed)) = events.next().await {
        println!("{} was removed", removed.id);
    }
    Ok(())
}
