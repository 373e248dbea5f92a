//! `/livez` and `/readyz`: is the process well, and may clients be sent to it?
//!
//! `/livez` fails when only a restart helps: nobody gets hold of the core within a bound, the thread that
//! makes txns durable is gone, or the disk has failed for good. A server that waits for a quorum is alive.
//! `/readyz` fails when clients are better off elsewhere: there is no leader, writes are not taken, the
//! server is about to end.
//!
//! Out: 200 or 503, and JSON: `status`, and the checks that failed; with `?verbose` all of them. What is
//! checked is looked up at that moment, by the same locks that requests take.

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

use crate::state::AdminState;

/// How long the core may keep somebody waiting. It works in steps of less than a millisecond.
const CORE_PATIENCE: Duration = Duration::from_secs(2);

/// The routes of health checks.
pub fn routes() -> Router<AdminState> {
    Router::new().route("/livez", get(livez)).route("/readyz", get(readyz))
}

async fn livez(state: State<AdminState>, query: RawQuery) -> Response {
    answer(state, query, live_checks).await
}

async fn readyz(state: State<AdminState>, query: RawQuery) -> Response {
    answer(state, query, ready_checks).await
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
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

/// Looking may block, so another thread looks.
async fn answer(
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
    look: fn(&ServerHandle) -> Vec<Check>,
) -> Response {
    let checks = tokio::task::spawn_blocking(move || look(&state.server)).await;
    let checks = checks.unwrap_or_else(|_| vec![check("admin", Some("the check itself failed"))]);
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

fn live_checks(server: &ServerHandle) -> Vec<Check> {
    let standing = standing(server);
    let stuck = standing.is_none().then_some("nobody can get hold of the core: the server hangs");
    // When it stops in order, the thread ends before the process.
    let is_attended = server.core().is_log_attended() || server.is_stopping();
    let unattended = (!is_attended).then_some("the thread that writes the log has ended");
    let broken = standing.is_some_and(|standing| standing.storage == StorageState::Failed);
    let broken = broken.then_some("the disk has failed: check it, then restart the server");
    vec![check("core", stuck), check("log", unattended), check("storage", broken)]
}

fn ready_checks(server: &ServerHandle) -> Vec<Check> {
    let mut checks = live_checks(server);
    let stopping = server.is_stopping().then_some("the server is stopping");
    checks.push(check("running", stopping));
    let Some(Standing { serves_as, serves_clients, storage }) = standing(server) else {
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
