//! Group membership and service discovery.

use anyhow::{Result, ensure};
use herdsman_recipes::discovery::{Registry, ServiceInstance};
use herdsman_recipes::membership::Group;

use super::until;
use crate::world::World;

pub async fn a_group_has_members_of_both_languages(world: &World, path: String) -> Result<()> {
    let group = Group::new(&world.zk, &path)?;
    let ours = group.join("rust", "our data").await?;
    world.java.ask(&format!("group join {path} java their%20data")).await?;
    world.java.ask(&format!("group await {path} java rust")).await?;
    let members = group.observe().await?;
    until(async || Ok(members.snapshot().len() == 2)).await?;
    let data = members.snapshot()["java"].data.clone();
    ensure!(data == "their data", "we read {data:?}");
    let seen = world.java.ask(&format!("group members {path}")).await?;
    ensure!(seen.windows(2).any(|pair| pair == ["rust", "our data"]), "Curator sees {seen:?}");
    ours.leave().await?;
    world.java.ask(&format!("group await {path} java")).await?;
    world.java.ask(&format!("group leave {path}")).await?;
    until(async || Ok(members.snapshot().is_empty())).await
}

pub async fn services_are_seen_by_both_languages(world: &World, path: String) -> Result<()> {
    let registry: Registry<String> = Registry::new(&world.zk, &path)?;
    let instance = ServiceInstance::new("web")
        .with_id("ours")
        .with_address("10.1.2.3")
        .with_port(8080)
        .with_payload("zone a".to_owned());
    let registration = registry.register(instance).await?;
    let seen = world.java.ask(&format!("discovery list {path} web")).await?;
    ensure!(seen == ["ours", "10.1.2.3", "8080", "zone a", "true"], "Curator sees {seen:?}");

    world.java.ask(&format!("discovery register {path} web theirs 10.9.9.9 9090 zone%20b")).await?;
    let cache = registry.cache("web").open().await?;
    until(async || Ok(cache.instances().len() == 2)).await?;
    let found = registry.instances("web").await?;
    let theirs = found.instances.iter().find(|instance| instance.id == "theirs");
    let place = theirs.map(|theirs| (theirs.address.clone(), theirs.port, theirs.payload.clone()));
    let expected = (Some("10.9.9.9".to_owned()), Some(9090), Some("zone b".to_owned()));
    ensure!(place == Some(expected), "we see {place:?}");
    ensure!(found.unreadable.is_empty(), "unreadable: {:?}", found.unreadable);
    ensure!(world.java.ask(&format!("discovery names {path}")).await? == ["web"], "other names");

    registration.unregister().await?;
    world.java.ask(&format!("discovery unregister {path} web theirs")).await?;
    until(async || Ok(cache.instances().is_empty())).await
}
