//! ZooKeeper's own recipes: `WriteLock`, `LeaderElectionSupport` and `DistributedQueue`. In the Java
//! contender each handle (`#a`, `#b`) has its own session.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use herdsman_client::Client;
use herdsman_recipes::election::{Election, ElectionLayout};
use herdsman_recipes::queue::{Queue, QueueLayout};
use herdsman_recipes::{Layout, Lock, RwLock};

use super::{add_one, until};
use crate::world::World;

fn lock(zk: &Client, path: &str) -> Result<Lock> {
    Ok(Lock::new(zk, path)?.layout(Layout::Apache))
}

pub async fn write_lock_and_lock_take_turns(world: &World, path: String) -> Result<()> {
    let lock = lock(&world.zk, &path)?;
    let guard = lock.acquire().await?;
    let mut theirs = world.java.begin(&format!("write-lock acquire {path}#a")).await?;
    until(async || Ok(lock.contenders().await?.len() == 2)).await?;
    // Two of our contenders in one session, behind a WriteLock.
    let (one, two) = (lock.acquire(), lock.acquire());
    tokio::pin!(one, two);
    let waiting = until(async || Ok(lock.contenders().await?.len() == 4));
    tokio::select! {
        guard = &mut one => anyhow::bail!("a second holder: {guard:?}"),
        guard = &mut two => anyhow::bail!("a second holder: {guard:?}"),
        waited = waiting => waited?,
    }
    ensure!(theirs.is_waiting(), "a WriteLock got a lock that we hold");
    let token = guard.token();
    guard.release().await?;
    theirs.finish().await?;
    ensure!(lock.try_acquire().await?.is_none(), "we got a lock that a WriteLock holds");
    world.java.ask(&format!("write-lock release {path}#a")).await?;
    let (one, two) = tokio::join!(async { anyhow::Ok((one.await?.release().await?, ())) }, async {
        anyhow::Ok(two.await?.token())
    });
    one?;
    ensure!(two? > token, "the token did not grow");
    Ok(())
}

pub async fn a_dead_holder_loses_the_lock_in_both_directions(
    world: &World,
    path: String,
) -> Result<()> {
    world.java.ask(&format!("write-lock acquire {path}#doomed")).await?;
    let ours = lock(&world.zk, &path)?;
    ensure!(ours.try_acquire().await?.is_none(), "we got a lock that a WriteLock holds");
    let close = format!("write-lock close {path}#doomed");
    let (guard, closed) = tokio::join!(ours.acquire(), world.java.ask(&close));
    closed?;
    guard?.release().await?;

    let doomed = world.another().await?;
    let guard = lock(&doomed, &path)?.acquire().await?;
    let theirs = world.java.begin(&format!("write-lock acquire {path}#next")).await?;
    until(async || Ok(ours.contenders().await?.len() == 2)).await?;
    doomed.close().await?;
    theirs.finish().await?;
    drop(guard);
    world.java.ask(&format!("write-lock close {path}#next")).await?;
    Ok(())
}

/// Two sessions in Java and two of ours, one of which has two contenders; the critical section is a counter
/// that only the lock protects.
pub async fn write_locks_and_locks_never_hold_together(world: &World, path: String) -> Result<()> {
    const ROUNDS: usize = 12;
    let counter = format!("{path}-counter");
    world.zk.create(&counter, "0").await?;
    let another = world.another().await?;
    let theirs = async |name: &str| {
        for _ in 0..ROUNDS {
            world.java.ask(&format!("write-lock acquire {path}#{name}")).await?;
            add_one(&world.zk, &counter).await?;
            world.java.ask(&format!("write-lock release {path}#{name}")).await?;
        }
        anyhow::Ok(())
    };
    let ours = async |zk: &Client| {
        let lock = lock(zk, &path)?;
        for _ in 0..ROUNDS {
            let guard = lock.acquire().await?;
            add_one(zk, &counter).await?;
            guard.release().await?;
        }
        Ok(())
    };
    tokio::try_join!(theirs("a"), theirs("b"), ours(&world.zk), ours(&world.zk), ours(&another))?;
    let total = world.zk.get(&counter).await?.data;
    ensure!(total == (5 * ROUNDS).to_string(), "counted {total:?} instead of {}", 5 * ROUNDS);
    ensure!(world.zk.children(&path).await?.names.is_empty(), "a node is left in the queue");
    Ok(another.close().await?)
}

pub async fn a_write_lock_waits_for_our_readers(world: &World, path: String) -> Result<()> {
    let lock = RwLock::new(&world.zk, &path)?.layout(Layout::Apache);
    let (one, two) = (lock.read().await?, lock.read().await?);
    let mut theirs = world.java.begin(&format!("write-lock acquire {path}#a")).await?;
    until(async || Ok(lock.contenders().await?.len() == 3)).await?;
    ensure!(lock.try_read().await?.is_none(), "a reader passed a WriteLock that waits");
    one.release().await?;
    ensure!(theirs.is_waiting(), "a WriteLock beside our reader");
    two.release().await?;
    theirs.finish().await?;
    ensure!(lock.try_read().await?.is_none(), "our reader beside a WriteLock");
    world.java.ask(&format!("write-lock release {path}#a")).await?;
    Ok(lock.write().await?.release().await?)
}

/// Both queue second, lead and stop: they see the same leaders and report the same events.
pub async fn election_support_and_we_lead_in_turn(world: &World, path: String) -> Result<()> {
    let election = |host: &str| -> Result<Election> {
        Ok(Election::new(&world.zk, &path, host)?.layout(ElectionLayout::Apache))
    };
    let first = election("rust-1")?.campaign().await?;
    let started = world.java.word(&format!("election-support start {path}#a java-1")).await?;
    ensure!(started == "READY_COMPLETE", "beside our leader Java is {started}");
    let host = world.java.word(&format!("election-support host {path}#a")).await?;
    ensure!(host == "rust-1", "Java sees {host} lead");
    let candidate = election("rust-2")?;
    let mut events = candidate.events();
    let mut ours = Box::pin(candidate.campaign());
    let mut reported = Vec::new();
    // `ours` is not polled after this for a while, so it has to watch its predecessor.
    let waiting = async {
        while reported.last() != Some(&"READY_COMPLETE") {
            let event = events.next().await.context("our candidate has ended")?;
            reported.push(event.apache_name().context("a loss")?);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        won = &mut ours => anyhow::bail!("two leaders: {won:?}"),
        waited = waiting => waited?,
    }
    first.resign().await?;
    let elected = world.java.word(&format!("election-support await {path}#a")).await?;
    ensure!(elected == "ELECTED_COMPLETE", "Java is {elected}");
    let hosts = candidate.contenders().await?;
    let hosts: Vec<_> = hosts.iter().map(|offer| offer.id.as_str()).collect();
    ensure!(hosts == ["java-1", "rust-2"], "we see the offers of {hosts:?}");
    world.java.ask(&format!("election-support stop {path}#a")).await?;
    ours.as_mut().await?.resign().await?;
    drop(ours);
    drop(candidate);

    let theirs = world.java.ask(&format!("election-support events {path}#a")).await?;
    while let Some(event) = events.next().await {
        reported.push(event.apache_name().context("a loss")?);
    }
    ensure!(reported == theirs, "we report {reported:?}, Java {theirs:?}");
    world.java.ask(&format!("election-support close {path}#a")).await?;
    Ok(())
}

/// Each candidate leads several times; a counter is protected only by the election.
pub async fn one_leads_at_a_time_with_election_support(world: &World, path: String) -> Result<()> {
    const TERMS: usize = 6;
    let counter = format!("{path}-counter");
    world.zk.create(&counter, "0").await?;
    world.zk.create(&path, "").await?;
    let theirs = async |name: &str| {
        let handle = format!("{path}#{name}");
        let mut terms = 0;
        while terms < TERMS {
            world.java.ask(&format!("election-support start {handle} {name}")).await?;
            let outcome = world.java.word(&format!("election-support await {handle}")).await?;
            // Java's candidate fails if an offer is deleted while it reads all of them.
            if outcome == "ELECTED_COMPLETE" {
                add_one(&world.zk, &counter).await?;
                terms += 1;
            }
            world.java.ask(&format!("election-support stop {handle}")).await?;
        }
        anyhow::Ok(())
    };
    let ours = async |zk: &Client, host: &str| {
        let election = Election::new(zk, &path, host)?.layout(ElectionLayout::Apache);
        for _ in 0..TERMS {
            let leadership = election.campaign().await?;
            add_one(zk, &counter).await?;
            let leader = election.leader().await?.context("there is no leader")?;
            ensure!(leader.id == host, "{} leads beside {host}", leader.id);
            leadership.resign().await?;
        }
        Ok(())
    };
    let another = world.another().await?;
    tokio::try_join!(
        theirs("java-a"),
        theirs("java-b"),
        ours(&world.zk, "rust-a"),
        ours(&world.zk, "rust-b"),
        ours(&another, "rust-c")
    )?;
    let total = world.zk.get(&counter).await?.data;
    ensure!(total == (5 * TERMS).to_string(), "counted {total:?} instead of {}", 5 * TERMS);
    Ok(another.close().await?)
}

pub async fn distributed_queue_items_cross_both_ways(world: &World, path: String) -> Result<()> {
    let queue = Queue::new(&world.zk, &path)?.layout(QueueLayout::Apache);
    let command = |verb: &str| format!("distributed-queue {verb} {path}");
    queue.offer("from rust").await?;
    // Not an item for either library.
    world.zk.create(&format!("{path}/README"), "").await?;
    world.zk.create(&format!("{path}/qn-x"), "").await?;
    world.java.ask(&format!("{} from%20java", command("offer"))).await?;
    let peeked = world.java.word(&command("peek")).await?;
    let first = world.java.word(&command("take")).await?;
    ensure!(first == "from rust" && peeked == first, "Java took {first:?}");
    ensure!(queue.element().await? == "from java", "we see another item");
    ensure!(queue.take().await? == "from java", "we took something else");
    ensure!(queue.poll().await?.is_none(), "there is one too many");
    ensure!(world.java.ask(&command("poll")).await?.is_empty(), "Java sees one too many");
    let theirs = world.java.begin(&command("take")).await?;
    queue.offer("wake up").await?;
    ensure!(theirs.finish().await? == ["wake up"], "Java took something else");
    let offer = format!("{} and%20you", command("offer"));
    let (ours, offered) = tokio::join!(queue.take(), world.java.ask(&offer));
    offered?;
    ensure!(ours? == "and you", "we took something else");
    Ok(())
}

/// Two producers and two consumers in each language: every item is taken once.
pub async fn no_item_of_a_distributed_queue_is_lost_or_doubled(
    world: &World,
    path: String,
) -> Result<()> {
    const ITEMS: usize = 15;
    let another = world.another().await?;
    let produce = async |name: &str| {
        for item in 0..ITEMS {
            world.java.ask(&format!("distributed-queue offer {path}#{name} {name}-{item}")).await?;
        }
        anyhow::Ok(())
    };
    let produce_ours = async |zk: &Client, name: &str| {
        let queue = Queue::new(zk, &path)?.layout(QueueLayout::Apache);
        for item in 0..ITEMS {
            queue.offer(format!("{name}-{item}")).await?;
        }
        anyhow::Ok(())
    };
    let consume = async |name: &str| {
        let mut taken = Vec::new();
        for _ in 0..ITEMS {
            taken.push(world.java.word(&format!("distributed-queue take {path}#{name}")).await?);
        }
        anyhow::Ok(taken)
    };
    let consume_ours = async |zk: &Client| {
        let queue = Queue::new(zk, &path)?.layout(QueueLayout::Apache);
        let mut taken = Vec::new();
        for _ in 0..ITEMS {
            taken.push(String::from_utf8(queue.take().await?.to_vec())?);
        }
        anyhow::Ok(taken)
    };
    // A Java consumer fails if it has to create the queue at the same moment as another.
    world.zk.create(&path, "").await?;
    let (one, two, three, four, ..) = tokio::try_join!(
        consume("c"),
        consume("d"),
        consume_ours(&world.zk),
        consume_ours(&another),
        produce("a"),
        produce("b"),
        produce_ours(&world.zk, "e"),
        produce_ours(&another, "f"),
    )?;
    let taken = [one, two, three, four].concat();
    let all: BTreeSet<_> = taken.iter().collect();
    ensure!(all.len() == 4 * ITEMS, "{} items of {} taken: {taken:?}", all.len(), 4 * ITEMS);
    ensure!(world.zk.children(&path).await?.names.is_empty(), "an item is left");
    Ok(another.close().await?)
}
