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
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use herdsman_server::ServerHandle;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::api::limits::Limits;
use crate::error::ApiError;
use crate::guard;
use crate::large_answers::{self, LARGE_BYTES};
use crate::masks::{IdView, Masks};
use crate::settings::AdminSettings;
use crate::state::AdminState;
use access::Asker;
use json::Json;
use rate_limit::RateLimit;
use table::{COMMANDS, Command, Run};

pub use table::commands_markdown;

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
/// Bytes of one answer.
const TEXT_BYTES_MAX: usize = 64 << 20;

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
    /// By the names of commands: how many bytes the last answer had. While an answer is made, it takes several times
    /// the memory of its text, so the same command again has to wait for this.
    turns: HashMap<&'static str, Arc<Mutex<usize>>>,
}

impl Room {
    fn new(state: &AdminState) -> Self {
        let rate_limit = state.settings.rate_limit;
        Room {
            initial_configuration: told::initial_configuration(state.server.config()),
            server: state.server.clone(),
            settings: Arc::clone(&state.settings),
            snapshots: RateLimit::new("snapshot", rate_limit),
            restores: RateLimit::new("restore", rate_limit),
            masks: Arc::clone(&state.masks),
            limits: Arc::clone(&state.limits),
            turns: COMMANDS.iter().map(|command| (command.names[0], Arc::default())).collect(),
        }
    }

    /// Waits until no other thread makes an answer to this command.
    async fn turn(&self, command: &Command) -> OwnedMutexGuard<usize> {
        let turn = self.turns.get(command.names[0]).cloned().unwrap_or_default();
        turn.lock_owned().await
    }
}

/// The routes of this room.
pub fn routes(state: &AdminState) -> Router<AdminState> {
    let url = state.settings.command_url.clone();
    Router::new()
        .route(&url, get(list).post(list))
        .route(&format!("{url}/"), get(list).post(list))
        .route(&format!("{url}/{{*name}}"), get(run).post(run))
        .with_state(Arc::new(Room::new(state)))
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
        Run::Tell(tell) => tell_apart(call, tell, asker.address()).await,
        Run::Snapshot => snapshot::run(call).await,
        Run::Restore => restore::run(call).await,
    }
}

/// Commands may look at every file or every watch, so they do not run, and their text is not made, on the thread that
/// serves all requests. They are not interrupted when their client leaves. Permit and turn count them until they end,
/// and by then the answer counts. If there is no room for an answer as large as the last one, it is not begun.
async fn tell_apart(call: Call, tell: table::Tell, address: IpAddr) -> Response {
    let name = call.command.names[0];
    let refuse = |ApiError { status, message, .. }: ApiError| {
        Answer::of(name).with_error(status, message).into_response()
    };
    // Before the turn, so that those who wait for it are counted, too.
    let permit = match call.room.limits.blocking(address) {
        Ok(permit) => permit,
        Err(error) => return refuse(error),
    };
    let mut last_bytes = call.room.turn(call.command).await;
    let room_for_answer = match *last_bytes > LARGE_BYTES {
        true => call.room.limits.answer(address, *last_bytes).map(Some),
        false => Ok(None),
    };
    let room_for_answer = match room_for_answer {
        Ok(room) => room,
        Err(error) => return refuse(error),
    };
    let told = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = Answer::of(call.command.names[0]);
        let ids = match call.sees_all {
            true => IdView::Whole,
            false => IdView::Masked(&call.room.masks),
        };
        let asked = told::Asked { room: &call.room, arguments: &call.arguments, ids };
        let response = tell(&asked, answer).into_response();
        *last_bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
        drop(room_for_answer);
        large_answers::counted(&call.room.limits, address, response).unwrap_or_else(refuse)
    });
    told.await
        .unwrap_or_else(|_| Answer::of(name).failed("the command ended early").into_response())
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
        fields.push(("command".to_owned(), Json::Text(command.clone())));
        if fields.iter().all(|(key, _)| key != "error") {
            fields.push(("error".to_owned(), error.map_or(Json::Null, Json::Text)));
        }
        let Some(text) = Json::Object(fields).to_text(TEXT_BYTES_MAX) else {
            let why = format!("the answer is larger than {TEXT_BYTES_MAX} bytes");
            return Answer::of(&command)
                .with_error(StatusCode::PAYLOAD_TOO_LARGE, why)
                .into_response();
        };
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use axum::extract::ConnectInfo;
    use axum::http::Request;
    use herdsman_client::{Client, PersistentWatch};
    use herdsman_testing::TestServer;
    use tower_service::Service;

    use super::*;

    /// A connection whose watches make `wchp` a large answer.
    async fn client_with_watches(server: &TestServer) -> (Client, Vec<PersistentWatch>) {
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let mut watches = Vec::new();
        for number in 0..100 {
            let path = format!("/{number}{}", "w".repeat(LARGE_BYTES / 100));
            watches.push(client.watch(&path).await.unwrap());
        }
        (client, watches)
    }

    fn call(room: &Arc<Room>, name: &str) -> Call {
        let command = table::find(name).unwrap();
        let (room, arguments) = (Arc::clone(room), HashMap::new());
        Call { room, command, sees_all: false, arguments, body: Body::empty() }
    }

    /// It used to be made on the thread that answers health checks, and counted when it was there.
    #[test]
    fn the_text_of_a_command_is_made_and_counted_by_its_thread() {
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let mut routes = routes(&state).with_state(state.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let _client = client_with_watches(&server).await;
            let peer = SocketAddr::from(([10, 0, 0, 1], 1));
            let mut request = Request::get("/commands/wchp").body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
            let mut asked = Box::pin(routes.call(request));
            assert!(futures_util::poll!(&mut asked).is_pending());
            // The only thread works in order, so it has done all it does for the command after this, and the thread
            // that serves requests has done nothing for it.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let all = || state.limits.answer(peer.ip(), usize::MAX);
            assert!(all().is_err(), "the answer is there, and counts");
            let answer = asked.await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert!(answer.body().size_hint().lower() > LARGE_BYTES as u64);
            drop(answer);
            assert!(all().is_ok());
        });
    }

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
            let mut ask = |name: &str| {
                let peer = SocketAddr::from(([10, 0, 0, 1], 1));
                let mut request =
                    Request::get(format!("/commands/{name}")).body(Body::empty()).unwrap();
                request.extensions_mut().insert(ConnectInfo(peer));
                Box::pin(routes.call(request))
            };
            let tell = |command: &&Command| matches!(command.run, Run::Tell(_));
            let mut refused = 0;
            for command in COMMANDS.iter().filter(tell).take(20) {
                // Asked, and left.
                if let std::task::Poll::Ready(answer) =
                    futures_util::poll!(&mut ask(command.names[0]))
                {
                    assert_eq!(answer.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
                    refused += 1;
                }
            }
            assert_eq!(refused, 12, "8 of one address may wait");
            drop(end);
            _ = blocked.await;
            // The only thread works in order, so the 8 are done after this.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(ask("wchp").await.unwrap().status(), StatusCode::OK);
        });
    }

    /// The answers to all requests for the same command used to be made at once, 110 MB each with 400,000 watches.
    #[test]
    fn a_command_is_carried_out_once_at_a_time() {
        static GATE: parking_lot::Mutex<Option<mpsc::Receiver<()>>> = parking_lot::Mutex::new(None);
        // The first one waits here until the test lets it go on.
        fn wait(_: &told::Asked<'_>, answer: Answer) -> Answer {
            let gate = GATE.lock().take();
            _ = gate.map(|gate| gate.recv());
            answer
        }
        let (go, gate) = mpsc::channel();
        *GATE.lock() = Some(gate);
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let room = Arc::new(Room::new(&state));
        let peer = IpAddr::from([10, 0, 0, 1]);
        let ask = |name| Box::pin(tell_apart(call(&room, name), wait, peer));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut first = ask("wchp");
            assert!(futures_util::poll!(&mut first).is_pending());
            while GATE.lock().is_some() {
                tokio::task::yield_now().await;
            }
            let mut second = ask("wchp");
            assert!(futures_util::poll!(&mut second).is_pending());
            assert_eq!(ask("wchc").await.status(), StatusCode::OK, "another command goes on");
            // Had the second one been given to the thread that is free, it would be done: before that of the other.
            assert!(futures_util::poll!(&mut second).is_pending());
            // The first client leaves, and its command goes on.
            drop(first);
            assert!(futures_util::poll!(&mut second).is_pending());
            drop(go);
            assert_eq!(second.await.status(), StatusCode::OK);
        });
    }

    /// 28 of 32 large answers used to be made and then refused.
    #[tokio::test]
    async fn an_answer_for_which_there_is_no_room_is_not_made_again() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        fn large(_: &told::Asked<'_>, answer: Answer) -> Answer {
            MADE.fetch_add(1, Ordering::Relaxed);
            answer.put("paths", "x".repeat(LARGE_BYTES))
        }
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let room = Arc::new(Room::new(&state));
        let peer = IpAddr::from([10, 0, 0, 1]);
        let status = async |peer| tell_apart(call(&room, "wchp"), large, peer).await.status();
        let unread = state.limits.answer(peer, usize::MAX).unwrap();
        assert_eq!(status(peer).await, StatusCode::TOO_MANY_REQUESTS, "it was not known before");
        assert_eq!(status(peer).await, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
        assert_eq!(status(IpAddr::from([10, 0, 0, 2])).await, StatusCode::OK);
        drop(unread);
        assert_eq!(status(peer).await, StatusCode::OK);
        assert_eq!(MADE.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn an_answer_that_is_too_large_is_refused() {
        let text = "x".repeat(TEXT_BYTES_MAX);
        let response = Answer::of("wchp").put("paths", text).into_response();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert!(response.body().size_hint().upper().is_some_and(|bytes| bytes < 1000));
    }
}
