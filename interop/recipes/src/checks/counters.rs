//! Counters and shared values.

use anyhow::{Result, ensure};
use herdsman_recipes::counter::{AtomicInt, AtomicLong};
use herdsman_recipes::shared_value::SharedCount;

use super::until;
use crate::world::World;

const ROUNDS: usize = 20;

pub async fn curator_atomic_long_and_ours_count_together(
    world: &World,
    path: String,
) -> Result<()> {
    let counter = AtomicLong::new(&world.zk, path.as_str());
    counter.add(1_000_000_000_000).await?;
    let seen = world.java.word(&format!("atomic-long get {path}")).await?;
    ensure!(seen == "1000000000000", "Curator reads {seen}");
    let java = async {
        for _ in 0..ROUNDS {
            world.java.ask(&format!("atomic-long add {path} 1")).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let ours = async {
        for _ in 0..ROUNDS {
            counter.add_exactly_once(1).await?;
        }
        Ok(())
    };
    tokio::try_join!(java, ours)?;
    let total = counter.get().await?;
    ensure!(total == 1_000_000_000_000 + 2 * ROUNDS as i64, "counted {total}");
    let swapped =
        world.java.word(&format!("atomic-long compare-and-set {path} {total} -5")).await?;
    ensure!(swapped == "true", "Curator's compare-and-set saw another value");
    ensure!(counter.get().await? == -5, "we read {}", counter.get().await?);
    Ok(())
}

pub async fn kazoo_counter_and_curators_integer_and_ours_count_together(
    world: &World,
    path: String,
) -> Result<()> {
    let counter = AtomicInt::new(&world.zk, path.as_str());
    counter.add(7).await?;
    for _ in 0..ROUNDS {
        world.python.ask(&format!("curator-counter add {path} 1")).await?;
        world.java.ask(&format!("atomic-int add {path} 1")).await?;
        counter.increment().await?;
    }
    let expected = (7 + 3 * ROUNDS).to_string();
    ensure!(counter.get().await?.to_string() == expected, "we read {}", counter.get().await?);
    let python = world.python.word(&format!("curator-counter value {path}")).await?;
    let java = world.java.word(&format!("atomic-int get {path}")).await?;
    ensure!(python == expected && java == expected, "kazoo reads {python}, Curator {java}");
    Ok(())
}

pub async fn a_shared_count_set_by_one_reaches_the_other(
    world: &World,
    path: String,
) -> Result<()> {
    let count = SharedCount::start(&world.zk, &path, 3).await?;
    let seen = world.java.ask(&format!("count get {path}")).await?;
    ensure!(seen.first().map(String::as_str) == Some("3"), "Curator reads {seen:?}");
    world.java.ask(&format!("count set {path} 11")).await?;
    until(async || Ok(count.current().is_some_and(|seen| seen.value == 11))).await?;
    let theirs = world.java.begin(&format!("count await {path} -8")).await?;
    let seen = count.read().await?;
    ensure!(count.try_set(&seen, -8).await?.is_some(), "another client has changed it");
    theirs.finish().await?;
    Ok(())
}
