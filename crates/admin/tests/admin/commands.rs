//! Apache's commands, health, metrics and the port itself, against real servers in this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod health;
mod https;
mod port;
mod reports;
mod restore;
mod snapshot;

use std::io::Read;
use std::time::Duration;

use herdsman_admin::{Admin, AdminSettings};
use herdsman_client::Client;
use herdsman_config::Config;
use herdsman_config::Secret;
use herdsman_server::ServerHandle;
use herdsman_testing::TestServer;
use serde_json::Value;

/// The credentials of the super user that [`with_super`] sets.
const SUPER: &str = "digest super:test";

fn with_super(config: &mut Config) {
    config.access.super_digest = Some(Secret::new("super:D/InIHSb7yEEbrWz8b9l71RjZJU="));
}

fn settings() -> AdminSettings {
    AdminSettings { rate_limit: Duration::ZERO, ..AdminSettings::default() }
}

fn open(server: ServerHandle) -> Admin {
    Admin::start(server, settings()).expect("the admin server starts")
}

/// A response.
struct Answer {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn of(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
        let mut response = result.expect("the port answers");
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        response.body_mut().as_reader().read_to_end(&mut body).expect("a whole body");
        Answer { status, headers, body }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    ureq::Agent::new_with_config(config.timeout_global(Some(Duration::from_secs(60))).build())
}

fn get(admin: &Admin, path: &str) -> Answer {
    Answer::of(agent().get(format!("http://{}{path}", admin.address())).call())
}

fn get_as(admin: &Admin, path: &str, authorization: &str) -> Answer {
    let request = agent().get(format!("http://{}{path}", admin.address()));
    Answer::of(request.header("Authorization", authorization).call())
}

fn post_as(admin: &Admin, path: &str, authorization: &str, body: &[u8]) -> Answer {
    let request = agent().post(format!("http://{}{path}", admin.address()));
    let request = request.header("Authorization", authorization);
    Answer::of(request.header("Content-Type", "application/octet-stream").send(body))
}

/// Runs a client's work to completion.
fn with_client<T>(server: &TestServer, work: impl AsyncFnOnce(Client) -> T) -> T {
    with_client_of(&server.connect_string(), work)
}

fn with_client_of<T>(servers: &str, work: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::connect(servers).await.expect("a session");
        let result = work(client.clone()).await;
        _ = client.close().await;
        result
    })
}

/// The digest, the last txn and the number of znodes of a server's tree.
fn tree_of(server: &ServerHandle) -> (i64, herdsman_proto::Zxid, usize) {
    let tree = server.core().tree();
    (tree.digest(), tree.last_zxid(), tree.node_count())
}
