//! `/metrics` for Prometheus, on the admin port and on `metricsProvider.httpPort`.
//! Apache: `PrometheusMetricsProvider`.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use herdsman_server::ServerHandle;
use herdsman_server::operators::metrics::{CONTENT_TYPE as EXPOSITION, collect, prometheus_text};

use crate::shared_result_thread::SharedResultThread;

/// The route of metrics. Collecting takes locks, so a thread does it, once for all waiting requests.
///
/// # Errors
/// Fails if the thread cannot be started.
pub fn routes<S: Clone + Send + Sync + 'static>(server: ServerHandle) -> io::Result<Router<S>> {
    let look = move || Bytes::from(prometheus_text(&collect(&server)));
    let thread = Arc::new(SharedResultThread::start("metrics", look)?);
    Ok(Router::new().route("/metrics", get(metrics)).with_state(thread))
}

async fn metrics(State(thread): State<Arc<SharedResultThread<Bytes>>>) -> Response {
    match thread.result().await {
        Some(text) => ([(CONTENT_TYPE, EXPOSITION)], text).into_response(),
        None => (StatusCode::INTERNAL_SERVER_ERROR, "collecting metrics failed\n").into_response(),
    }
}
