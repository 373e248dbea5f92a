//! Machines join a group and report their status; a monitor sees which ones join, change and leave.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example membership -- 127.0.0.1:2181`

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::Group;
use herdsman_recipes::monitor::{Monitor, MonitorEvent, Reporter};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let group = Group::new(&zk, "/examples/group")?;
    let ann = group.join("ann", "10.0.0.1").await?;
    let bob = group.join("bob", "10.0.0.2").await?;
    let members = group.observe().await?;
    println!("members: {:?}", members.snapshot().keys().collect::<Vec<_>>());
    ann.leave().await?;
    bob.leave().await?;

    let mut monitor: Monitor<String> =
        Monitor::open(&zk, "/examples/machines", Duration::from_secs(30)).await?;
    let machine = Client::connect(&servers).await?;
    let reporter =
        Reporter::start(&machine, "/examples/machines", "m1", &"starting".to_owned()).await?;
    if let Some(MonitorEvent::Joined(joined)) = monitor.next().await {
        println!("{} has joined", joined.id);
    }
    reporter.publish(&"ready".to_owned()).await?;
    machine.close().await?; // as if it had died
    while let Some(event) = monitor.next().await {
        if let MonitorEvent::Left(left) = event {
            println!("{} has left", left.id);
            break;
        }
    }
    Ok(())
}
