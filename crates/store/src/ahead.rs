//! Read-ahead: work that precedes the use of data (checksums, decoding, digests) is done on another
//! thread, while the calling thread uses what was read before.
//!
//! In: a function that fills batches, and one that takes them. Out: what the first one returns. Batches
//! arrive in the order in which they were passed on, all of them unless the consumer stops, so the
//! result does not depend on how the threads are scheduled. Both functions run in one call: when it
//! returns, the thread has ended. So the store still owns no thread.
//!
//! Memory is bounded: at most two batches wait besides the one that is being filled and the one that
//! is being consumed, and batches are reused. Files that are
//! too small to be worth a thread are read on the calling one, by the same functions; so is everything that the
//! simulator reads.

use std::ops::ControlFlow;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

/// Batches that may wait; besides them one is being filled and one is being consumed.
const WAITING_MAX: usize = 2;
/// Smaller files are read on the calling thread.
const WORTH_A_THREAD_BYTES: u64 = 1 << 20;

/// The thread on which batches are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillThread {
    /// The calling thread, in turns with consuming them.
    Here,
    /// Another thread, ahead of the one that consumes them.
    Thread,
}

impl FillThread {
    /// The thread to use for files of this many bytes.
    pub(crate) fn for_bytes(bytes: u64) -> Self {
        if bytes < WORTH_A_THREAD_BYTES { FillThread::Here } else { FillThread::Thread }
    }
}

/// Passes a batch on. Returns another one, which may have been used and must be cleared, or `None`
/// if no more are wanted.
pub(crate) type PassBatch<'a, B> = dyn FnMut(B) -> Option<B> + 'a;

/// Runs `fill`, which passes on batches, and `take`, which consumes them, until `fill` returns or `take` stops.
pub(crate) fn read_ahead<B: Default + Send, T: Send>(
    place: FillThread,
    fill: &mut (impl FnMut(&mut PassBatch<'_, B>) -> T + Send),
    take: &mut impl FnMut(&B) -> ControlFlow<()>,
) -> T {
    let on_thread = match place {
        FillThread::Thread => fill_on_thread(fill, take),
        FillThread::Here => None,
    };
    // Without a second thread it only takes longer.
    on_thread.unwrap_or_else(|| fill(&mut |batch| take(&batch).is_continue().then_some(batch)))
}

/// `None` if no thread could be started.
fn fill_on_thread<B: Default + Send, T: Send>(
    fill: &mut (impl FnMut(&mut PassBatch<'_, B>) -> T + Send),
    take: &mut impl FnMut(&B) -> ControlFlow<()>,
) -> Option<T> {
    thread::scope(|scope| {
        let (filled, to_take) = sync_channel::<B>(WAITING_MAX);
        let (taken, to_fill) = channel();
        let filler =
            thread::Builder::new().name("read-ahead".to_owned()).spawn_scoped(scope, move || {
                fill(&mut |batch| {
                    filled.send(batch).ok()?;
                    Some(to_fill.try_recv().unwrap_or_default())
                })
            });
        let filler = filler.ok()?;
        for batch in &to_take {
            if take(&batch).is_break() {
                break;
            }
            // The filler may have passed on its last one.
            _ = taken.send(batch);
        }
        // Wakes a filler that waits for room: there will be none.
        drop(to_take);
        Some(filler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in batches of three, until no more are wanted. Returns how many were passed on.
    fn count_to(last: u32) -> impl FnMut(&mut PassBatch<'_, Vec<u32>>) -> u32 + Send {
        move |hand_on| {
            let mut batch = Vec::new();
            for number in 1..=last {
                batch.push(number);
                if batch.len() == 3 || number == last {
                    match hand_on(batch) {
                        Some(used) => batch = used,
                        None => return number,
                    }
                    batch.clear();
                }
            }
            last
        }
    }

    #[test]
    fn all_batches_arrive_in_order() {
        for place in [FillThread::Here, FillThread::Thread] {
            let mut taken = Vec::new();
            let counted = read_ahead(place, &mut count_to(1000), &mut |batch: &Vec<u32>| {
                taken.extend_from_slice(batch);
                ControlFlow::Continue(())
            });
            assert_eq!(counted, 1000, "{place:?}");
            assert_eq!(taken, (1..=1000).collect::<Vec<_>>(), "{place:?}");
        }
    }

    #[test]
    fn a_taker_that_breaks_off_stops_the_filler() {
        for place in [FillThread::Here, FillThread::Thread] {
            let mut batches = 0;
            let counted = read_ahead(place, &mut count_to(100_000), &mut |_: &Vec<u32>| {
                batches += 1;
                if batches == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(batches, 5, "{place:?}");
            assert!(
                (15..=15 + 3 * (WAITING_MAX as u32 + 2)).contains(&counted),
                "{place:?}: {counted}"
            );
        }
    }
}
