//! The checks, one file for each family. Each name states what two or three languages agree on.

mod barriers;
mod counters;
mod elections;
mod locks;
mod nodes;
mod queues;
mod zookeeper;

use std::time::Duration;

use anyhow::Result;
use herdsman_client::Client;

use crate::world::Check;

/// A check from an async function of the world and its path.
macro_rules! check {
    ($module:ident :: $name:ident) => {
        Check { name: stringify!($name), run: |world, path| Box::pin($module::$name(world, path)) }
    };
}

/// All checks, in the order in which they run.
pub const ALL: &[Check] = &[
    check!(locks::curator_mutex_and_lock_take_turns),
    check!(locks::a_dead_curator_holder_loses_the_lock_to_us),
    check!(locks::our_dead_holder_loses_the_lock_to_curator),
    check!(locks::revocation_reaches_the_other_language),
    check!(locks::curator_readers_and_our_writer_exclude_each_other),
    check!(locks::our_downgrade_is_understood_by_curator),
    check!(locks::curator_and_we_share_the_leases_of_a_semaphore),
    check!(locks::kazoo_lock_and_lock_take_turns),
    check!(locks::three_contenders_never_hold_the_mutex_together),
    check!(elections::curator_latch_and_we_lead_in_turn),
    check!(elections::curator_selector_and_we_lead_in_turn),
    check!(elections::kazoo_election_and_we_lead_in_turn),
    check!(barriers::a_barrier_closed_by_one_stops_the_others),
    check!(barriers::a_double_barrier_gathers_three_languages),
    check!(counters::curator_atomic_long_and_ours_count_together),
    check!(counters::kazoo_counter_and_curators_integer_and_ours_count_together),
    check!(counters::a_shared_count_set_by_one_reaches_the_other),
    check!(queues::simple_queue_items_cross_both_ways),
    check!(queues::work_queue_items_cross_both_ways),
    check!(queues::priority_and_delay_and_id_items_cross),
    check!(nodes::a_group_has_members_of_both_languages),
    check!(nodes::services_are_seen_by_both_languages),
    check!(zookeeper::write_lock_and_lock_take_turns),
    check!(zookeeper::a_dead_holder_loses_the_lock_in_both_directions),
    check!(zookeeper::write_locks_and_locks_never_hold_together),
    check!(zookeeper::a_write_lock_waits_for_our_readers),
    check!(zookeeper::election_support_and_we_lead_in_turn),
    check!(zookeeper::one_leads_at_a_time_with_election_support),
    check!(zookeeper::distributed_queue_items_cross_both_ways),
    check!(zookeeper::no_item_of_a_distributed_queue_is_lost_or_doubled),
];

/// Polls until a condition holds; the time limit of the check ends it otherwise.
pub async fn until(mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    while !is_so().await? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Reads and writes without a version: only mutual exclusion prevents lost additions.
pub async fn add_one(zk: &Client, counter: &str) -> Result<()> {
    zk.sync(counter).await?;
    let node = zk.get(counter).await?;
    let number: usize = std::str::from_utf8(&node.data)?.parse()?;
    zk.set(counter, (number + 1).to_string()).await?;
    Ok(())
}
