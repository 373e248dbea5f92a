//! Reads of one znode, and the caller's ids.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::callers::ReadAccess;
use super::query::{Parameters, ZnodePath};
use super::shapes::{AclEntry, DataShape, NodeType, StatShape, acl_bytes, acl_shape, ttl_ms};
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;
use crate::views::rendered::Rendered;

/// `GET /whoami`. Hashes of passwords are not shown.
pub(super) async fn who_am_i(State(state): State<AdminState>, identity: Identity) -> Json<Value> {
    let schemes = state.server.schemes();
    let ids = identity.ids.iter().map(|id| {
        let shown = schemes.user_name(id);
        json!({ "scheme": id.scheme, "id": shown })
    });
    Json(json!({
        "ids": ids.collect::<Vec<_>>(),
        "logged_in": identity.logged_in,
        "can_write": identity.can_write(state.settings.writers),
        "user": identity.user,
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowParameters {
    path: ZnodePath,
    data: Option<bool>,
}

/// A znode in a response.
#[derive(Debug, Serialize)]
pub(super) struct NodeShape {
    path: String,
    r#type: NodeType,
    ttl_ms: Option<i64>,
    stat: StatShape,
    #[serde(flatten)]
    data: DataShape,
    acl: Vec<AclEntry>,
    acl_version: i32,
}

/// `GET /node`. Needs permission to read.
pub(super) async fn show(
    State(state): State<AdminState>,
    ReadAccess(identity): ReadAccess,
    Parameters(ShowParameters { path, data: wants_data }): Parameters<ShowParameters>,
) -> Result<Response, ApiError> {
    let (stat, owner, data, acl) = {
        let tree = state.server.core().tree();
        let znode = tree.visible_to(&identity.ids).znode(path.as_str());
        let znode = znode.map_err(|code| ApiError::refused(code, path.as_str()))?;
        let data = if wants_data == Some(false) { None } else { znode.to_data() };
        (znode.stat(), znode.owner(), data, znode.acl().into_owned())
    };
    let bytes = data.as_ref().map_or(0, |data| data.len()) + acl_bytes(&acl);
    let shape = move || NodeShape {
        path: path.as_str().to_owned(),
        r#type: owner.into(),
        ttl_ms: ttl_ms(owner),
        stat: StatShape::from(&stat),
        data: DataShape::of(data.as_deref()),
        acl: acl_shape(&acl),
        acl_version: stat.aversion,
    };
    Rendered::by_size(&state, identity.peer.ip(), bytes, shape).await
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::http::HeaderMap;
    use herdsman_client::Client;
    use herdsman_testing::TestServer;

    use super::*;
    use crate::large_answers::LARGE_BYTES;
    use crate::settings::AdminSettings;

    /// The responses used to be made on the thread that answers health checks.
    #[tokio::test]
    async fn large_znodes_are_shown_by_counted_threads() {
        let server = TestServer::start();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        client.create("/large", vec![0; LARGE_BYTES + 1]).await.unwrap();
        client.create("/small", vec![0; 1000]).await.unwrap();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let status = async |path: &str| {
            let identity =
                Identity::prove(state.server.schemes(), &HeaderMap::new(), peer, None).unwrap();
            let parameters = format!("{{\"path\":\"{path}\"}}");
            let parameters = serde_json::from_str(&parameters).unwrap();
            let answer =
                show(State(state.clone()), ReadAccess(identity), Parameters(parameters)).await;
            answer.map_or_else(|error| error.status.as_u16(), |_| 200)
        };
        let threads: Vec<_> =
            std::iter::from_fn(|| state.limits.blocking(peer.ip()).ok()).collect();
        assert_eq!((status("/large").await, status("/small").await), (429, 200));
        drop(threads);
        assert_eq!(status("/large").await, 200);
    }
}
