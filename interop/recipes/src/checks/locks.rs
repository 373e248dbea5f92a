//! Locks, read-write locks and semaphores.

use anyhow::{Result, ensure};
use herdsman_recipes::{Error, Layout, Lock, RwLock, Semaphore};

use super::{add_one, until};
use crate::world::World;

pub async fn curator_mutex_and_lock_take_turns(world: &World, path: String) -> Result<()> {
    let lock = Lock::new(&world.zk, &path)?;
    let guard = lock.acquire().await?;
    let mut theirs = world.java.begin(&format!("lock acquire {path}")).await?;
    until(async || Ok(lock.contenders().await?.len() == 2)).await?;
    ensure!(theirs.is_waiting(), "Curator got a lock that we hold");
    let token = guard.token();
    guard.release().await?;
    theirs.finish().await?;

    ensure!(lock.try_acquire().await?.is_none(), "we got a lock that Curator holds");
    let ours = lock.acquire();
    tokio::pin!(ours);
    let waiting = until(async || Ok(lock.contenders().await?.len() == 2));
    tokio::select! {
        guard = &mut ours => anyhow::bail!("we got a lock that Curator holds: {guard:?}"),
        waited = waiting => waited?,
    }
    world.java.ask(&format!("lock release {path}")).await?;
    let guard = ours.await?;
    ensure!(guard.token() > token, "the token went from {token} to {}", guard.token());
    Ok(guard.release().await?)
}

pub async fn a_dead_curator_holder_loses_the_lock_to_us(world: &World, path: String) -> Result<()> {
    let old = world.java.word("session id").await?;
    world.java.ask(&format!("lock acquire {path}#doomed")).await?;
    let lock = Lock::new(&world.zk, &path)?;
    ensure!(lock.try_acquire().await?.is_none(), "we got a lock that Curator holds");
    world.java.ask("session kill").await?;
    lock.acquire().await?.release().await?;
    world.java.ask(&format!("session await-new {old}")).await?;
    Ok(())
}

pub async fn our_dead_holder_loses_the_lock_to_curator(world: &World, path: String) -> Result<()> {
    let doomed = world.another().await?;
    let guard = Lock::new(&doomed, &path)?.acquire().await?;
    let theirs = world.java.begin(&format!("lock acquire {path}")).await?;
    let lock = Lock::new(&world.zk, &path)?;
    until(async || Ok(lock.contenders().await?.len() == 2)).await?;
    doomed.close().await?;
    theirs.finish().await?;
    ensure!(!guard.is_trusted(), "a guard of a closed session is trusted");
    world.java.ask(&format!("lock release {path}")).await?;
    Ok(())
}

pub async fn revocation_reaches_the_other_language(world: &World, path: String) -> Result<()> {
    let lock = Lock::new(&world.zk, &path)?;
    let guard = lock.acquire().await?;
    world.java.ask(&format!("lock revoke {path}")).await?;
    guard.revocation_requested().await?;
    guard.release().await?;

    world.java.ask(&format!("lock acquire-revocable {path}")).await?;
    let asked = world.java.begin(&format!("lock await-revoke {path}")).await?;
    ensure!(lock.request_revocation().await?.is_some(), "there is no holder");
    asked.finish().await?;
    world.java.ask(&format!("lock release {path}")).await?;
    Ok(())
}

pub async fn curator_readers_and_our_writer_exclude_each_other(
    world: &World,
    path: String,
) -> Result<()> {
    let lock = RwLock::new(&world.zk, &path)?;
    world.java.ask(&format!("rwlock read-acquire {path}#a")).await?;
    let ours = lock.read().await?; // shared with Curator's reader
    ensure!(lock.try_write().await?.is_none(), "a writer beside readers");
    ours.release().await?;
    world.java.ask(&format!("rwlock read-release {path}#a")).await?;

    let writer = lock.write().await?;
    let mut reader = world.java.begin(&format!("rwlock read-acquire {path}#b")).await?;
    until(async || Ok(lock.contenders().await?.len() == 2)).await?;
    ensure!(reader.is_waiting(), "a Curator reader beside our writer");
    writer.release().await?;
    reader.finish().await?;
    world.java.ask(&format!("rwlock read-release {path}#b")).await?;

    world.java.ask(&format!("rwlock write-acquire {path}#c")).await?;
    ensure!(lock.try_read().await?.is_none(), "our reader beside a Curator writer");
    world.java.ask(&format!("rwlock write-release {path}#c")).await?;
    Ok(())
}

pub async fn our_downgrade_is_understood_by_curator(world: &World, path: String) -> Result<()> {
    let lock = RwLock::new(&world.zk, &path)?;
    let writer = lock.write().await?;
    let mut theirs = world.java.begin(&format!("rwlock read-acquire {path}#a")).await?;
    until(async || Ok(lock.contenders().await?.len() == 2)).await?;
    ensure!(theirs.is_waiting(), "a Curator reader beside our writer");
    let reader = writer.downgrade().await?;
    theirs.finish().await?;
    let mut writer = world.java.begin(&format!("rwlock write-acquire {path}#b")).await?;
    until(async || Ok(lock.contenders().await?.len() == 3)).await?;
    world.java.ask(&format!("rwlock read-release {path}#a")).await?;
    ensure!(writer.is_waiting(), "a Curator writer beside our reader");
    reader.release().await?;
    writer.finish().await?;
    world.java.ask(&format!("rwlock write-release {path}#b")).await?;
    Ok(())
}

pub async fn curator_and_we_share_the_leases_of_a_semaphore(
    world: &World,
    path: String,
) -> Result<()> {
    let semaphore = Semaphore::new(&world.zk, &path, 2)?;
    let ours = semaphore.acquire().await?;
    world.java.ask(&format!("semaphore acquire {path} 2")).await?;
    ensure!(semaphore.try_acquire().await?.is_none(), "a third lease of two");
    let refused = world.java.word(&format!("semaphore try {path} 2 300")).await?;
    ensure!(refused == "false", "Curator took a third lease of two");
    ours.release().await?;
    let again = world.java.word(&format!("semaphore try {path} 2 20000")).await?;
    ensure!(again == "true", "Curator did not get the lease that we released");
    world.java.ask(&format!("semaphore release {path}")).await?;
    semaphore.acquire().await?.release().await?;
    world.java.ask(&format!("semaphore release {path}")).await?;
    Ok(())
}

pub async fn kazoo_lock_and_lock_take_turns(world: &World, path: String) -> Result<()> {
    let lock = Lock::new(&world.zk, &path)?.layout(Layout::Kazoo);
    let guard = lock.acquire().await?;
    let mut theirs = world.python.begin(&format!("lock acquire {path}")).await?;
    until(async || Ok(lock.contenders().await?.len() == 2)).await?;
    ensure!(theirs.is_waiting(), "kazoo got a lock that we hold");
    guard.release().await?;
    theirs.finish().await?;
    ensure!(lock.try_acquire().await?.is_none(), "we got a lock that kazoo holds");
    let late = lock.acquire_within(std::time::Duration::from_millis(300)).await;
    ensure!(matches!(late, Err(Error::TimedOut)), "we got a lock that kazoo holds");
    world.python.ask(&format!("lock release {path}")).await?;
    Ok(lock.acquire().await?.release().await?)
}

/// Java and two sessions of ours, each many times; the critical section is a fenced counter.
pub async fn three_contenders_never_hold_the_mutex_together(
    world: &World,
    path: String,
) -> Result<()> {
    const ROUNDS: usize = 15;
    let counter = format!("{path}-counter");
    world.zk.create(&counter, "0").await?;
    let java = async {
        for _ in 0..ROUNDS {
            world.java.ask(&format!("lock acquire {path}")).await?;
            add_one(&world.zk, &counter).await?;
            world.java.ask(&format!("lock release {path}")).await?;
        }
        Ok(())
    };
    let another = world.another().await?;
    tokio::try_join!(
        java,
        count(&world.zk, &path, &counter, ROUNDS),
        count(&another, &path, &counter, ROUNDS)
    )?;
    let total = world.zk.get(&counter).await?.data;
    ensure!(total == (3 * ROUNDS).to_string(), "counted {total:?} instead of {}", 3 * ROUNDS);
    Ok(another.close().await?)
}

async fn count(
    zk: &herdsman_client::Client,
    path: &str,
    counter: &str,
    rounds: usize,
) -> Result<()> {
    let lock = Lock::new(zk, path)?;
    for _ in 0..rounds {
        let guard = lock.acquire().await?;
        add_one(zk, counter).await?;
        guard.release().await?;
    }
    Ok(())
}
