//! `/livez` and `/readyz`: whether the process is healthy, and whether clients should use it.
//!
//! `/livez` fails when only a restart helps: the core cannot be locked within a bound, the thread that
//! makes txns durable has ended, or the disk has failed for good. A server that waits for a quorum is live.
//! `/readyz` fails when clients should use another server: there is no leader, writes are rejected, the
//! server is about to stop.
//!
//! Out: 200 or 503, and JSON: `status`, and the checks that failed; with `?verbose` all of them. The checks
//! run at the time of the request, with the same locks that requests take, on a separate thread: the threads
//! that commands and metrics share may all be blocked, and a probe must be answered even then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use herdsman_node::{Node, ServesAs, StorageState};
use herdsman_server::ServerHandle;
use serde::Serialize;

use crate::shared_result_thread::SharedResultThread;

const LIVEZ: &str = "/livez";
const READYZ: &str = "/readyz";

/// How long a check waits for the core. It works in steps of less than a millisecond.
const CORE_LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The routes of health checks.
///
/// # Errors
/// Fails if the thread cannot be started.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    server: ServerHandle,
) -> io::Result<Router<S>> {
    let checker = Arc::new(SharedResultThread::start("health", move || run_checks(&server))?);
    Ok(Router::new().route(LIVEZ, get(livez)).route(READYZ, get(readyz)).with_state(checker))
}

/// Whether a request for this path is a health check.
pub(crate) fn is_check(path: &str) -> bool {
    path == LIVEZ || path == READYZ
}

async fn livez(checker: State<Arc<Checker>>, query: RawQuery) -> Response {
    answer(checker, query, |found| found.live).await
}

async fn readyz(checker: State<Arc<Checker>>, query: RawQuery) -> Response {
    answer(checker, query, |found| [found.live, found.ready].concat()).await
}

/// The thread that checks the server.
type Checker = SharedResultThread<Checks>;

/// The results of the checks.
#[derive(Clone)]
struct Checks {
    live: Vec<Check>,
    /// Additional checks for readiness.
    ready: Vec<Check>,
}

fn thread_has_ended() -> Checks {
    let problem = Some("the thread of the health checks has ended");
    Checks { live: vec![check("admin", problem)], ready: Vec::new() }
}

/// The result of one check.
#[derive(Clone, Copy, Debug, Serialize)]
struct Check {
    check: &'static str,
    /// What is wrong; `None` if the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Check>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    passed: Vec<Check>,
}

async fn answer(
    State(checker): State<Arc<Checker>>,
    RawQuery(query): RawQuery,
    wanted: fn(Checks) -> Vec<Check>,
) -> Response {
    let checks = wanted(checker.result().await.unwrap_or_else(thread_has_ended));
    let (failed, passed): (Vec<_>, Vec<_>) =
        checks.into_iter().partition(|check| check.problem.is_some());
    let is_verbose =
        query.is_some_and(|query| query.split('&').any(|word| word.starts_with("verbose")));
    let passed = if is_verbose { passed } else { Vec::new() };
    let (status, word) = if failed.is_empty() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failing")
    };
    let health = Health { status: word, failed, passed };
    (status, [(CACHE_CONTROL, "no-store")], Json(health)).into_response()
}

fn check(check: &'static str, problem: Option<&'static str>) -> Check {
    Check { check, problem }
}

/// The state of the node.
#[derive(Clone, Copy)]
struct NodeState {
    serves_as: Option<ServesAs>,
    serves_clients: bool,
    storage: StorageState,
}

fn node_state(server: &ServerHandle) -> Option<NodeState> {
    server.core().try_with_node(CORE_LOCK_TIMEOUT, |node: &Node| NodeState {
        serves_as: node.serves_as(),
        serves_clients: node.serves_clients(),
        storage: node.storage(),
    })
}

fn run_checks(server: &ServerHandle) -> Checks {
    let node = node_state(server);
    let live = live_checks(server, node.as_ref());
    Checks { live, ready: ready_checks(server, node.as_ref()) }
}

fn live_checks(server: &ServerHandle, node: Option<&NodeState>) -> Vec<Check> {
    let stuck = node.is_none().then_some("the core cannot be locked: the server hangs");
    // In an orderly stop, the thread ends before the process.
    let is_committer_running = server.core().is_committer_running() || server.is_stopping();
    let unattended = (!is_committer_running).then_some("the thread that writes the log has ended");
    let broken = node.is_some_and(|node| node.storage == StorageState::Failed);
    let broken = broken.then_some("the disk has failed: check it, then restart the server");
    vec![check("core", stuck), check("log", unattended), check("storage", broken)]
}

fn ready_checks(server: &ServerHandle, node: Option<&NodeState>) -> Vec<Check> {
    let stopping = server.is_stopping().then_some("the server is stopping");
    let mut checks = vec![check("running", stopping)];
    let Some(&NodeState { serves_as, serves_clients, storage }) = node else {
        return checks;
    };
    let leaderless = match serves_as {
        None => Some("there is no leader"),
        Some(ServesAs::ReadOnly) => Some("there is no leader: read-only"),
        Some(_) => None,
    };
    checks.push(check("leader", leaderless));
    let closed = leaderless.is_none() && !serves_clients;
    checks.push(check(
        "clients",
        closed.then_some("this leader does not accept clients (leaderServes=no)"),
    ));
    let full = storage == StorageState::Full;
    checks.push(check("writes", full.then_some("the disk is full: writes are rejected")));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use axum::body::Body;
    use axum::http::Request;
    use herdsman_testing::TestServer;
    use tower_service::Service;

    /// Commands, metrics and TLS files use these threads.
    #[test]
    fn a_probe_does_not_wait_for_blocked_threads() {
        let server = TestServer::start();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let mut routes: Router = routes(server.handle()).unwrap();
        runtime.block_on(async {
            tokio::task::spawn_blocking(move || ended.recv());
            for path in [LIVEZ, READYZ] {
                let probe = Request::get(path).body(Body::empty()).unwrap();
                let answering = routes.call(probe);
                let answered = tokio::time::timeout(Duration::from_secs(60), answering).await;
                assert_eq!(answered.expect("an answer").unwrap().status(), StatusCode::OK);
            }
        });
        drop(end);
    }
}
