//! Snowflake ids: 64 bits that grow with time and need no round trip.
//!
//! In: a worker id that is not used elsewhere at the same time, and the clock's milliseconds at each call. Out: ids,
//! or a reason why none can be issued now. Deliberately not here: reading a clock, sleeping, and how a worker id is
//! leased from the tree.
//!
//! ```text
//!  63  62                                        22 21        12 11            0
//! ┌───┬────────────────────────────────────────────┬────────────┬──────────────┐
//! │ 0 │ 41 bits: milliseconds since the epoch      │ 10: worker │ 12: sequence │
//! └───┴────────────────────────────────────────────┴────────────┴──────────────┘
//! ```
//! The layout is Twitter's, so the top bit is 0 and an id is positive as a signed 64-bit integer.
//! 41 bits last 69 years from the epoch, and a worker issues at most 4,096 ids in a millisecond.
//!
//! Invariant: each id is greater than the one before it, whatever the clock does. A generator remembers this only
//! while it lives: after a restart under the same worker id, pass the time of the last id to
//! [`Snowflake::resume_after`].

use std::time::Duration;

const WORKER_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
const TIME_SHIFT: u32 = WORKER_BITS + SEQUENCE_BITS;
const SEQUENCE_MAX: u16 = (1 << SEQUENCE_BITS) - 1;

/// The largest worker id.
pub const WORKER_ID_MAX: u16 = (1 << WORKER_BITS) - 1;

/// The last millisecond after the epoch for which there are ids.
pub const ELAPSED_MS_MAX: u64 = (1 << 41) - 1;

/// How far a clock may step back for the caller to be asked to wait. NTP's slewing and leap-second steps of virtual
/// machines are of this size; a longer wait should be noticed by the caller.
pub const STEP_BACK_MS_MAX: u64 = 10;

/// Generates ids for one worker.
///
/// ```
/// use herdsman_recipes::snowflake::Snowflake;
///
/// let epoch_ms = 1_735_689_600_000; // 2025-01-01
/// let mut ids = Snowflake::new(7, epoch_ms)?;
/// let first = ids.next(epoch_ms + 1_000)?;
/// let second = ids.next(epoch_ms + 1_000)?;
/// assert!(first < second);
///
/// let parts = Snowflake::decompose(second, epoch_ms).unwrap();
/// assert_eq!((parts.unix_ms, parts.worker_id, parts.sequence), (epoch_ms + 1_000, 7, 1));
/// # Ok::<(), herdsman_recipes::snowflake::SnowflakeError>(())
/// ```
#[derive(Debug)]
pub struct Snowflake {
    worker_id: u16,
    epoch_ms: u64,
    last: Option<Last>,
}

/// The components of the latest id.
#[derive(Clone, Copy, Debug)]
struct Last {
    unix_ms: u64,
    sequence: u16,
}

/// The components of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnowflakeParts {
    /// When it was generated, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The worker that generated it.
    pub worker_id: u16,
    /// How many ids the worker had generated before it in the same millisecond.
    pub sequence: u16,
}

/// Why there is no id. The generator is unchanged: the call may be repeated, and [`retry_after`](Self::retry_after)
/// returns when that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnowflakeError {
    /// The worker id does not fit in its 10 bits.
    #[error("worker id {worker_id} is greater than {WORKER_ID_MAX}")]
    WorkerIdOutOfRange {
        /// The requested id.
        worker_id: u16,
    },
    /// All 4,096 ids of this millisecond have been issued.
    #[error(
        "all ids of this millisecond have been issued; the next one is available in {wait_ms} ms"
    )]
    SequenceExhausted {
        /// How long to wait.
        wait_ms: u64,
    },
    /// The clock went back by no more than [`STEP_BACK_MS_MAX`].
    #[error("the clock went back a little; the next id is available in {wait_ms} ms")]
    ClockBehind {
        /// How long to wait.
        wait_ms: u64,
    },
    /// The clock went back by more than a caller should wait for. An operator has to check it.
    #[error("the clock went back by {by_ms} ms since the last id")]
    ClockWentBack {
        /// How far.
        by_ms: u64,
    },
    /// The clock shows a time before the epoch: one of the two is wrong.
    #[error("the clock is {by_ms} ms before the epoch of the ids")]
    BeforeEpoch {
        /// How far.
        by_ms: u64,
    },
    /// 69 years have passed since the epoch.
    #[error("the time is {by_ms} ms past the last one for which there are ids")]
    EpochExhausted {
        /// How far.
        by_ms: u64,
    },
}

impl SnowflakeError {
    /// Returns how long to wait before the same call succeeds, if waiting is reasonable.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::SequenceExhausted { wait_ms } | Self::ClockBehind { wait_ms } => {
                Some(Duration::from_millis(*wait_ms))
            }
            _ => None,
        }
    }
}

impl Snowflake {
    /// Creates a generator for `worker_id`, counting time from `epoch_ms` (milliseconds since 1970). All workers, and
    /// all programs that decompose ids, must use the same epoch.
    ///
    /// # Errors
    /// If the worker id is greater than [`WORKER_ID_MAX`].
    pub fn new(worker_id: u16, epoch_ms: u64) -> Result<Self, SnowflakeError> {
        if worker_id > WORKER_ID_MAX {
            return Err(SnowflakeError::WorkerIdOutOfRange { worker_id });
        }
        Ok(Self { worker_id, epoch_ms, last: None })
    }

    /// Guarantees that no id will be issued for `unix_ms` or any time before it. Use this for a worker id that was
    /// used before: the clock may have gone back in between.
    #[must_use]
    pub fn resume_after(mut self, unix_ms: u64) -> Self {
        if self.last.is_none_or(|last| last.unix_ms <= unix_ms) {
            self.last = Some(Last { unix_ms, sequence: SEQUENCE_MAX });
        }
        self
    }

    /// Returns the next id, given the current time in milliseconds since 1970.
    ///
    /// # Errors
    /// If the ids of this millisecond are used up, or the clock cannot be relied on.
    pub fn next(&mut self, now_ms: u64) -> Result<u64, SnowflakeError> {
        let elapsed_ms = self.elapsed_ms(now_ms)?;
        let sequence = self.next_sequence(now_ms)?;
        self.last = Some(Last { unix_ms: now_ms, sequence });
        Ok(elapsed_ms << TIME_SHIFT
            | u64::from(self.worker_id) << SEQUENCE_BITS
            | u64::from(sequence))
    }

    /// Returns the time of the latest id, in milliseconds since 1970: the argument for
    /// [`resume_after`](Self::resume_after).
    #[must_use]
    pub fn last_ms(&self) -> Option<u64> {
        self.last.map(|last| last.unix_ms)
    }

    /// Decomposes an id. `None` if its top bit is set, which never occurs in generated ids.
    #[must_use]
    pub fn decompose(id: u64, epoch_ms: u64) -> Option<SnowflakeParts> {
        let elapsed_ms = id >> TIME_SHIFT;
        (elapsed_ms <= ELAPSED_MS_MAX).then(|| SnowflakeParts {
            unix_ms: epoch_ms.saturating_add(elapsed_ms),
            worker_id: (id >> SEQUENCE_BITS) as u16 & WORKER_ID_MAX,
            sequence: id as u16 & SEQUENCE_MAX,
        })
    }

    fn elapsed_ms(&self, now_ms: u64) -> Result<u64, SnowflakeError> {
        let Some(elapsed_ms) = now_ms.checked_sub(self.epoch_ms) else {
            return Err(SnowflakeError::BeforeEpoch { by_ms: self.epoch_ms - now_ms });
        };
        match elapsed_ms.checked_sub(ELAPSED_MS_MAX) {
            None | Some(0) => Ok(elapsed_ms),
            Some(by_ms) => Err(SnowflakeError::EpochExhausted { by_ms }),
        }
    }

    fn next_sequence(&self, now_ms: u64) -> Result<u16, SnowflakeError> {
        let Some(last) = self.last.filter(|last| last.unix_ms >= now_ms) else {
            return Ok(0);
        };
        match last.unix_ms - now_ms {
            0 if last.sequence < SEQUENCE_MAX => Ok(last.sequence + 1),
            0 => Err(SnowflakeError::SequenceExhausted { wait_ms: 1 }),
            by_ms if by_ms <= STEP_BACK_MS_MAX => {
                // The last millisecond may be used up, so wait until it has passed.
                let used_up = last.sequence == SEQUENCE_MAX;
                Err(SnowflakeError::ClockBehind { wait_ms: by_ms + u64::from(used_up) })
            }
            by_ms => Err(SnowflakeError::ClockWentBack { by_ms }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EPOCH_MS: u64 = 1_735_689_600_000;
    const NOW_MS: u64 = EPOCH_MS + 1_000_000;

    fn ids(worker_id: u16) -> Snowflake {
        Snowflake::new(worker_id, EPOCH_MS).unwrap()
    }

    #[test]
    fn the_parts_are_where_the_diagram_shows() {
        let mut ids = ids(5);
        assert_eq!(ids.next(EPOCH_MS + 3), Ok(3 << 22 | 5 << 12));
        assert_eq!(ids.next(EPOCH_MS + 3), Ok(3 << 22 | 5 << 12 | 1));
        assert_eq!(ids.next(EPOCH_MS + 4), Ok(4 << 22 | 5 << 12));
        assert_eq!(ids.last_ms(), Some(EPOCH_MS + 4));
    }

    #[test]
    fn the_largest_id_is_positive_as_a_signed_integer() {
        let mut ids = ids(WORKER_ID_MAX).resume_after(EPOCH_MS + ELAPSED_MS_MAX - 1);
        let last = (0..=SEQUENCE_MAX).map(|_| ids.next(EPOCH_MS + ELAPSED_MS_MAX).unwrap()).last();
        assert_eq!(last, Some(i64::MAX as u64));
        let parts = Snowflake::decompose(i64::MAX as u64, EPOCH_MS).unwrap();
        assert_eq!(parts.unix_ms, EPOCH_MS + ELAPSED_MS_MAX);
        assert_eq!((parts.worker_id, parts.sequence), (WORKER_ID_MAX, SEQUENCE_MAX));
        assert_eq!(Snowflake::decompose(1 << 63, EPOCH_MS), None);
    }

    #[test]
    fn worker_ids_have_ten_bits() {
        assert!(Snowflake::new(WORKER_ID_MAX, 0).is_ok());
        let error = Snowflake::new(1024, 0).unwrap_err();
        assert_eq!(error, SnowflakeError::WorkerIdOutOfRange { worker_id: 1024 });
        assert_eq!(error.to_string(), "worker id 1024 is greater than 1023");
        assert_eq!(error.retry_after(), None);
    }

    #[test]
    fn a_millisecond_has_4096_ids() {
        let mut ids = ids(1);
        assert_eq!((0..5000).filter(|_| ids.next(NOW_MS).is_ok()).count(), 4096);
        let error = ids.next(NOW_MS).unwrap_err();
        assert_eq!(error, SnowflakeError::SequenceExhausted { wait_ms: 1 });
        let wait_ms = error.retry_after().unwrap().as_millis() as u64;
        assert!(ids.next(NOW_MS + wait_ms).is_ok());
    }

    #[test]
    fn a_small_step_back_asks_to_wait_just_long_enough() {
        for ids_before in [1, 4096] {
            let mut ids = ids(1);
            let last = (0..ids_before).map(|_| ids.next(NOW_MS).unwrap()).last().unwrap();
            let now_ms = NOW_MS - STEP_BACK_MS_MAX;
            let error = ids.next(now_ms).unwrap_err();
            assert!(matches!(error, SnowflakeError::ClockBehind { .. }), "{error:?}");
            let wait_ms = error.retry_after().unwrap().as_millis() as u64;
            assert!(ids.next(now_ms + wait_ms - 1).is_err());
            assert!(ids.next(now_ms + wait_ms).unwrap() > last);
        }
    }

    #[test]
    fn a_large_step_back_is_an_error_with_its_distance() {
        let mut ids = ids(1);
        ids.next(NOW_MS).unwrap();
        let error = ids.next(NOW_MS - 60_000).unwrap_err();
        assert_eq!(error, SnowflakeError::ClockWentBack { by_ms: 60_000 });
        assert_eq!(error.retry_after(), None);
        assert!(ids.next(NOW_MS).is_ok(), "an error changes nothing");
    }

    #[test]
    fn times_outside_the_41_bits_are_errors() {
        let mut ids = ids(1);
        assert_eq!(ids.next(EPOCH_MS - 2), Err(SnowflakeError::BeforeEpoch { by_ms: 2 }));
        let over = EPOCH_MS + ELAPSED_MS_MAX + 3;
        assert_eq!(ids.next(over), Err(SnowflakeError::EpochExhausted { by_ms: 3 }));
        assert!(ids.next(NOW_MS).is_ok());
    }

    #[test]
    fn a_resumed_worker_repeats_no_earlier_id() {
        let mut ids = ids(1).resume_after(NOW_MS);
        assert_eq!(ids.next(NOW_MS), Err(SnowflakeError::SequenceExhausted { wait_ms: 1 }));
        assert!(ids.next(NOW_MS + 1).is_ok());
        let mut ids = ids.resume_after(NOW_MS - 50);
        assert!(ids.next(NOW_MS).is_err(), "an older time has no effect");
    }

    proptest! {
        #[test]
        fn ids_strictly_increase_whatever_the_clock_does(
            clock in prop::collection::vec(
                prop_oneof![
                    4 => NOW_MS..NOW_MS + 5,
                    2 => NOW_MS - 30..NOW_MS + 30,
                    1 => any::<u64>(),
                ],
                1..300,
            ),
            burst in 1..5000_usize,
        ) {
            let mut ids = ids(9);
            let mut last = None;
            for (index, now_ms) in clock.into_iter().enumerate() {
                for _ in 0..if index == 0 { burst } else { 1 } {
                    if let Ok(id) = ids.next(now_ms) {
                        prop_assert!(Some(id) > last);
                        let parts = Snowflake::decompose(id, EPOCH_MS).unwrap();
                        prop_assert_eq!((parts.unix_ms, parts.worker_id), (now_ms, 9));
                        last = Some(id);
                    }
                }
            }
        }
    }
}
