//! Reads and replaces the ACL of a znode, or of a whole subtree.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::JsonBody;
use super::callers::{ReadAccess, WriteAccess};
use super::query::{OfNode, Parameters, expected_version};
use super::recursive::{self, AclsSet};
use super::shapes::{AclEntry, StatShape, acl_bytes, acl_of, acl_shape};
use super::write::{SetParameters, with_stat};
use crate::error::ApiError;
use crate::state::AdminState;
use crate::views::rendered::Rendered;

/// `GET /acl`. Needs permission to read or to administer; hashes of passwords are shown to
/// administrators only.
pub(super) async fn show(
    State(state): State<AdminState>,
    ReadAccess(identity): ReadAccess,
    Parameters(OfNode { path }): Parameters<OfNode>,
) -> Result<Response, ApiError> {
    let (acl, aversion) = {
        let tree = state.server.core().tree();
        let seen = tree.visible_to(&identity.ids).acl(path.as_str());
        let (acl, stat) = seen.map_err(|code| ApiError::refused(code, path.as_str()))?;
        (acl.into_owned(), stat.aversion)
    };
    let (address, bytes) = (identity.peer.ip(), acl_bytes(&acl));
    let shape = move || json!({ "acl": acl_shape(&acl), "aversion": aversion });
    Rendered::by_size(&state, address, bytes, shape).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewAcl {
    acl: Vec<AclEntry>,
    #[serde(default)]
    recursive: bool,
}

/// `PUT /acl`. The version is that of the ACL.
pub(super) async fn set(
    State(state): State<AdminState>,
    WriteAccess(identity): WriteAccess,
    Parameters(SetParameters { path, version }): Parameters<SetParameters>,
    headers: HeaderMap,
    JsonBody(new): JsonBody<NewAcl>,
) -> Result<Json<Value>, ApiError> {
    let path = path.as_str();
    let version = expected_version(version, &headers)?;
    let acl = acl_of(new.acl)?;
    if new.recursive {
        let AclsSet { changed, skipped } =
            recursive::set_acl(&state, &identity, path, version, acl).await?;
        let mut answer = json!({ "changed": changed });
        if !skipped.is_empty() {
            answer["skipped"] = json!(skipped);
        }
        return Ok(Json(answer));
    }
    let session = state.caller_sessions.of(&identity).await?;
    let set = session.client().set_acl(path, acl).version(version).await;
    let stat = set.map_err(|error| with_stat(error.into(), &state, &identity, path))?;
    Ok(Json(json!({ "stat": StatShape::from(&stat) })))
}
