//! `/metrics` for Prometheus, on the admin port and on `metricsProvider.httpPort`.
//! Apache: `PrometheusMetricsProvider`.

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use herdsman_server::metrics::{CONTENT_TYPE as EXPOSITION, collect, prometheus_text};

use crate::state::AdminState;

/// The route of metrics.
pub fn routes() -> Router<AdminState> {
    Router::new().route("/metrics", get(metrics))
}

/// Collecting takes locks, so another thread does it.
async fn metrics(State(state): State<AdminState>) -> Response {
    let text = tokio::task::spawn_blocking(move || prometheus_text(&collect(&state.server))).await;
    ([(CONTENT_TYPE, EXPOSITION)], text.unwrap_or_default()).into_response()
}
