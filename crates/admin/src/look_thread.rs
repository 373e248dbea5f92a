//! A thread that looks something up for all who ask: health, metrics, TLS files.
//!
//! In: requests. Out: one result for all that asked before a look began. So any number of clients, also those that have
//! left meanwhile, cost one look at a time, and none waits for threads that other work may occupy.

use std::io;
use std::sync::mpsc;

use tokio::sync::oneshot;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LookThread<T>(mpsc::Sender<oneshot::Sender<T>>);

impl<T: Clone + Send + 'static> LookThread<T> {
    pub(crate) fn start(name: &str, look: impl Fn() -> T + Send + 'static) -> io::Result<Self> {
        let (sender, asked) = mpsc::channel::<oneshot::Sender<T>>();
        let work = move || {
            while let Ok(first) = asked.recv() {
                // All that have asked before the look begins may have its result.
                let all: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
                let found = look();
                for one in all {
                    _ = one.send(found.clone());
                }
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(LookThread(sender))
    }

    /// The result of a look that begins after this call; `None` if the thread has ended.
    pub(crate) async fn look(&self) -> Option<T> {
        let (sender, found) = oneshot::channel();
        self.0.send(sender).ok()?;
        found.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    /// Requests whose clients had left used to be looked up one after the other.
    #[tokio::test]
    async fn requests_that_wait_share_one_look() {
        let looks = Arc::new(AtomicUsize::new(0));
        let (go, gate) = mpsc::channel::<()>();
        let counted = Arc::clone(&looks);
        let thread = LookThread::start("test", move || {
            gate.recv().unwrap();
            counted.fetch_add(1, Ordering::Relaxed) + 1
        });
        let thread = thread.unwrap();
        let mut first = Box::pin(thread.look());
        assert!(futures_util::poll!(&mut first).is_pending());
        for _ in 0..600 {
            // Asked, and left.
            assert!(futures_util::poll!(Box::pin(thread.look())).is_pending());
        }
        let waiting = join_all((0..10).map(|_| thread.look()));
        go.send(()).unwrap();
        go.send(()).unwrap();
        let (_, answers) = tokio::join!(first, waiting);
        assert!(answers.iter().all(Option::is_some));
        assert!(looks.load(Ordering::Relaxed) <= 2);
    }
}
