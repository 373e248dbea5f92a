//! Helpers that the tests of all recipes share.

use std::future::Future;
use std::thread::JoinHandle;
use std::time::Duration;

use herdsman_client::Client;
use herdsman_testing::{TestProxy, TestServer};
use tokio::sync::oneshot;

/// Session timeout of the tests' clients: short, so that a lost connection soon becomes a lost session.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// Returns a connected client of the server.
pub async fn client(server: &TestServer) -> Client {
    client_of(&server.connect_string()).await
}

/// Returns a connected client behind the proxy.
pub async fn client_behind(proxy: &TestProxy) -> Client {
    client_of(&proxy.connect_string()).await
}

/// Returns a connected client of these servers.
pub async fn client_of(servers: &str) -> Client {
    let options = Client::options().session_timeout(SESSION_TIMEOUT);
    within(options.connect(servers)).await.expect("the server answers")
}

/// Returns the future's output. The timeout only keeps a broken test from hanging; nothing is measured.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it happens in time")
}

/// Waits until a condition holds that cannot be awaited.
pub async fn eventually(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A future that runs on another thread, so that it continues while the test blocks its own.
pub struct Elsewhere {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Runs this on another thread.
pub fn run_elsewhere(future: impl Future + Send + 'static) -> Elsewhere {
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                _ = future => {}
                _ = stopped => {}
            }
        });
    });
    Elsewhere { stop, thread }
}

impl Elsewhere {
    pub fn stop(self) {
        // Fails if it has ended by itself.
        let _ = self.stop.send(());
        self.thread.join().unwrap();
    }
}
