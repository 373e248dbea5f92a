//! The browser's driver: a separate process, on a free port, which ends with this one.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;
use tokio::process::{Child, Command};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
const POLLS_MAX: u32 = 300;

/// The screen that the browser emulates.
#[derive(Clone, Copy, Debug)]
pub enum Screen {
    /// A laptop.
    Wide,
    /// A phone, 390 pixels wide.
    Phone,
}

/// A running driver.
pub struct Driver {
    child: Child,
    address: String,
}

impl Driver {
    /// Starts it and waits until it responds.
    pub async fn start(program: &Path) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new(program);
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let mut driver = Driver { child, address: format!("http://127.0.0.1:{port}") };
        for _ in 0..POLLS_MAX {
            if tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
                return Ok(driver);
            }
            if let Some(status) = driver.child.try_wait()? {
                bail!("{} ended immediately: {status}", program.display());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        bail!("{} does not respond", program.display())
    }

    /// Opens a browser.
    pub async fn open(&self, screen: Screen) -> Result<Client> {
        let mut options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--window-size=1360,1000"],
        });
        if matches!(screen, Screen::Phone) {
            let metrics = json!({ "width": 390, "height": 844, "pixelRatio": 2.0, "touch": true });
            options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
        }
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        // Some checks leave a page with unsaved text on purpose; the browser's dialog must not block the
        // test.
        capabilities.insert("unhandledPromptBehavior".to_owned(), json!("accept"));
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        builder.connect(&self.address).await.context("opening the browser")
    }

    /// Stops it, and all browsers that are still open.
    pub async fn stop(mut self) {
        _ = self.child.kill().await;
    }
}
