//! Ids generated in four ways, and a counter that counts each visit once even if a reply is lost.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example ids -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::ids::{
    IdGenerator, SegmentedIds, SequentialIds, SnowflakeIds, TimeOrderedUuids,
};
use herdsman_recipes::snowflake::Snowflake;
use herdsman_recipes::{AtomicLong, WorkerIds};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let sequential = SequentialIds::new(&zk, "/examples/ids/sequential");
    println!("sequential: {} then {}", sequential.next().await?, sequential.next().await?);

    let segmented = SegmentedIds::new(&zk, "/examples/ids/segmented", 1000)?;
    println!("from a block: {} then {}", segmented.next().await?, segmented.next().await?);

    const EPOCH_MS: u64 = 1_577_836_800_000; // 2020
    let workers = WorkerIds::new(&zk, "/examples/ids/snowflake", 0..=1023)?;
    let snowflakes = SnowflakeIds::new(workers, EPOCH_MS)?;
    let (one, two) = (snowflakes.next().await?, snowflakes.next().await?);
    println!("snowflakes grow: {}", one < two);
    println!("made by: {:?}", Snowflake::decompose(one, EPOCH_MS));

    println!("a uuid: {}", TimeOrderedUuids.next().await?);

    let visits = AtomicLong::new(&zk, "/examples/visits");
    println!("visits: {}", visits.add_exactly_once(1).await?.after);
    Ok(())
}
