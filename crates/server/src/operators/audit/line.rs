//! The format of a line: its fields and their order. Apache: `AuditEvent`.

use std::fmt::{self, Write};

use herdsman_proto::SessionId;

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    /// Requested; the outcome is not known to this server.
    Invoked,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Success => "success",
            Outcome::Failure => "failure",
            Outcome::Invoked => "invoked",
        })
    }
}

/// The fields of a line in order; those without a value are left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub session: Option<SessionId>,
    pub user: Option<&'a str>,
    pub ip: Option<&'a str>,
    pub operation: &'a str,
    pub znode: Option<&'a str>,
    pub znode_type: Option<&'a str>,
    pub acl: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// A line with nothing but an operation.
    pub fn of(operation: &'a str) -> Self {
        Fields {
            session: None,
            user: None,
            ip: None,
            operation,
            znode: None,
            znode_type: None,
            acl: None,
        }
    }

    /// Formats the line, without a line end.
    pub fn line(&self, outcome: Outcome) -> String {
        let mut line = String::with_capacity(160);
        if let Some(session) = self.session {
            let _ = write!(line, "session={session}\t");
        }
        for (key, value) in [
            ("user", self.user),
            ("ip", self.ip),
            ("operation", Some(self.operation)),
            ("znode", self.znode),
            ("znode_type", self.znode_type),
            ("acl", self.acl),
        ] {
            if let Some(value) = value {
                line.push_str(key);
                line.push('=');
                push_escaped(&mut line, value);
                line.push('\t');
            }
        }
        let _ = write!(line, "result={outcome}");
        line
    }
}

/// Escapes a path or a name that a client has chosen, so that it cannot add fields or lines. Apache
/// does not escape.
fn push_escaped(line: &mut String, value: &str) {
    for letter in value.chars() {
        if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_apaches_order_and_only_if_they_have_a_value() {
        let all = Fields {
            session: Some(SessionId(0x0193_4473_0000)),
            user: Some("192.168.1.2,bob"),
            ip: Some("192.168.1.2"),
            operation: "setAcl",
            znode: Some("/a"),
            znode_type: Some("persistent"),
            acl: Some("world:anyone:cdrwa"),
        };
        assert_eq!(
            all.line(Outcome::Failure),
            "session=0x19344730000\tuser=192.168.1.2,bob\tip=192.168.1.2\toperation=setAcl\t\
             znode=/a\tznode_type=persistent\tacl=world:anyone:cdrwa\tresult=failure"
        );
        let server = Fields { user: Some("zk"), ..Fields::of("serverStop") };
        assert_eq!(server.line(Outcome::Invoked), "user=zk\toperation=serverStop\tresult=invoked");
    }

    #[test]
    fn nobody_can_forge_a_line() {
        let fields = Fields {
            user: Some("bob\tresult=success"),
            znode: Some("/a\nsession=0x1\u{2028}"),
            ..Fields::of("create")
        };
        assert_eq!(
            fields.line(Outcome::Failure),
            "user=bob\\tresult=success\toperation=create\tznode=/a\\nsession=0x1\\u{2028}\t\
             result=failure"
        );
    }
}
