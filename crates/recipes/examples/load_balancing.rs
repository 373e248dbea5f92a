//! Requests are spread over the instances of a service by weight; an instance with errors is not used for a while.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example load_balancing -- 127.0.0.1:2181`

use std::collections::BTreeMap;

use herdsman_client::Client;
use herdsman_recipes::balance::Algorithm;
use herdsman_recipes::discovery::{Registry, ServiceInstance};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let registry: Registry<u32> = Registry::new(&zk, "/examples/balanced")?;
    let mut registrations = Vec::new();
    for (id, weight) in [("small", 1), ("large", 3)] {
        let instance = ServiceInstance::new("api").with_id(id).with_payload(weight);
        registrations.push(registry.register(instance).await?);
    }
    let provider = registry
        .provider("api")
        .algorithm(Algorithm::WeightedRoundRobin)
        .weight(|instance| instance.payload.unwrap_or(1))
        .open()
        .await?;
    let mut picks = BTreeMap::new();
    for _ in 0..40 {
        let picked = provider.pick("10.0.0.7").ok_or("no instance")?;
        *picks.entry(picked.instance().id.clone()).or_insert(0) += 1;
        picked.succeeded();
    }
    println!("picked: {picks:?}");

    let mut failures = 0;
    while failures < 2 {
        let picked = provider.pick("10.0.0.7").ok_or("no instance")?;
        if picked.instance().id == "large" {
            failures += 1;
            picked.failed();
        }
    }
    let next: Vec<_> = (0..3).filter_map(|_| provider.pick("10.0.0.7")).collect();
    let all_small = next.iter().all(|picked| picked.instance().id == "small");
    println!("after two errors of large, only small: {all_small}");
    for registration in registrations {
        registration.unregister().await?;
    }
    Ok(())
}
