//! Transactions: several writes, all or none.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use herdsman_client::{Op, OpResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{JsonBody, data_of};
use super::callers::WriteAccess;
use super::query::ANY_VERSION;
use super::shapes::{AclEntry, NodeType, StatShape};
use super::write::NewNode;
use crate::error::ApiError;
use crate::state::AdminState;

/// Most writes of one request.
const OPERATIONS_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Multi {
    operations: Vec<Operation>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
enum Operation {
    Create {
        path: String,
        data: Option<String>,
        data_base64: Option<String>,
        #[serde(default)]
        r#type: NodeType,
        ttl_ms: Option<i64>,
        #[serde(default)]
        sequential: bool,
        acl: Option<Vec<AclEntry>>,
    },
    Set {
        path: String,
        data: Option<String>,
        data_base64: Option<String>,
        version: Option<i32>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
    Check {
        path: String,
        version: Option<i32>,
    },
}

/// `POST /multi`.
pub(super) async fn commit(
    State(state): State<AdminState>,
    WriteAccess(identity): WriteAccess,
    JsonBody(Multi { operations }): JsonBody<Multi>,
) -> Result<Json<Value>, ApiError> {
    let count = operations.len();
    if !(1..=OPERATIONS_MAX).contains(&count) {
        let message = format!("operations must be 1 to {OPERATIONS_MAX}");
        return Err(ApiError::bad_request(message));
    }
    let numbered = operations.into_iter().enumerate();
    let ops = numbered
        .map(|(index, operation)| {
            operation.into_op().map_err(|error| error.with("failed_index", index))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let session = state.caller_sessions.of(&identity).await?;
    let results = session.client().transaction(ops).await.map_err(|error| failure(error, count))?;
    let results: Vec<_> = results.iter().map(result_shape).collect();
    Ok(Json(json!({ "results": results })))
}

impl Operation {
    fn into_op(self) -> Result<Op, ApiError> {
        Ok(match self {
            Operation::Create { path, data, data_base64, r#type, ttl_ms, sequential, acl } => {
                let parents = false;
                let mut new =
                    NewNode { data, data_base64, r#type, ttl_ms, sequential, acl, parents };
                let op = Op::create(&path, new.take_data()?)
                    .acl(new.take_acl()?)
                    .lifetime(new.lifetime()?);
                if sequential { op.sequential() } else { op }
            }
            Operation::Set { path, data, data_base64, version } => {
                let data = data_of(data, data_base64)?
                    .ok_or_else(|| ApiError::bad_request("set needs data, or data_base64"))?;
                Op::set(&path, data).version(version.unwrap_or(ANY_VERSION))
            }
            Operation::Delete { path, version } => {
                Op::delete(&path).version(version.unwrap_or(ANY_VERSION))
            }
            Operation::Check { path, version } => {
                Op::check(&path).version(version.unwrap_or(ANY_VERSION))
            }
        })
    }
}

fn result_shape(result: &OpResult) -> Value {
    match result {
        OpResult::Created(created) => {
            json!({ "op": "create", "path": created.path, "stat": StatShape::from(&created.stat) })
        }
        OpResult::Set(stat) => json!({ "op": "set", "stat": StatShape::from(stat) }),
        OpResult::Deleted => json!({ "op": "delete" }),
        // The client library may get new operations; none of them is used here.
        _ => json!({ "op": "check" }),
    }
}

/// The error for a failed operation: none of the operations was done.
fn failure(error: herdsman_client::Error, count: usize) -> ApiError {
    let failed = error.failed_op();
    let mut answer = ApiError::from(error);
    let Some(failed) = failed else {
        return answer;
    };
    let results: Vec<_> = (0..count)
        .map(|index| if index == failed { json!({ "error": answer.error }) } else { Value::Null })
        .collect();
    // One status for all errors of a transaction in the tree.
    if matches!(answer.status, StatusCode::NOT_FOUND) {
        answer.status = StatusCode::CONFLICT;
    }
    answer.message = format!("operation {failed}: {}; nothing was done", answer.message);
    answer.with("failed_index", failed).with("results", results)
}
