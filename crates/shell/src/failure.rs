//! Failures of commands: as one line for users, as an object for scripts, and as an exit code.

use herdsman_client::{Error, ErrorKind, Outcome};
use herdsman_proto::ErrorCode;
use serde_json::{Value, json};

use crate::interrupts::Interrupt;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command is invalid.
    #[error("{0}")]
    Usage(String),
    /// The server returned an error, or could not be reached.
    #[error("{}", describe(.0))]
    Server(#[from] Error),
    /// The znode does not exist: the command checked.
    #[error("Node does not exist: {0}")]
    NoNode(String),
    /// Anything else that is not a mistake in the command: a file, a conflicting quota, no connection.
    #[error("{0}")]
    Failed(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted(Interrupt),
    /// The reader of the output has closed it.
    #[error("the output is closed")]
    ReaderGone,
    /// Only the exit code is left to report: `diff` has printed the differences it found.
    #[error("exit code {0}")]
    Answer(u8),
}

impl Failure {
    /// A failure with this message.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure::Failed(text.into())
    }

    /// A usage error with this message.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure::Usage(text.into())
    }

    /// The exit code of the process if this failure ends it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            // Rejected before anything was sent.
            Failure::Server(error) if matches!(error.kind(), ErrorKind::InvalidPath(_)) => 2,
            Failure::Server(_) | Failure::NoNode(_) | Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Interrupted(Interrupt::CtrlC) => 130,
            Failure::Interrupted(Interrupt::Terminate) => 143,
            Failure::ReaderGone => 141,
            Failure::Answer(code) => *code,
        }
    }

    /// The failure as `{"error": …, "path": …, "message": …}`.
    pub(crate) fn to_json(&self) -> Value {
        let (error, path) = match self {
            Failure::Usage(_) => ("Usage".to_owned(), None),
            Failure::Server(error) => (name_of(error.kind()), error.path()),
            Failure::NoNode(path) => ("NoNode".to_owned(), Some(path.as_str())),
            Failure::Failed(_) => ("Failed".to_owned(), None),
            Failure::Interrupted(_) => ("Interrupted".to_owned(), None),
            Failure::ReaderGone => ("ReaderGone".to_owned(), None),
            Failure::Answer(_) => ("Answer".to_owned(), None),
        };
        json!({"error": error, "path": path, "message": self.to_string()})
    }
}

/// The error's name in Apache's documentation, without its data.
fn name_of(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::Reconfig(code) => format!("{code:?}"),
        ErrorKind::ReadOnly => "NotReadOnly".to_owned(),
        other => {
            let shown = format!("{other:?}");
            let end = shown.find(|c: char| !c.is_alphanumeric()).unwrap_or(shown.len());
            shown[..end].to_owned()
        }
    }
}

/// The message of an error. Uses zkCli's words where it has its own, because scripts look for them.
pub(crate) fn describe(error: &Error) -> String {
    let path = error.path().unwrap_or("the request");
    let text = match error.kind() {
        ErrorKind::NoNode => format!("Node does not exist: {path}"),
        ErrorKind::NodeExists => format!("Node already exists: {path}"),
        ErrorKind::NotEmpty => format!("Node not empty: {path}"),
        ErrorKind::NoChildrenForEphemerals => format!("Ephemerals cannot have children: {path}"),
        ErrorKind::ReadOnly => format!("Not a read-only call: {path}"),
        ErrorKind::InvalidAcl => format!("Acl is not valid : {path}"),
        ErrorKind::NoAuth => format!("Insufficient permission : {path}"),
        ErrorKind::BadVersion => format!("version No is not valid : {path}"),
        ErrorKind::QuotaExceeded => format!("Quota has exceeded : {path}"),
        ErrorKind::InvalidPath(why) => format!("not a valid path: {why}"),
        ErrorKind::InvalidArgument(why) => format!("Arguments are not valid : {path} ({why})"),
        ErrorKind::Reconfig(code) => refused_reconfig(*code).to_owned(),
        ErrorKind::ConnectFailed(why) => why.clone(),
        _ => return error.to_string(),
    };
    match error.outcome() {
        Outcome::Unknown => format!("{text} (it may have been applied)"),
        Outcome::Applied | Outcome::NotApplied => text,
    }
}

fn refused_reconfig(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::ReconfigInProgress => "Another reconfiguration is in progress; try again later",
        ErrorCode::NewConfigNoQuorum => {
            "No quorum of the new members is connected and up to date; try again when they are"
        }
        _ => "Reconfig is disabled; servers need reconfigEnabled=true",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_exit_codes_that_shells_give_them() {
        assert_eq!(Failure::Interrupted(Interrupt::CtrlC).exit_code(), 128 + 2);
        assert_eq!(Failure::Interrupted(Interrupt::Terminate).exit_code(), 128 + 15);
    }

    #[test]
    fn errors_have_a_name_a_text_and_a_code() {
        let table = [
            (ErrorKind::NoNode, "NoNode", 1),
            (ErrorKind::ReadOnly, "NotReadOnly", 1),
            (ErrorKind::Reconfig(ErrorCode::ReconfigDisabled), "ReconfigDisabled", 1),
            (ErrorKind::ConnectFailed("none of a:1 …".into()), "ConnectFailed", 1),
            (ErrorKind::TooLarge { bytes: 1, limit: 0 }, "TooLarge", 1),
            (ErrorKind::InvalidArgument("no".into()), "InvalidArgument", 1),
            (ErrorKind::InvalidPath("no".into()), "InvalidPath", 2),
        ];
        for (kind, name, code) in table {
            let failure = Failure::from(Error::not_applied(kind));
            assert_eq!(failure.to_json()["error"], name);
            assert_eq!(failure.exit_code(), code, "{name}");
            assert!(!failure.to_string().contains('\n'));
        }
    }
}
