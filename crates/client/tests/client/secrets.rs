//! Secrets of a client must not appear in its log, in errors, or in debug output.

use herdsman_client::tls::{Password, Secret, StoreSettings, TlsSettings};
use herdsman_client::{ErrorKind, Options};
use herdsman_testing::TestServer;
use tempfile::TempDir;
use tracing::Level;

use crate::world::{Log, options, within};
use herdsman_testing::Authority;

/// Every secret contains this.
const MARK: &str = "hush";

/// Connects, and returns everything that can be seen of the attempt besides the log.
async fn seen(options: Options, server: &TestServer) -> String {
    let shown = format!("{options:?}");
    match within(options.connect(&server.connect_string())).await {
        Ok(client) => format!("{shown} {client:?}"),
        Err(error) => format!("{shown} {error} {error:?}"),
    }
}

// One thread, so that all of the client's work is done where its log is captured.
#[tokio::test(flavor = "current_thread")]
async fn a_client_reveals_no_secret() {
    let directory = TempDir::new().unwrap();
    let jaas = directory.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    std::fs::write(&jaas, format!("Server {{ {module} required user_ann=\"hush-sasl\"; }};"))
        .unwrap();
    let server = TestServer::start_with(|config| {
        config.sasl.login_file = Some(jaas);
        config.access.sasl_scheme = true;
    });
    let log = Log::default();
    let _guard = log.keep(Level::TRACE);

    let with_password = |password: &str| {
        let store = StoreSettings::new(Authority::new().sign("ann"))
            .with_password(Password::Given(Secret::new(password)));
        let tls = TlsSettings {
            trust_store: Some(store.clone()),
            key_store: Some(store),
            ..TlsSettings::default()
        };
        options().tls(tls)
    };
    let everything = [
        seen(options().sasl("ann", "hush-sasl"), &server).await,
        seen(options().sasl("ann", "hush-wrong"), &server).await,
        seen(options().credentials("digest", "ann:hush-digest"), &server).await,
        seen(with_password("hush-store"), &server).await,
    ];
    assert!(everything[1].contains(&format!("{:?}", ErrorKind::AuthFailed)), "{}", everything[1]);
    let log = log.text();
    assert!(log.contains("the SASL login failed"), "{log}");
    for text in everything.iter().chain([&log]) {
        assert!(!text.contains(MARK), "{text}");
    }
}
