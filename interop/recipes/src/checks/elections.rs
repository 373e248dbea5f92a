//! Leader elections.

use anyhow::{Result, ensure};
use herdsman_recipes::election::{Election, ElectionLayout};

use super::until;
use crate::world::World;

pub async fn curator_latch_and_we_lead_in_turn(world: &World, path: String) -> Result<()> {
    let election = Election::new(&world.zk, &path, "rust")?.layout(ElectionLayout::Latch);
    let leadership = election.campaign().await?;
    world.java.ask(&format!("latch start {path} java")).await?;
    until(async || Ok(election.contenders().await?.len() == 2)).await?;
    ensure!(world.java.word(&format!("latch has {path}")).await? == "false", "two leaders");
    ensure!(world.java.word(&format!("latch leader {path}")).await? == "rust", "another leader");
    leadership.resign().await?;
    world.java.ask(&format!("latch await {path}")).await?;
    let leader = election.leader().await?.map(|leader| leader.id);
    ensure!(leader.as_deref() == Some("java"), "the leader is {leader:?}");
    world.java.ask(&format!("latch close {path}")).await?;
    Ok(election.campaign().await?.resign().await?)
}

pub async fn curator_selector_and_we_lead_in_turn(world: &World, path: String) -> Result<()> {
    let election = Election::new(&world.zk, &path, "rust")?.layout(ElectionLayout::Selector);
    world.java.ask(&format!("selector start {path} java")).await?;
    world.java.ask(&format!("selector await {path}")).await?;
    let leader = election.leader().await?.map(|leader| leader.id);
    ensure!(leader.as_deref() == Some("java"), "the leader is {leader:?}");
    let ours = election.campaign();
    tokio::pin!(ours);
    tokio::select! {
        won = &mut ours => anyhow::bail!("two leaders: {won:?}"),
        waited = until(async || Ok(election.contenders().await?.len() == 2)) => waited?,
    }
    world.java.ask(&format!("selector release {path}")).await?;
    let leadership = ours.await?;
    ensure!(world.java.word(&format!("selector holds {path}")).await? == "false", "two leaders");
    leadership.resign().await?;
    world.java.ask(&format!("selector close {path}")).await?;
    Ok(())
}

pub async fn kazoo_election_and_we_lead_in_turn(world: &World, path: String) -> Result<()> {
    let election = Election::new(&world.zk, &path, "rust")?.layout(ElectionLayout::Kazoo);
    let leadership = election.campaign().await?;
    world.python.ask(&format!("election run {path} python")).await?;
    until(async || Ok(election.contenders().await?.len() == 2)).await?;
    ensure!(world.python.word(&format!("election holds {path}")).await? == "false", "two leaders");
    leadership.resign().await?;
    world.python.ask(&format!("election await {path}")).await?;
    let leader = election.leader().await?.map(|leader| leader.id);
    ensure!(leader.as_deref() == Some("python"), "the leader is {leader:?}");
    world.python.ask(&format!("election release {path}")).await?;
    Ok(election.campaign().await?.resign().await?)
}
