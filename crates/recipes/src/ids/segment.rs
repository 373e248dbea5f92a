//! Blocks of ids, issued one by one.
//!
//! In: the ends of blocks that were reserved by adding to a shared counter, one round trip for each block (as
//! Alibaba's TDDL does with a database row). Out: ids that never repeat, and when the next block should be fetched.
//! Deliberately not here: the counter and the round trip.
//!
//! A process that dies loses the rest of its blocks, so ids have gaps. Blocks of several
//! processes interleave: ids are unique, and they increase within one process only.

use std::num::NonZeroU64;

/// The largest value of a shared counter: Curator stores it as a signed 64-bit integer.
pub const COUNTER_MAX: u64 = i64::MAX as u64;

/// A block of ids: from `next` up to, but not including, `end`.
///
/// ```
/// use herdsman_recipes::ids::Segment;
///
/// let size = 1000.try_into()?;
/// let mut ids = Segment::from_counter(5000, size)?; // the counter was 5000
/// assert_eq!(ids.end(), 6000); // the new value of the counter
/// assert_eq!((ids.take(), ids.take()), (Some(5000), Some(5001)));
/// assert_eq!(ids.remaining(), 998);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    next: u64,
    end: u64,
    size: u64,
}

/// Why a block is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The block would end after [`COUNTER_MAX`]: the counter is used up.
    #[error("no block of {size} ids fits between {counter} and the largest id {COUNTER_MAX}")]
    Overflow {
        /// The value of the counter.
        counter: u64,
        /// How many ids were requested.
        size: u64,
    },
    /// The block does not come after the one in use, so it would repeat ids. The counter was reset.
    #[error("the block begins at {begin}, but ids up to {end} are taken")]
    WentBack {
        /// The first id of the new block.
        begin: u64,
        /// The end of the block in use.
        end: u64,
    },
    /// There are two blocks already.
    #[error("there is a next block already")]
    Full,
}

impl Segment {
    /// Returns the block of `size` ids that begins at the value of a shared counter. The client that changes the
    /// counter from `counter` to [`end`](Self::end), with no other change in between, owns it.
    ///
    /// # Errors
    /// If it would end after [`COUNTER_MAX`].
    pub fn from_counter(counter: u64, size: NonZeroU64) -> Result<Self, SegmentError> {
        let size = size.get();
        match counter.checked_add(size).filter(|end| *end <= COUNTER_MAX) {
            Some(end) => Ok(Self { next: counter, end, size }),
            None => Err(SegmentError::Overflow { counter, size }),
        }
    }

    /// Returns the next id, or `None` if all are taken.
    pub fn take(&mut self) -> Option<u64> {
        let id = self.next;
        (id < self.end).then(|| {
            self.next += 1;
            id
        })
    }

    /// Returns the first number after the block: the new value of the counter.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns how many ids are left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// Returns how many ids there were at first.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The block in use and, once it was fetched, the one after it, so that no caller waits for a round trip as long as
/// the next block arrives before the rest of the current one is used up.
///
/// ```
/// use herdsman_recipes::ids::{Segment, SegmentPair};
///
/// let size = 4.try_into()?;
/// let mut ids = SegmentPair::default();
/// assert!(ids.wants_next());
/// ids.offer(Segment::from_counter(0, size)?)?;
/// while !ids.wants_next() {
///     ids.take();
/// }
/// ids.offer(Segment::from_counter(8, size)?)?; // another process took 4 to 7
/// let rest: Vec<u64> = std::iter::from_fn(|| ids.take()).collect();
/// assert_eq!(rest, [3, 8, 9, 10, 11]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct SegmentPair {
    current: Option<Segment>,
    next: Option<Segment>,
}

impl SegmentPair {
    /// The fraction of a block (one in this many) that is left when the next one should be fetched.
    const PREFETCH_PART: u64 = 4;

    /// Returns the next id, or `None` if both blocks are used up or were never offered.
    pub fn take(&mut self) -> Option<u64> {
        loop {
            match self.current.as_mut()?.take() {
                Some(id) => return Some(id),
                // The used-up block stays if there is none after it: `offer` compares with its end.
                None => self.current = Some(self.next.take()?),
            }
        }
    }

    /// Returns whether it is time to fetch a block: there is none in reserve, and no more than a quarter of the
    /// current one is left. Call this after each [`take`](Self::take), and fetch one block at a time.
    #[must_use]
    pub fn wants_next(&self) -> bool {
        self.next.is_none()
            && self
                .current
                .as_ref()
                .is_none_or(|current| current.remaining() <= current.size / Self::PREFETCH_PART)
    }

    /// Adds a block that was fetched.
    ///
    /// # Errors
    /// If it does not come after the current one, or if there is one in reserve. The block is then discarded: its ids
    /// are never issued.
    pub fn offer(&mut self, segment: Segment) -> Result<(), SegmentError> {
        if self.next.is_some() {
            return Err(SegmentError::Full);
        }
        match &self.current {
            None => self.current = Some(segment),
            Some(current) if segment.next >= current.end => self.next = Some(segment),
            Some(current) => {
                return Err(SegmentError::WentBack { begin: segment.next, end: current.end });
            }
        }
        Ok(())
    }

    /// Returns how many ids can be taken without another block.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        [&self.current, &self.next].into_iter().flatten().map(Segment::remaining).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(counter: u64, size: u64) -> Segment {
        Segment::from_counter(counter, size.try_into().unwrap()).unwrap()
    }

    #[test]
    fn a_block_gives_each_of_its_ids_once() {
        let mut block = segment(10, 3);
        let ids: Vec<_> = std::iter::from_fn(|| block.take()).collect();
        assert_eq!(ids, [10, 11, 12]);
        assert_eq!((block.take(), block.remaining(), block.size()), (None, 0, 3));
    }

    #[test]
    fn the_counter_ends_where_a_signed_integer_does() {
        let max = COUNTER_MAX;
        assert_eq!(segment(max - 5, 5).end(), max);
        for (counter, size) in [(max - 5, 6), (max, 1), (0, u64::MAX), (u64::MAX, 1)] {
            let error = Segment::from_counter(counter, size.try_into().unwrap()).unwrap_err();
            assert_eq!(error, SegmentError::Overflow { counter, size });
        }
    }

    #[test]
    fn the_next_block_is_wanted_when_a_quarter_is_left() {
        let mut ids = SegmentPair::default();
        ids.offer(segment(0, 100)).unwrap();
        let taken = (0..).take_while(|_| !ids.wants_next() && ids.take().is_some()).count();
        assert_eq!((taken, ids.remaining()), (75, 25));
        ids.offer(segment(100, 100)).unwrap();
        assert!(!ids.wants_next());
        assert_eq!(ids.remaining(), 125);
    }

    #[test]
    fn a_block_of_one_is_wanted_only_when_it_is_used_up() {
        let mut ids = SegmentPair::default();
        ids.offer(segment(0, 1)).unwrap();
        assert!(!ids.wants_next());
        assert_eq!(ids.take(), Some(0));
        assert!(ids.wants_next());
        assert_eq!(ids.take(), None);
    }

    #[test]
    fn a_reset_counter_is_noticed_even_after_all_is_used_up() {
        let mut ids = SegmentPair::default();
        ids.offer(segment(50, 2)).unwrap();
        while ids.take().is_some() {}
        let error = ids.offer(segment(0, 2)).unwrap_err();
        assert_eq!(error, SegmentError::WentBack { begin: 0, end: 52 });
        assert_eq!(ids.take(), None);
        ids.offer(segment(52, 2)).unwrap();
        assert_eq!(ids.take(), Some(52));
    }

    #[test]
    fn there_is_one_block_in_reserve_and_no_more() {
        let mut ids = SegmentPair::default();
        ids.offer(segment(0, 2)).unwrap();
        ids.offer(segment(2, 2)).unwrap();
        assert_eq!(ids.offer(segment(4, 2)), Err(SegmentError::Full));
        assert_eq!(ids.remaining(), 4);
    }

    proptest! {
        #[test]
        fn ids_strictly_increase_over_any_blocks(
            blocks in prop::collection::vec((0..10_000_u64, 1..50_u64), 1..40),
            takes in 0..60_usize,
        ) {
            let mut ids = SegmentPair::default();
            let mut taken = Vec::new();
            for (counter, size) in blocks {
                // It does not matter here whether the block is rejected: only that no id repeats.
                let _ = ids.offer(segment(counter, size));
                taken.extend((0..takes).map_while(|_| ids.take()));
            }
            prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
