//! `/metrics` for Prometheus, on the admin port and on `metricsProvider.httpPort`.
//! Apache: `PrometheusMetricsProvider`.

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use herdsman_server::ServerHandle;
use herdsman_server::metrics::{CONTENT_TYPE as EXPOSITION, collect, prometheus_text};

/// The route of metrics, on any port that knows its server.
pub fn routes<S>() -> Router<S>
where
    S: Clone + Send + Sync + 'static,
    ServerHandle: FromRef<S>,
{
    Router::new().route("/metrics", get(metrics))
}

/// Collecting takes locks, so another thread does it.
async fn metrics(State(server): State<ServerHandle>) -> Response {
    let text = tokio::task::spawn_blocking(move || prometheus_text(&collect(&server))).await;
    ([(CONTENT_TYPE, EXPOSITION)], text.unwrap_or_default()).into_response()
}
