//! A thread that computes a result for all waiting requests: health, metrics, TLS files.
//!
//! In: requests. Out: one result for all requests that arrived before a run began. So any number of clients, including
//! those that have left meanwhile, cost one run at a time, and none waits for threads that other work may block.

use std::io;
use std::sync::mpsc;

use tokio::sync::oneshot;

/// A handle to the thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SharedResultThread<T>(mpsc::Sender<oneshot::Sender<T>>);

impl<T: Clone + Send + 'static> SharedResultThread<T> {
    pub(crate) fn start(name: &str, run: impl Fn() -> T + Send + 'static) -> io::Result<Self> {
        let (sender, requests) = mpsc::channel::<oneshot::Sender<T>>();
        let work = move || {
            while let Ok(first) = requests.recv() {
                // All requests that arrived before the run begins share its result.
                let all: Vec<_> = std::iter::once(first).chain(requests.try_iter()).collect();
                let result = run();
                for one in all {
                    _ = one.send(result.clone());
                }
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(SharedResultThread(sender))
    }

    /// The result of a run that begins after this call; `None` if the thread has ended.
    pub(crate) async fn result(&self) -> Option<T> {
        let (sender, result) = oneshot::channel();
        self.0.send(sender).ok()?;
        result.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    /// Requests whose clients had disconnected used to be processed in sequence.
    #[tokio::test]
    async fn requests_that_wait_share_one_run() {
        let looks = Arc::new(AtomicUsize::new(0));
        let (go, gate) = mpsc::channel::<()>();
        let counted = Arc::clone(&looks);
        let thread = SharedResultThread::start("test", move || {
            gate.recv().unwrap();
            counted.fetch_add(1, Ordering::Relaxed) + 1
        });
        let thread = thread.unwrap();
        let mut first = Box::pin(thread.result());
        assert!(futures_util::poll!(&mut first).is_pending());
        for _ in 0..600 {
            // The client has sent its request and left.
            assert!(futures_util::poll!(Box::pin(thread.result())).is_pending());
        }
        let waiting = join_all((0..10).map(|_| thread.result()));
        go.send(()).unwrap();
        go.send(()).unwrap();
        let (_, answers) = tokio::join!(first, waiting);
        assert!(answers.iter().all(Option::is_some));
        assert!(looks.load(Ordering::Relaxed) <= 2);
    }
}
