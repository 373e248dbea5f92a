//! Reads of one znode, and who the server takes the asker for.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::callers::Reader;
use super::query::{Parameters, ZnodePath};
use super::shapes::{AclEntry, DataShape, NodeType, StatShape, acl_shape, ttl_ms};
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

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

/// A znode in an answer.
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

/// `GET /node`. Needs the right to read, as getData and exists do.
pub(super) async fn show(
    State(state): State<AdminState>,
    Reader(identity): Reader,
    Parameters(ShowParameters { path, data: wants_data }): Parameters<ShowParameters>,
) -> Result<Json<NodeShape>, ApiError> {
    let path = path.as_str();
    let (stat, owner, data, acl) = {
        let tree = state.server.core().tree();
        let znode = tree.seen_by(&identity.ids).znode(path);
        let znode = znode.map_err(|code| ApiError::refused(code, path))?;
        let data = if wants_data == Some(false) { None } else { znode.to_data() };
        (znode.stat(), znode.owner(), data, znode.acl().into_owned())
    };
    Ok(Json(NodeShape {
        path: path.to_owned(),
        r#type: owner.into(),
        ttl_ms: ttl_ms(owner),
        stat: StatShape::from(&stat),
        data: DataShape::of(data.as_deref()),
        acl: acl_shape(&acl),
        acl_version: stat.aversion,
    }))
}
