//! Ids, made in four ways, from the most to the least talk with the servers:
//!
//! | | an id costs | unique | in order | |
//! |---|---|---|---|---|
//! | [`SequentialIds`] | two round trips, one of them unseen | yes | over all processes | 2³¹ of them |
//! | [`SegmentedIds`] | a round trip for a block | yes | within one process | gaps |
//! | [`SnowflakeIds`] | one every few seconds | yes | by time, roughly | needs clocks |
//! | [`RandomUuids`], [`TimeOrderedUuids`] | none | as good as | none, or by time | 128 bits |
//!
//! All are [`IdGenerator`]s, so that one can take the place of another. The arithmetic of each is in
//! a place of its own, without round trips: [`crate::sequence`], [`segment`], [`crate::snowflake`].

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

/// Makes ids that nobody else makes.
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
    /// What an id is: `u64`, or [`Uuid`].
    type Id: Copy + Debug + Display + Eq + Hash + Ord + Send + 'static;

    /// The next id. Dropping the future may waste an id and never repeats one.
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

/// A random id (UUID version 4): says nothing about when or where it was made.
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

/// An id that sorts by time (UUID version 7), so that an index keeps new rows together. Each is
/// greater than all that this process made before it, even within a millisecond and even if the
/// clock went back; between processes the order is as good as their clocks.
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
