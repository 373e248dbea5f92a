//! Apache's `AdminServer`: commands under `/commands`, with the same names and the same JSON.
//!
//! In: `GET /commands/NAME` (one command needs `POST`). Out: an object in which `command` and `error` are
//! always present, formatted as by Jackson. Unknown commands, and those that need a serving server while
//! it is not serving, get status 200 and an `error`, because Apache does that and scripts rely on it.
//! Apache: `JettyAdminServer`, `Commands`.
//!
//! How we differ: `error` has a sentence whenever something failed (Apache leaves it null after a failed
//! snapshot or restore); the wrong method is 405, not an internal error; keys of maps are sorted;
//! properties of the JVM are left out of `environment` and `system_properties`; secrets are hidden in
//! `initial_configuration`; Java's address objects are shown without checking whether they are reachable.
//!
//! The files: `table` lists the commands, `reports` and `ensemble` have those that only read, `snapshot` and
//! `restore` the two that need authorization (`access`), `json` formats the response.

pub(crate) mod access;
mod ensemble;
mod json;
mod rate_limit;
mod reports;
mod restore;
mod snapshot;
mod table;

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
use access::Caller;
use json::Json;
use rate_limit::RateLimit;
use table::{COMMANDS, Command, Run};

pub use table::commands_markdown;

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
/// Most bytes of a response.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// The state that commands share.
struct CommandContext {
    server: ServerHandle,
    settings: Arc<AdminSettings>,
    /// The configuration file as it was at the start, without comments, secrets hidden.
    initial_configuration: Option<String>,
    snapshots: RateLimit,
    restores: RateLimit,
    masks: Arc<Masks>,
    limits: Arc<Limits>,
    /// For each command, the size of its last response. Locked while a response is made: that takes several times
    /// the memory of its text, so the same command runs only once at a time.
    answer_sizes: HashMap<&'static str, Arc<Mutex<usize>>>,
}

impl CommandContext {
    fn new(state: &AdminState) -> Self {
        let rate_limit = state.settings.rate_limit;
        CommandContext {
            initial_configuration: reports::initial_configuration(state.server.config()),
            server: state.server.clone(),
            settings: Arc::clone(&state.settings),
            snapshots: RateLimit::new("snapshot", rate_limit),
            restores: RateLimit::new("restore", rate_limit),
            masks: Arc::clone(&state.masks),
            limits: Arc::clone(&state.limits),
            answer_sizes: COMMANDS
                .iter()
                .map(|command| (command.names[0], Arc::default()))
                .collect(),
        }
    }

    /// Waits until no other thread runs this command.
    async fn turn(&self, command: &Command) -> OwnedMutexGuard<usize> {
        let turn = self.answer_sizes.get(command.names[0]).cloned().unwrap_or_default();
        turn.lock_owned().await
    }
}

/// The routes of the commands.
pub fn routes(state: &AdminState) -> Router<AdminState> {
    let url = state.settings.command_url.clone();
    Router::new()
        .route(&url, get(list).post(list))
        .route(&format!("{url}/"), get(list).post(list))
        .route(&format!("{url}/{{*name}}"), get(run).post(run))
        .with_state(Arc::new(CommandContext::new(state)))
}

/// A page with links to all commands.
async fn list(State(context): State<Arc<CommandContext>>) -> Html<String> {
    let url = &context.settings.command_url;
    let mut names: Vec<_> = COMMANDS.iter().map(|command| command.names[0]).collect();
    names.sort_unstable();
    Html(names.iter().map(|name| format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n")).collect())
}

/// A request for a command.
struct Call {
    context: Arc<CommandContext>,
    command: &'static Command,
    /// Whether the caller may see everything.
    sees_all: bool,
    arguments: HashMap<String, String>,
    body: Body,
}

async fn run(
    State(context): State<Arc<CommandContext>>,
    Path(name): Path<String>,
    caller: Caller,
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
        && let Err(why) = guard::check_command(caller.headers())
    {
        return Answer::of(&name).with_error(StatusCode::FORBIDDEN, why).into_response();
    }
    if command.needs_server && !context.server.is_serving() {
        return Answer::of(&name).with_error(StatusCode::OK, NOT_SERVING).into_response();
    }
    let access = access::check(&context.server, &caller);
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
    let call = Call { context, command, sees_all, arguments, body };
    match command.run {
        Run::Report(report) => run_on_thread(call, report, caller.address()).await,
        Run::Snapshot => snapshot::run(call).await,
        Run::Restore => restore::run(call).await,
    }
}

/// Runs a command on a blocking thread: it may read every file or every watch, so neither the command nor the making of
/// its text may run on the thread that serves all requests. It is not interrupted when its client leaves. Permit and
/// lock are held until it ends, and then the response counts. If there is no room for a response as large as the last
/// one, the command is not started.
async fn run_on_thread(call: Call, report: table::Report, address: IpAddr) -> Response {
    let name = call.command.names[0];
    let refuse = |ApiError { status, message, .. }: ApiError| {
        Answer::of(name).with_error(status, message).into_response()
    };
    // Before the lock, so that requests that wait for it are counted, too.
    let permit = match call.context.limits.blocking(address) {
        Ok(permit) => permit,
        Err(error) => return refuse(error),
    };
    let mut last_bytes = call.context.turn(call.command).await;
    let room_for_answer = match *last_bytes > LARGE_BYTES {
        true => call.context.limits.answer(address, *last_bytes).map(Some),
        false => Ok(None),
    };
    let room_for_answer = match room_for_answer {
        Ok(room) => room,
        Err(error) => return refuse(error),
    };
    let response = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = Answer::of(call.command.names[0]);
        let ids = match call.sees_all {
            true => IdView::Whole,
            false => IdView::Masked(&call.context.masks),
        };
        let request =
            reports::CommandRequest { context: &call.context, arguments: &call.arguments, ids };
        let response = report(&request, answer).into_response();
        *last_bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
        drop(room_for_answer);
        large_answers::counted(&call.context.limits, address, response).unwrap_or_else(refuse)
    });
    response
        .await
        .unwrap_or_else(|_| Answer::of(name).failed("the command ended early").into_response())
}

/// The response of a command: fields in order, then `command` and `error`.
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

    /// An error that the command itself detects: Apache then has it among the command's own fields.
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
            let why = format!("the response is larger than {TEXT_BYTES_MAX} bytes");
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

    /// A client whose watches make the response of `wchp` large.
    async fn client_with_watches(server: &TestServer) -> (Client, Vec<PersistentWatch>) {
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let mut watches = Vec::new();
        for number in 0..100 {
            let path = format!("/{number}{}", "w".repeat(LARGE_BYTES / 100));
            watches.push(client.watch(&path).await.unwrap());
        }
        (client, watches)
    }

    fn call(context: &Arc<CommandContext>, name: &str) -> Call {
        let command = table::find(name).unwrap();
        let (context, arguments) = (Arc::clone(context), HashMap::new());
        Call { context, command, sees_all: false, arguments, body: Body::empty() }
    }

    /// It used to be made on the thread that answers health checks, and counted only when it was complete.
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
            let mut pending = Box::pin(routes.call(request));
            assert!(futures_util::poll!(&mut pending).is_pending());
            // The only blocking thread works in order, so after this it has completed the command, and the thread
            // that serves requests has done nothing for it.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let all = || state.limits.answer(peer.ip(), usize::MAX);
            assert!(all().is_err(), "the response is complete and counts");
            let answer = pending.await.unwrap();
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
            let tell = |command: &&Command| matches!(command.run, Run::Report(_));
            let mut refused = 0;
            for command in COMMANDS.iter().filter(tell).take(20) {
                // The client has sent its request and left.
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

    /// Responses of the same command used to be made concurrently, 110 MB each with 400,000 watches.
    #[test]
    fn a_command_runs_only_once_at_a_time() {
        static GATE: parking_lot::Mutex<Option<mpsc::Receiver<()>>> = parking_lot::Mutex::new(None);
        // The first one waits here until the test lets it continue.
        fn wait(_: &reports::CommandRequest<'_>, answer: Answer) -> Answer {
            let gate = GATE.lock().take();
            _ = gate.map(|gate| gate.recv());
            answer
        }
        let (go, gate) = mpsc::channel();
        *GATE.lock() = Some(gate);
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let context = Arc::new(CommandContext::new(&state));
        let peer = IpAddr::from([10, 0, 0, 1]);
        let ask = |name| Box::pin(run_on_thread(call(&context, name), wait, peer));
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
            assert_eq!(
                ask("wchc").await.status(),
                StatusCode::OK,
                "another command is not blocked"
            );
            // If the second one had been given to the free thread, it would have ended before the other command.
            assert!(futures_util::poll!(&mut second).is_pending());
            // The first client leaves, and its command continues.
            drop(first);
            assert!(futures_util::poll!(&mut second).is_pending());
            drop(go);
            assert_eq!(second.await.status(), StatusCode::OK);
        });
    }

    /// 28 of 32 large responses used to be made and then rejected.
    #[tokio::test]
    async fn an_answer_for_which_there_is_no_room_is_not_made_again() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        fn large(_: &reports::CommandRequest<'_>, answer: Answer) -> Answer {
            MADE.fetch_add(1, Ordering::Relaxed);
            answer.put("paths", "x".repeat(LARGE_BYTES))
        }
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let context = Arc::new(CommandContext::new(&state));
        let peer = IpAddr::from([10, 0, 0, 1]);
        let status = async |peer| run_on_thread(call(&context, "wchp"), large, peer).await.status();
        let unread = state.limits.answer(peer, usize::MAX).unwrap();
        assert_eq!(
            status(peer).await,
            StatusCode::TOO_MANY_REQUESTS,
            "its size was not known before"
        );
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
