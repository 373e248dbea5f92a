//! Queues.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use herdsman_recipes::queue::{DelayQueue, IdQueue, PriorityQueue, Queue, WorkItem, WorkQueue};

use crate::world::World;

pub async fn simple_queue_items_cross_both_ways(world: &World, path: String) -> Result<()> {
    let queue = Queue::new(&world.zk, &path)?;
    queue.offer("from rust").await?;
    world.java.ask(&format!("simple-queue offer {path} from%20java")).await?;
    let peeked = world.java.word(&format!("simple-queue peek {path}")).await?;
    let first = world.java.word(&format!("simple-queue take {path}")).await?;
    ensure!(first == "from rust" && peeked == first, "Curator took {first:?}");
    ensure!(queue.take().await? == "from java", "we took something else");
    ensure!(queue.poll().await?.is_none(), "there is one too many");
    let theirs = world.java.begin(&format!("simple-queue take {path}")).await?;
    queue.offer("wake up").await?;
    ensure!(theirs.finish().await? == ["wake up"], "Curator took something else");
    Ok(())
}

pub async fn work_queue_items_cross_both_ways(world: &World, path: String) -> Result<()> {
    let queue = WorkQueue::new(&world.zk, &path)?;
    world.java.ask(&format!("queue put-many {path} one two")).await?;
    world.java.ask(&format!("queue put {path} three")).await?;
    let mut taken = Vec::new();
    while taken.len() < 3 {
        let item = queue.take().await?;
        // Items that were added as a batch are returned as one.
        for payload in item.payloads() {
            taken.push(String::from_utf8(payload.to_vec())?);
        }
        item.done().await?;
    }
    ensure!(taken == ["one", "two", "three"], "we took {taken:?}");

    world.java.ask(&format!("queue consume {path} {path}-locks")).await?;
    queue.offer("four").await?;
    ensure!(world.java.word(&format!("queue take {path}")).await? == "four", "another item");
    world.java.ask(&format!("queue refuse {path} 1")).await?;
    queue.offer("five").await?;
    ensure!(
        world.java.word(&format!("queue take {path}")).await? == "five",
        "it was not returned again"
    );
    world.java.ask(&format!("queue close {path}")).await?;
    Ok(())
}

pub async fn priority_and_delay_and_id_items_cross(world: &World, path: String) -> Result<()> {
    let urgent = PriorityQueue::new(&world.zk, &format!("{path}/priority"))?;
    world.java.ask(&format!("priority-queue put {path}/priority later 5")).await?;
    world.java.ask(&format!("priority-queue put {path}/priority sooner -5")).await?;
    urgent.offer(0, "between").await?;
    for expected in ["sooner", "between", "later"] {
        let item = take(urgent.take().await?).await?;
        ensure!(item == expected, "we took {item} instead of {expected}");
    }

    let delayed = DelayQueue::new(&world.zk, &format!("{path}/delay"))?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    world.java.ask(&format!("delay-queue put {path}/delay due {}", now_ms - 1000)).await?;
    ensure!(take(delayed.take().await?).await? == "due", "another item");
    world.java.ask(&format!("delay-queue consume {path}/delay {path}/delay-locks")).await?;
    delayed.offer(Duration::from_millis(200), "soon").await?;
    ensure!(world.java.word(&format!("delay-queue take {path}/delay")).await? == "soon", "another");
    world.java.ask(&format!("delay-queue close {path}/delay")).await?;

    let named = IdQueue::new(&world.zk, &format!("{path}/id"))?;
    world.java.ask(&format!("id-queue put {path}/id theirs a")).await?;
    named.offer("b", "ours").await?;
    ensure!(named.remove("a").await? == 1, "we could not remove Curator's item");
    let removed = world.java.word(&format!("id-queue remove {path}/id b")).await?;
    ensure!(removed == "1", "Curator removed {removed} of ours");
    Ok(())
}

async fn take(item: WorkItem) -> Result<String> {
    let text = String::from_utf8(item.payload().to_vec())?;
    item.done().await?;
    Ok(text)
}
