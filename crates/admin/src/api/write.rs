//! Writes of one znode: create, set, delete.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use herdsman_client::{Acl, Client, Created, ErrorKind, Lifetime, Op, OpResult, Perms};
use herdsman_proto::path::split;
use herdsman_tree::owner::TTL_MS_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{JsonBody, data_of};
use super::callers::WriteAccess;
use super::query::{Parameters, ZnodePath, expected_version};
use super::recursive;
use super::shapes::{AclEntry, NodeType, StatShape, acl_of};
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// Most attempts to create a znode with its parents while other clients create and delete the same parents.
const PARENTS_ATTEMPTS_MAX: usize = 10;

/// The path is checked later: that of a sequential znode may end with a slash.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateParameters {
    path: String,
}

/// A new znode.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NewNode {
    pub(super) data: Option<String>,
    pub(super) data_base64: Option<String>,
    pub(super) r#type: NodeType,
    pub(super) ttl_ms: Option<i64>,
    pub(super) sequential: bool,
    pub(super) acl: Option<Vec<AclEntry>>,
    pub(super) parents: bool,
}

impl NewNode {
    /// Takes the data; empty by default.
    pub(super) fn take_data(&mut self) -> Result<Bytes, ApiError> {
        Ok(data_of(self.data.take(), self.data_base64.take())?.unwrap_or_default())
    }

    /// Takes the ACL; by default it is open to all, as everywhere in ZooKeeper.
    pub(super) fn take_acl(&mut self) -> Result<Vec<Acl>, ApiError> {
        self.acl.take().map_or_else(|| Ok(vec![Acl::world(Perms::ALL)]), acl_of)
    }

    pub(super) fn lifetime(&self) -> Result<Lifetime, ApiError> {
        match (self.r#type, self.ttl_ms) {
            (NodeType::Ephemeral, _) => Err(ApiError::bad_request(
                "an ephemeral znode lives as long as its session, and an HTTP request has no lasting \
                 session; use a client, or a znode with a ttl",
            )),
            (NodeType::Ttl, Some(ttl_ms @ 1..=TTL_MS_MAX)) => {
                Ok(Lifetime::Ttl(Duration::from_millis(ttl_ms.unsigned_abs())))
            }
            (NodeType::Ttl, _) => Err(ApiError::bad_request(format!(
                "the type ttl needs a ttl_ms from 1 to {TTL_MS_MAX}"
            ))),
            (_, Some(_)) => Err(ApiError::bad_request("ttl_ms is only valid with the type ttl")),
            (NodeType::Container, None) => Ok(Lifetime::Container),
            (NodeType::Persistent, None) => Ok(Lifetime::Persistent),
        }
    }
}

/// `POST /node`.
pub(super) async fn create(
    State(state): State<AdminState>,
    WriteAccess(identity): WriteAccess,
    Parameters(CreateParameters { path }): Parameters<CreateParameters>,
    JsonBody(mut new): JsonBody<NewNode>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let (data, acl, lifetime) = (new.take_data()?, new.take_acl()?, new.lifetime()?);
    let session = state.caller_sessions.of(&identity).await?;
    let client = session.client();
    let created = if new.parents {
        let op = Op::create(&path, data).acl(acl).lifetime(lifetime);
        let op = if new.sequential { op.sequential() } else { op };
        create_with_parents(&state, client, &path, op).await
    } else {
        let call = client.create(&path, data).acl(acl).lifetime(lifetime);
        if new.sequential { call.sequential().await } else { call.await }
    };
    let created = created.map_err(|error| explain_create(error, lifetime))?;
    let stat = StatShape::from(&created.stat);
    Ok((StatusCode::CREATED, Json(json!({ "path": created.path, "stat": stat }))))
}

/// Creates a znode and its missing parents, all or none.
async fn create_with_parents(
    state: &AdminState,
    client: &Client,
    path: &str,
    znode: Op,
) -> Result<Created, herdsman_client::Error> {
    let limit = state.server.config().limits.frame_bytes_max as usize;
    let mut attempt = 1;
    loop {
        let existing = {
            let tree = state.server.core().tree();
            let parent = split(path).map_or("", |(parent, _)| parent);
            tree.visible_to(&[]).existing_prefix(parent)
        };
        let missing = missing_parents(path, existing, limit)?;
        let ops = missing.iter().map(|parent| Op::create(parent, "")).chain([znode.clone()]);
        let error = match client.transaction(ops).await {
            Ok(results) => return created_last(results),
            Err(error) => error,
        };
        let is_parent_there = *error.kind() == ErrorKind::NodeExists
            && error.failed_op().is_some_and(|op| op < missing.len());
        let is_parent_gone = *error.kind() == ErrorKind::NoNode;
        // Another client creates or deletes the same znodes; the tree shows by now what it did.
        if attempt == PARENTS_ATTEMPTS_MAX || !(is_parent_there || is_parent_gone) {
            return Err(error);
        }
        attempt += 1;
    }
}

/// The missing parents of a path, the highest first, if its first `existing` bytes exist. Each parent has its
/// path in the request: a deep path makes that much longer than itself, so `bytes_max` limits their sum.
fn missing_parents(
    path: &str,
    existing: usize,
    bytes_max: usize,
) -> Result<Vec<&str>, herdsman_client::Error> {
    let ends = path.match_indices('/').map(|(end, _)| end).skip_while(|end| *end <= existing);
    let (mut missing, mut bytes) = (Vec::new(), 0);
    for end in ends {
        bytes += end;
        if bytes > bytes_max {
            let kind = ErrorKind::TooLarge { bytes, limit: bytes_max };
            return Err(herdsman_client::Error::not_applied(kind));
        }
        missing.push(&path[..end]);
    }
    Ok(missing)
}

fn created_last(results: Vec<OpResult>) -> Result<Created, herdsman_client::Error> {
    match results.into_iter().next_back() {
        Some(OpResult::Created(created)) => Ok(created),
        _ => Err(herdsman_client::Error::unknown(ErrorKind::ConnectionLoss)),
    }
}

fn explain_create(error: herdsman_client::Error, lifetime: Lifetime) -> ApiError {
    let mut answer = ApiError::from(error);
    if answer.status == StatusCode::NOT_IMPLEMENTED && matches!(lifetime, Lifetime::Ttl(_)) {
        "znodes with a ttl are disabled; see zookeeper.extendedTypesEnabled"
            .clone_into(&mut answer.message);
    }
    if answer.error == "NoNode" {
        "the parent does not exist; send \"parents\": true to create it"
            .clone_into(&mut answer.message);
    }
    answer
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetParameters {
    pub(super) path: ZnodePath,
    pub(super) version: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewData {
    data: Option<String>,
    data_base64: Option<String>,
}

/// `PUT /node`. The data is required: omitting it must not empty the znode.
pub(super) async fn set(
    State(state): State<AdminState>,
    WriteAccess(identity): WriteAccess,
    Parameters(SetParameters { path, version }): Parameters<SetParameters>,
    headers: HeaderMap,
    JsonBody(NewData { data, data_base64 }): JsonBody<NewData>,
) -> Result<Json<Value>, ApiError> {
    let version = expected_version(version, &headers)?;
    let data = data_of(data, data_base64)?
        .ok_or_else(|| ApiError::bad_request("the body needs data, or data_base64"))?;
    let session = state.caller_sessions.of(&identity).await?;
    let set = session.client().set(path.as_str(), data).version(version).await;
    let stat = set.map_err(|error| with_stat(error.into(), &state, &identity, path.as_str()))?;
    Ok(Json(json!({ "stat": StatShape::from(&stat) })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteParameters {
    path: ZnodePath,
    version: Option<i32>,
    recursive: Option<bool>,
}

/// `DELETE /node`.
pub(super) async fn delete(
    State(state): State<AdminState>,
    WriteAccess(identity): WriteAccess,
    Parameters(parameters): Parameters<DeleteParameters>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let path = parameters.path.as_str();
    let version = expected_version(parameters.version, &headers)?;
    let deleted = if parameters.recursive == Some(true) {
        recursive::delete(&state, &identity, path, version).await?
    } else {
        let session = state.caller_sessions.of(&identity).await?;
        let deleted = session.client().delete(path).version(version).await;
        deleted.map_err(|error| with_stat(error.into(), &state, &identity, path))?;
        1
    };
    Ok(Json(json!({ "deleted": deleted })))
}

/// Adds the present stat to an error about the version, if the caller may read it.
pub(super) fn with_stat(
    error: ApiError,
    state: &AdminState,
    identity: &Identity,
    path: &str,
) -> ApiError {
    if error.error != "BadVersion" {
        return error;
    }
    let tree = state.server.core().tree();
    match tree.visible_to(&identity.ids).znode(path) {
        Ok(znode) => error.with("stat", StatShape::from(&znode.stat())),
        Err(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parents_are_those_below_what_exists() {
        let missing = |path, existing| missing_parents(path, existing, 1000).unwrap();
        assert_eq!(missing("/a/b/c", 0), ["/a", "/a/b"]);
        assert_eq!(missing("/a/b/c", 2), ["/a/b"]);
        assert!(missing("/a/b/c", 4).is_empty());
        assert_eq!(missing("/a/b/", 2), ["/a/b"]);
        assert!(missing("/a", 0).is_empty());
    }

    /// The sum used to be computed for all parents, after a search from the root for each.
    #[test]
    fn a_path_that_is_too_deep_is_rejected_at_the_limit() {
        let path = "/x".repeat(10_000);
        let error = missing_parents(&path, 0, 1000).unwrap_err();
        match error.kind() {
            // Parents of 2, 4, 6, … bytes.
            ErrorKind::TooLarge { bytes, limit: 1000 } => assert_eq!(*bytes, 1056),
            other => panic!("{other:?}"),
        }
    }
}
