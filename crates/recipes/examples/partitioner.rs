//! Six shards are divided among two members. When one leaves, the other takes over its share.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example partitioner -- 127.0.0.1:2181`

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::partitioner::{Partitioner, Update};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let mut ann = join(&servers, "ann").await?;
    let mut owned = gather(&mut ann, 0, 6).await?;
    println!("ann alone has {owned}");

    let mut bob = join(&servers, "bob").await?;
    let bobs = tokio::spawn(async move { gather(&mut bob, 0, 3).await.map(|owned| (bob, owned)) });
    owned = gather(&mut ann, owned, 3).await?;
    let (bob, bobs) = bobs.await??;
    println!("ann has {owned}, bob has {bobs}");
    bob.leave().await;
    println!("ann has {} again", gather(&mut ann, owned, 6).await?);
    ann.leave().await;
    Ok(())
}

/// Acquires and releases until the member owns `wanted` shards.
async fn gather(
    member: &mut Partitioner,
    mut owned: usize,
    wanted: usize,
) -> Result<usize, Failure> {
    while owned != wanted {
        match member.next().await.ok_or("the client was closed")? {
            Update::Acquired(items) => owned += items.len(),
            Update::Release(release) => {
                owned -= release.items().len();
                release.confirm(); // here: stop working on them first
            }
            _ => {}
        }
    }
    Ok(owned)
}

async fn join(servers: &str, id: &str) -> Result<Partitioner, Failure> {
    let zk = Client::connect(servers).await?;
    let shards = ["s1", "s2", "s3", "s4", "s5", "s6"];
    let member = Partitioner::of(&zk, "/examples/shards", id, shards);
    Ok(member.settle(Duration::from_millis(20)).join().await?)
}
