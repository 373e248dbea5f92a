//! Barriers.

use anyhow::{Result, ensure};
use herdsman_recipes::{Barrier, DoubleBarrier};

use super::until;
use crate::world::World;

pub async fn a_barrier_closed_by_one_stops_the_others(world: &World, path: String) -> Result<()> {
    let barrier = Barrier::new(&world.zk, path.as_str());
    world.java.ask(&format!("barrier set {path}")).await?;
    ensure!(barrier.is_closed().await?, "we do not see that Curator closed it");
    let mut theirs = world.python.begin(&format!("barrier wait {path}")).await?;
    let mut also = world.java.begin(&format!("barrier wait {path}")).await?;
    ensure!(theirs.is_waiting() && also.is_waiting(), "a closed barrier lets others through");
    barrier.open().await?;
    theirs.finish().await?;
    also.finish().await?;

    barrier.close().await?;
    let theirs = world.java.begin(&format!("barrier wait {path}")).await?;
    world.python.ask(&format!("barrier remove {path}")).await?;
    barrier.wait().await?;
    theirs.finish().await?;
    Ok(())
}

pub async fn a_double_barrier_gathers_three_languages(world: &World, path: String) -> Result<()> {
    for _ in 0..2 {
        let mut java = world.java.begin(&format!("double-barrier enter {path} 3")).await?;
        let mut python = world.python.begin(&format!("double-barrier enter {path} 3")).await?;
        until(async || Ok(world.zk.children(&path).await.is_ok_and(|node| node.names.len() == 2)))
            .await?;
        ensure!(java.is_waiting() && python.is_waiting(), "two of three went in");
        let inside = DoubleBarrier::new(&world.zk, path.as_str(), 3)?.enter().await?;
        java.finish().await?;
        python.finish().await?;
        let java = world.java.begin(&format!("double-barrier leave {path}")).await?;
        let python = world.python.begin(&format!("double-barrier leave {path}")).await?;
        inside.leave().await?;
        java.finish().await?;
        python.finish().await?;
    }
    Ok(())
}
