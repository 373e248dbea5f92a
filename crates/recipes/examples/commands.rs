//! A console sends a command to all clients, and learns which of them have carried it out.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example commands -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::messaging::{
    Answer, CommandClient, Dispatcher, Progress, ProgressFeed, ProgressReporter,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    for id in ["node-1", "node-2"] {
        let client = CommandClient::join(&zk, "/examples/fleet", id).await?;
        tokio::spawn(client.run(move |command| async move {
            Ok::<_, String>(format!("{id} did {}", String::from_utf8_lossy(command.payload())))
        }));
    }
    let console = Dispatcher::new(&zk, "/examples/fleet")?;
    let mut dispatched = console.dispatch("reload").await?;
    println!("sent to {}", dispatched.missing().join(", "));
    let mut answers = 0;
    while let Some(answer) = dispatched.next().await {
        if let Answer::Acked(ack) = answer? {
            println!("{} has answered", ack.client);
            answers += 1;
        }
    }
    println!("{answers} answers, {} missing", dispatched.missing().len());

    let mut feed = ProgressFeed::open(&zk, "/examples/import").await?;
    let reporter = ProgressReporter::start(&zk, "/examples/import")?;
    reporter.report(Progress::new(40, "unpacking"));
    reporter.flush().await?;
    if let Some(progress) = feed.next().await {
        println!("progress: {:?}", progress?);
    }
    Ok(())
}
