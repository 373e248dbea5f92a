//! Ids, generated in four ways, in the order of their communication with the servers, the most first:
//!
//! | | cost of an id | unique | in order | |
//! |---|---|---|---|---|
//! | [`SequentialIds`] | two round trips, one of them in the background | yes | over all processes | 2³¹ of them |
//! | [`SegmentedIds`] | a round trip for a block | yes | within one process | gaps |
//! | [`SnowflakeIds`] | a round trip every few seconds | yes | by time, roughly | needs clocks |
//! | [`RandomUuids`], [`TimeOrderedUuids`] | none | practically | none, or by time | 128 bits |
//!
//! All are [`IdGenerator`]s, so that one can replace another. The arithmetic of each is in a separate module, without
//! round trips: [`crate::sequence`], [`segment`], [`crate::snowflake`].

use std::fmt::{Debug, Display};
use std::hash::Hash;

use crate::error::Result;

pub mod segment;
mod segmented;
mod sequential;
mod snowflakes;

pub use segment::{Segment, SegmentError, SegmentPair};
pub use segmented::SegmentedIds;
pub use sequential::SequentialIds;
pub use snowflakes::SnowflakeIds;
pub use uuid::Uuid;

/// Generates unique ids.
///
/// ```
/// use herdsman_recipes::ids::{IdGenerator, TimeOrderedUuids};
///
/// async fn label(ids: &impl IdGenerator) -> herdsman_recipes::Result<String> {
///     Ok(format!("order-{}", ids.next().await?))
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_ne!(label(&TimeOrderedUuids).await?, label(&TimeOrderedUuids).await?);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
pub trait IdGenerator: Send + Sync {
    /// The type of an id: `u64`, or [`Uuid`].
    type Id: Copy + Debug + Display + Eq + Hash + Ord + Send + 'static;

    /// Returns the next id. Dropping the future may waste an id and never repeats one.
    fn next(&self) -> impl Future<Output = Result<Self::Id>> + Send;
}

/// [`random_uuid`] as an [`IdGenerator`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomUuids;

impl IdGenerator for RandomUuids {
    type Id = Uuid;

    async fn next(&self) -> Result<Uuid> {
        Ok(random_uuid())
    }
}

/// [`time_ordered_uuid`] as an [`IdGenerator`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeOrderedUuids;

impl IdGenerator for TimeOrderedUuids {
    type Id = Uuid;

    async fn next(&self) -> Result<Uuid> {
        Ok(time_ordered_uuid())
    }
}

/// Generates a random id (UUID version 4), which does not reveal when or where it was generated.
///
/// ```
/// use herdsman_recipes::ids::random_uuid;
///
/// assert_ne!(random_uuid(), random_uuid());
/// ```
#[must_use]
pub fn random_uuid() -> Uuid {
    Uuid::new_v4()
}

/// Generates an id that sorts by time (UUID version 7), so that an index keeps new rows together. Each is greater
/// than all that this process generated before it, even within a millisecond and even if the clock went back; between
/// processes the order is as good as their clocks.
///
/// ```
/// use herdsman_recipes::ids::time_ordered_uuid;
///
/// let (first, second) = (time_ordered_uuid(), time_ordered_uuid());
/// assert!(first < second);
/// ```
#[must_use]
pub fn time_ordered_uuid() -> Uuid {
    Uuid::now_v7()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn random_uuids_are_of_version_4_and_differ() {
        let ids: BTreeSet<_> = (0..1000).map(|_| random_uuid()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
    }

    #[test]
    fn time_ordered_uuids_strictly_increase() {
        let ids: Vec<_> = (0..10_000).map(|_| time_ordered_uuid()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn time_ordered_uuids_of_several_threads_are_distinct() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..1000).map(|_| time_ordered_uuid()).collect()))
            .collect();
        let ids: Vec<Vec<Uuid>> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(ids.iter().all(|ids| ids.windows(2).all(|pair| pair[0] < pair[1])));
        assert_eq!(ids.iter().flatten().collect::<BTreeSet<_>>().len(), 4000);
    }
}
