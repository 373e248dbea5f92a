//! A master assigns tasks to workers. One worker dies half-way, and every task still ends.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example master_worker -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::master_worker::{
    Ending, Failure as TaskFailure, Master, Submitter, Task, Worker,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let root = "/examples/jobs";
    let master = Master::new(&zk, root)?;
    tokio::spawn(async move { master.run().await });

    let doomed = Client::connect(&servers).await?;
    let clumsy = Worker::new(&doomed, root, "clumsy")?;
    tokio::spawn(async move { clumsy.run(dawdle).await });

    let submitter = Submitter::new(&zk, root)?;
    let mut tasks = Vec::new();
    for word in ["festina", "lente"] {
        tasks.push(submitter.submit(word).await?);
    }
    let steady = Worker::new(&zk, root, "steady")?.concurrency(2);
    tokio::spawn(async move { steady.run(shout).await });
    doomed.close().await?; // what it had is handed to the other one

    for task in &tasks {
        if let Ending::Done(result) = submitter.result(task).await? {
            println!("done: {}", String::from_utf8_lossy(&result));
        }
        submitter.forget(task).await?;
    }
    Ok(())
}

async fn dawdle(_: Task) -> Result<Vec<u8>, TaskFailure> {
    std::future::pending().await
}

async fn shout(task: Task) -> Result<Vec<u8>, TaskFailure> {
    Ok(task.payload().to_ascii_uppercase())
}
