//! Apache's `AdminServer`: commands under `/commands`, with the same names and the same JSON.
//!
//! In: `GET /commands/NAME` (one command wants `POST`). Out: an object in which `command` and `error` are
//! always present, laid out as Jackson lays it out. Unknown commands and those that need a server which
//! is not serving are answered with status 200 and an `error`, because Apache does and scripts look there.
//! Apache: `JettyAdminServer`, `Commands`.
//!
//! How we differ: `error` has a sentence wherever something failed (Apache leaves it null after a failed
//! snapshot or restore); the wrong method is 405, not an internal error; keys of maps are sorted; what
//! Java says about itself is left out of `environment` and `system_properties`; secrets are hidden in
//! `initial_configuration`; an address of Java's is told without trying to reach it.
//!
//! The files: `table` lists the commands, `told` and `ensemble` answer what only looks, `snapshot` and
//! `restore` are the two that need an authorization (`access`), `json` is the layout.

pub(crate) mod access;
mod ensemble;
mod json;
mod rate_limit;
mod restore;
mod snapshot;
mod table;
mod told;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use herdsman_server::ServerHandle;

use crate::api::limits::{Limits, Permit};
use crate::guard;
use crate::masks::{IdView, Masks};
use crate::settings::AdminSettings;
use crate::state::AdminState;
use access::Asker;
use json::Json;
use rate_limit::RateLimit;
use table::{COMMANDS, Command, Run};

pub use table::commands_markdown;

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// What the commands share.
struct Room {
    server: ServerHandle,
    settings: Arc<AdminSettings>,
    /// The configuration file as it was at the start, without comments, secrets hidden.
    initial_configuration: Option<String>,
    snapshots: RateLimit,
    restores: RateLimit,
    masks: Arc<Masks>,
    limits: Arc<Limits>,
}

/// The routes of this room.
pub fn routes(state: &AdminState) -> Router<AdminState> {
    let url = state.settings.command_url.clone();
    let rate_limit = state.settings.rate_limit;
    let room = Room {
        initial_configuration: told::initial_configuration(state.server.config()),
        server: state.server.clone(),
        settings: Arc::clone(&state.settings),
        snapshots: RateLimit::new("snapshot", rate_limit),
        restores: RateLimit::new("restore", rate_limit),
        masks: Arc::clone(&state.masks),
        limits: Arc::clone(&state.limits),
    };
    Router::new()
        .route(&url, get(list).post(list))
        .route(&format!("{url}/"), get(list).post(list))
        .route(&format!("{url}/{{*name}}"), get(run).post(run))
        .with_state(Arc::new(room))
}

/// Links to all commands.
async fn list(State(room): State<Arc<Room>>) -> Html<String> {
    let url = &room.settings.command_url;
    let mut names: Vec<_> = COMMANDS.iter().map(|command| command.names[0]).collect();
    names.sort_unstable();
    Html(names.iter().map(|name| format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n")).collect())
}

/// A command that was asked for.
struct Call {
    room: Arc<Room>,
    command: &'static Command,
    /// Who asks may see everything.
    sees_all: bool,
    arguments: HashMap<String, String>,
    body: Body,
}

async fn run(
    State(room): State<Arc<Room>>,
    Path(name): Path<String>,
    asker: Asker,
    method: Method,
    Query(arguments): Query<HashMap<String, String>>,
    body: Body,
) -> Response {
    let Some(command) = table::find(&name) else {
        return Answer::of(&name)
            .with_error(StatusCode::OK, format!("Unknown command: {name}"))
            .into_response();
    };
    if command.changes
        && let Err(why) = guard::check_command(asker.headers())
    {
        return Answer::of(&name).with_error(StatusCode::FORBIDDEN, why).into_response();
    }
    if command.needs_server && !room.server.is_serving() {
        return Answer::of(&name).with_error(StatusCode::OK, NOT_SERVING).into_response();
    }
    let access = access::check(&room.server, &asker);
    let sees_all = access.is_ok();
    if command.needs_all_permissions
        && let Err((status, why)) = access
    {
        return Answer::of(&name).with_error(status, why).into_response();
    }
    let is_post = method == Method::POST;
    if is_post != command.wants_post() {
        let wanted = if is_post { "GET" } else { "POST" };
        let why = format!("{} takes {wanted}", command.names[0]);
        return Answer::of(&name).with_error(StatusCode::METHOD_NOT_ALLOWED, why).into_response();
    }
    let call = Call { room, command, sees_all, arguments, body };
    match command.run {
        Run::Tell(tell) => match call.room.limits.blocking(asker.address()) {
            Ok(permit) => tell_apart(call, tell, permit).await,
            Err(error) => Answer::of(&name).with_error(error.status, error.message).into_response(),
        },
        Run::Snapshot => snapshot::run(call).await,
        Run::Restore => restore::run(call).await,
    }
}

/// Commands may look at every file or every watch, so they do not run on the thread that serves all
/// requests. They are not interrupted when their client leaves; the permit counts them until they end.
async fn tell_apart(call: Call, tell: table::Tell, permit: Permit) -> Response {
    let command = call.command;
    let told = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = Answer::of(call.command.names[0]);
        let ids = match call.sees_all {
            true => IdView::Whole,
            false => IdView::Masked(&call.room.masks),
        };
        tell(&told::Asked { room: &call.room, arguments: &call.arguments, ids }, answer)
    });
    told.await
        .unwrap_or_else(|_| Answer::of(command.names[0]).failed("the command ended early"))
        .into_response()
}

/// What a command answers: fields in order, then `command` and `error`.
struct Answer {
    status: StatusCode,
    command: String,
    error: Option<String>,
    fields: Vec<(String, Json)>,
    headers: Vec<(&'static str, String)>,
}

impl Answer {
    fn of(command: &str) -> Self {
        Answer {
            status: StatusCode::OK,
            command: command.to_owned(),
            error: None,
            fields: Vec::new(),
            headers: Vec::new(),
        }
    }

    fn put(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.fields.push((key.to_owned(), value.into()));
        self
    }

    fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn with_error(mut self, status: StatusCode, error: impl Into<String>) -> Self {
        self.status = status;
        self.error = Some(error.into());
        self
    }

    /// An error that the command itself finds: Apache has it among its own fields then.
    fn refuse(self, error: impl Into<String>) -> Self {
        self.put("error", error.into())
    }

    fn failed(self, error: impl Into<String>) -> Self {
        self.with_error(StatusCode::INTERNAL_SERVER_ERROR, error)
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Answer { status, command, error, mut fields, headers } = self;
        fields.push(("command".to_owned(), Json::Text(command)));
        if fields.iter().all(|(key, _)| key != "error") {
            fields.push(("error".to_owned(), error.map_or(Json::Null, Json::Text)));
        }
        let text = Json::Object(fields).to_string();
        let mut response = (status, [(CONTENT_TYPE, "application/json")], text).into_response();
        for (name, value) in headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc;

    use axum::extract::ConnectInfo;
    use axum::http::Request;
    use herdsman_server::TestServer;
    use tower_service::Service;

    use super::*;

    /// 600 of them used to wait for a thread, and metrics and handshakes behind them.
    #[test]
    fn commands_whose_clients_have_left_count_until_they_end() {
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let mut routes = routes(&state).with_state(state.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let (end, ended) = mpsc::channel::<()>();
        runtime.block_on(async {
            let blocked = tokio::task::spawn_blocking(move || ended.recv());
            let mut ask = || {
                let peer = SocketAddr::from(([10, 0, 0, 1], 1));
                let mut request = Request::get("/commands/wchp").body(Body::empty()).unwrap();
                request.extensions_mut().insert(ConnectInfo(peer));
                Box::pin(routes.call(request))
            };
            let mut refused = 0;
            for _ in 0..20 {
                // Asked, and left.
                if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut ask()) {
                    assert_eq!(answer.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
                    refused += 1;
                }
            }
            assert_eq!(refused, 12, "8 of one address may wait");
            drop(end);
            _ = blocked.await;
            // The only thread works in order, so the 8 are done after this.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
        });
    }
}
