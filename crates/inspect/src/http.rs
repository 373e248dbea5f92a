//! The two commands of an admin server that move whole trees: `snapshot` and `restore`.
//!
//! In: the address of a Herdsman or an Apache 3.9 admin server, and credentials. Out: a snapshot as a
//! stream, or the zxid that was restored; or an error with the server's reason and what to do.
//! Apache streams the file that it has just written, packed if `snapshot.compression.method` says so, and
//! accepts only an uncompressed one. Apache: `Commands.SnapshotCommand`, `RestoreCommand`.

use std::io::{self, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use herdsman_protection::{AuthArguments, Credentials, TlsArguments, https};
use herdsman_secret::Secret;
use herdsman_tls::TlsSettings;
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body, SendBody};

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A server writes its snapshot to disk before it responds.
const RESPONSE_WAIT_MAX: Duration = Duration::from_secs(600);
/// Limit of a response that is not a snapshot.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
const PIECE_BYTES: usize = 128 << 10;
/// Limit of a server's reason in a message.
const REASON_CHARS_MAX: usize = 500;
const NO_REASON: &str = "it gave no reason";
/// The end of the error message of a restore that was sent and got no response.
const MAYBE_RESTORED: &str = "the server may have restored it, or may still do so: check its last zxid (srvr) before you try again";

/// The admin server and the credentials.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArguments {
    /// The admin server, as http://host:8080, or https:// with --tls-trust-store. The credentials need all
    /// permissions on /.
    #[arg(long, alias = "server", value_name = "URL")]
    pub(crate) admin: Option<String>,
    #[command(flatten)]
    auth: AuthArguments,
    #[command(flatten)]
    tls: TlsArguments,
}

impl ServerArguments {
    /// The client of the admin server, if one is named.
    pub(crate) fn open(&self) -> Result<Option<AdminServer>> {
        let Some(url) = &self.admin else {
            return match self.auth.any_flag().or(self.tls.any_flag()) {
                Some(flag) => bail!("{flag} can only be used with --admin"),
                None => Ok(None),
            };
        };
        let credentials = self.auth.credentials()?;
        if credentials.len() > 1 {
            bail!("an admin server accepts only one --auth");
        }
        AdminServer::new(url, credentials.first(), self.tls.settings()?).map(Some)
    }
}

/// A client of an admin server.
pub(crate) struct AdminServer {
    agent: Agent,
    /// Without a slash at its end.
    base: String,
    authorization: Option<Secret>,
}

/// A response whose body is a snapshot.
pub(crate) struct SnapshotStream {
    body: Body,
    /// The txn that names it.
    pub(crate) last_zxid: Option<String>,
    /// Its length, if the server has announced it.
    pub(crate) bytes: Option<u64>,
}

impl AdminServer {
    fn new(url: &str, auth: Option<&Credentials>, tls: Option<TlsSettings>) -> Result<Self> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!("{url} is not the address of an admin server: give it as http://host:8080");
        }
        let base = url.trim_end_matches('/').trim_end_matches("/commands").to_owned();
        let authorization = auth.map(authorization);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_per_read(Some(RESPONSE_WAIT_MAX))
            .timeout_per_write(Some(RESPONSE_WAIT_MAX))
            .build();
        Ok(AdminServer { agent: https::agent(config, tls)?, base, authorization })
    }

    /// The server's address, for messages.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Requests a snapshot.
    pub(crate) fn snapshot(&self) -> Result<SnapshotStream> {
        let mut request = self.agent.get(format!("{}/commands/snapshot?streaming=true", self.base));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization.expose());
        }
        let response = request.call().map_err(|error| self.unreachable(&error))?;
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let last_zxid = header("last_zxid");
        let bytes = header("snapshot_size").and_then(|text| text.parse().ok());
        let is_text = header("content-type").is_some_and(|kind| kind.contains("json"));
        if response.status() != StatusCode::OK || is_text {
            return Err(self.refusal(response, "snapshot"));
        }
        Ok(SnapshotStream { body: response.into_body(), last_zxid, bytes })
    }

    /// Sends an uncompressed snapshot. Returns the last zxid of the response. Errors say whether it may be restored.
    pub(crate) fn restore(&self, content: &mut dyn Read, bytes: Option<u64>) -> Result<String> {
        let mut request = self
            .agent
            .post(format!("{}/commands/restore", self.base))
            .header("Content-Type", "application/octet-stream")
            // A server that refuses at once says so before the snapshot is on its way; else it would close
            // meanwhile, and its reason would be lost.
            .header("Expect", "100-continue");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization.expose());
        }
        if let Some(bytes) = bytes {
            request = request.header("Content-Length", bytes.to_string());
        }
        let mut content = TrackedBody { content, is_read: false };
        let sent = request.send(SendBody::from_reader(&mut content));
        let response = sent.map_err(|error| match content.is_read {
            true => anyhow!("{}; {MAYBE_RESTORED}", self.unreachable(&error)),
            false => {
                let error = self.unreachable(&error);
                anyhow!("{error}; the snapshot was not sent: nothing was changed")
            }
        })?;
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response, "restore"));
        }
        let answer = read_answer(response.into_body());
        match answer.get("last_zxid").and_then(Value::as_i64) {
            Some(zxid) if answer.get("error").is_none_or(Value::is_null) => {
                Ok(format!("{zxid:#x}"))
            }
            _ => match reason(&answer) {
                Some(why) => bail!("{}: restore failed: {why}", self.base),
                None => bail!("{}: incomplete response; {MAYBE_RESTORED}", self.base),
            },
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> anyhow::Error {
        anyhow!("{}: {error}", self.base)
    }

    /// The error for a refusal: the server's reason, and what to do.
    fn refusal(&self, response: Response<Body>, command: &str) -> anyhow::Error {
        let status = response.status().as_u16();
        let answer = read_answer(response.into_body());
        let reason = reason(&answer);
        if status == 200 {
            let why = reason.as_deref().unwrap_or(NO_REASON);
            return anyhow!("{}: no {command}: {why}", self.base);
        }
        // Other parts of a server refuse with the same status for other reasons.
        let is_of_command = answer.get("command").is_some();
        let why = match (reason, hint(status)) {
            (Some(reason), Some(hint)) if is_of_command && matches!(status, 401 | 403) => {
                format!("{reason}; {hint}")
            }
            (Some(reason), _) => reason,
            (None, hint) => hint.unwrap_or(NO_REASON).to_owned(),
        };
        anyhow!("{} answered {status} to {command}: {why}", self.base)
    }
}

/// A body that records whether sending it has begun.
struct TrackedBody<'a> {
    content: &'a mut dyn Read,
    is_read: bool,
}

impl Read for TrackedBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_read = true;
        self.content.read(buffer)
    }
}

/// Advice for a status code.
fn hint(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => {
            "the server requires credentials: use --auth-file, or set HERDSMAN_AUTH=digest:user:password"
        }
        403 => "these credentials do not have all permissions on /",
        404 | 405 => {
            "it does not have this command: use an admin server of Herdsman or of Apache ZooKeeper 3.9"
        }
        429 => {
            "too many requests: one per interval is allowed (admin.rateLimiterIntervalInMS, 5 minutes by default)"
        }
        503 => {
            "the command is disabled (admin.snapshot.enabled, admin.restore.enabled), or the server does not serve"
        }
        300..=399 => "it redirects, perhaps to https",
        500..=599 => {
            "the command failed; see the server's log (serializeLastProcessedZxid.enabled must be true)"
        }
        _ => return None,
    })
}

impl SnapshotStream {
    /// Writes the snapshot to a file. Fails if its length is not the announced one.
    pub(crate) fn copy_to(
        mut self,
        file: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let mut reader = self.body.with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; PIECE_BYTES];
        let mut total = 0;
        loop {
            let count =
                reader.read(&mut piece).context("the transfer of the snapshot was interrupted")?;
            if count == 0 {
                break;
            }
            total += count as u64;
            if self.bytes.is_some_and(|bytes| total > bytes) {
                bail!(
                    "the server sent more than the {} bytes that it announced",
                    self.bytes.unwrap_or(0)
                );
            }
            file.write_all(&piece[..count]).context("cannot write the snapshot")?;
            progress(count as u64);
        }
        match self.bytes {
            Some(bytes) if bytes != total => {
                bail!("the server announced {bytes} bytes and sent {total}")
            }
            _ => Ok(total),
        }
    }
}

/// Formats credentials as the header that admin servers expect.
fn authorization(auth: &Credentials) -> Secret {
    Secret::new(format!("{} {}", auth.scheme, auth.secret.expose()))
}

/// Decodes a response as JSON; null if it is not JSON.
fn read_answer(mut body: Body) -> Value {
    let text = body.with_config().limit(ANSWER_BYTES_MAX).read_to_string().unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The server's reason, safe to print: its message if there is one, else its error.
fn reason(answer: &Value) -> Option<String> {
    let text = |field| answer.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text("message").or(text("error"))?;
    let mut short: String = text.chars().take(REASON_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    Some(crate::show::clean(&short))
}
