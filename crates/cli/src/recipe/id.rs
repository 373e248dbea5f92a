//! `herdsman recipe id`: generates ids of five kinds.

use anyhow::Result;
use clap::{Args, ValueEnum, value_parser};
use herdsman_client::Client;
use herdsman_recipes::WorkerIds;
use herdsman_recipes::ids::{
    IdGenerator, RandomUuids, SegmentedIds, SequentialIds, SnowflakeIds, TimeOrderedUuids,
};
use herdsman_recipes::snowflake::WORKER_ID_MAX;

use super::outcome::{Interrupted, Outcome};
use super::output::print_line;

pub(super) const EXAMPLES: &str = "\
  herdsman recipe id
  herdsman recipe id --kind uuid-v7 --count 3
  herdsman recipe id /ids/orders --kind segment --block 100";

/// Generate unique ids.
#[derive(Args)]
pub(super) struct Arguments {
    /// The path under which ids are allocated; not used for UUIDs.
    #[arg(default_value = "/ids", value_name = "PATH")]
    path: String,
    /// Kind of ids.
    #[arg(long, value_enum, default_value = "snowflake")]
    kind: Kind,
    /// Number of ids to generate.
    #[arg(long, short = 'c', default_value = "1", value_name = "NUMBER")]
    count: usize,
    /// Number of ids in a block, with `--kind segment`.
    #[arg(long, default_value = "1000", value_name = "NUMBER")]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    block: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The number of a sequential node.
    Sequential,
    /// A number from a block that is leased at once.
    Segment,
    /// 41 bits of time, 10 bits of a leased worker id, 12 bits of a counter.
    Snowflake,
    /// A random UUID.
    UuidV4,
    /// A UUID that begins with the time.
    UuidV7,
}

/// Milliseconds from 1970 to 2020: snowflakes last until 2089.
const SNOWFLAKE_EPOCH_MS: u64 = 1_577_836_800_000;

pub(super) async fn run(
    zk: &Client,
    arguments: &Arguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let path = &arguments.path;
    let print = async {
        match arguments.kind {
            Kind::Sequential => print(&SequentialIds::new(zk, path), arguments.count).await,
            Kind::Segment => {
                print(&SegmentedIds::new(zk, path, arguments.block)?, arguments.count).await
            }
            Kind::Snowflake => {
                let workers = WorkerIds::new(zk, path, 0..=WORKER_ID_MAX)?;
                print(&SnowflakeIds::new(workers, SNOWFLAKE_EPOCH_MS)?, arguments.count).await
            }
            Kind::UuidV4 => print(&RandomUuids, arguments.count).await,
            Kind::UuidV7 => print(&TimeOrderedUuids, arguments.count).await,
        }
    };
    interrupted.or(print).await
}

async fn print(ids: &impl IdGenerator, count: usize) -> Result<Outcome> {
    for _ in 0..count {
        print_line(ids.next().await?)?;
    }
    Ok(Outcome::Done)
}
