//! `/livez` and `/readyz`: is the process well, and may clients be sent to it?
//!
//! `/livez` fails when only a restart helps: nobody gets hold of the core within a bound, the thread that
//! makes txns durable is gone, or the disk has failed for good. A server that waits for a quorum is alive.
//! `/readyz` fails when clients are better off elsewhere: there is no leader, writes are not taken, the
//! server is about to end.
//!
//! Out: 200 or 503, and JSON: `status`, and the checks that failed; with `?verbose` all of them. What is
//! checked is looked up at that moment, by the same locks that requests take, on a thread of its own: the threads
//! that commands and metrics share may all be waiting for something, and a probe must be answered then, too.

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

use crate::look_thread::LookThread;

const LIVEZ: &str = "/livez";
const READYZ: &str = "/readyz";

/// How long the core may keep somebody waiting. It works in steps of less than a millisecond.
const CORE_PATIENCE: Duration = Duration::from_secs(2);

/// The routes of health checks.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    server: ServerHandle,
) -> io::Result<Router<S>> {
    let checker = Arc::new(LookThread::start("health", move || look(&server))?);
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

/// Looks at the server.
type Checker = LookThread<Found>;

/// What the thread has found.
#[derive(Clone)]
struct Found {
    live: Vec<Check>,
    /// What matters for readiness besides.
    ready: Vec<Check>,
}

fn thread_has_ended() -> Found {
    let problem = Some("the thread of the health checks has ended");
    Found { live: vec![check("admin", problem)], ready: Vec::new() }
}

/// One thing that was looked at.
#[derive(Clone, Copy, Debug, Serialize)]
struct Check {
    check: &'static str,
    /// What is wrong; nothing, if all is well.
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
    wanted: fn(Found) -> Vec<Check>,
) -> Response {
    let checks = wanted(checker.look().await.unwrap_or_else(thread_has_ended));
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

/// What the node says about itself, if it can be asked.
#[derive(Clone, Copy)]
struct Standing {
    serves_as: Option<ServesAs>,
    serves_clients: bool,
    storage: StorageState,
}

fn standing(server: &ServerHandle) -> Option<Standing> {
    server.core().try_with_node(CORE_PATIENCE, |node: &Node| Standing {
        serves_as: node.serves_as(),
        serves_clients: node.serves_clients(),
        storage: node.storage(),
    })
}

fn look(server: &ServerHandle) -> Found {
    let standing = standing(server);
    let live = live_checks(server, standing.as_ref());
    Found { live, ready: ready_checks(server, standing.as_ref()) }
}

fn live_checks(server: &ServerHandle, standing: Option<&Standing>) -> Vec<Check> {
    let stuck = standing.is_none().then_some("nobody can get hold of the core: the server hangs");
    // When it stops in order, the thread ends before the process.
    let is_attended = server.core().is_log_attended() || server.is_stopping();
    let unattended = (!is_attended).then_some("the thread that writes the log has ended");
    let broken = standing.is_some_and(|standing| standing.storage == StorageState::Failed);
    let broken = broken.then_some("the disk has failed: check it, then restart the server");
    vec![check("core", stuck), check("log", unattended), check("storage", broken)]
}

fn ready_checks(server: &ServerHandle, standing: Option<&Standing>) -> Vec<Check> {
    let stopping = server.is_stopping().then_some("the server is stopping");
    let mut checks = vec![check("running", stopping)];
    let Some(&Standing { serves_as, serves_clients, storage }) = standing else {
        return checks;
    };
    let leaderless = match serves_as {
        None => Some("there is no leader"),
        Some(ServesAs::ReadOnly) => Some("there is no leader: reads only"),
        Some(_) => None,
    };
    checks.push(check("leader", leaderless));
    let closed = leaderless.is_none() && !serves_clients;
    checks
        .push(check("clients", closed.then_some("this leader takes no clients (leaderServes=no)")));
    let full = storage == StorageState::Full;
    checks.push(check("writes", full.then_some("the disk is full: no writes are taken")));
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

    /// Commands, metrics and TLS files share these threads.
    #[test]
    fn a_probe_does_not_wait_for_a_thread_that_others_block() {
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
