//! Formats a txn: one line of text (and one for each part of a multi), or one object of
//! JSON.

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{ErrorCode, Txn};
use serde::Serialize;

use crate::show::{DataJson, DataShown, acl_texts, clean, data_text, time_text};

/// A txn in JSON.
#[derive(Serialize)]
pub(super) struct TxnJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    offset: u64,
    zxid: String,
    time: String,
    time_ms: i64,
    session: String,
    cxid: i32,
    #[serde(flatten)]
    change: ChangeJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest_version: Option<i32>,
}

/// The change of a txn in JSON; also of a part of a multi.
#[derive(Default, Serialize)]
struct ChangeJson {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Option<DataJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ephemeral: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_cversion: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i32>,
    /// Null in logs of servers before 3.6, which do not list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    ephemerals: Option<Option<Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<ChangeJson>>,
}

impl TxnJson {
    pub(super) fn of(file: Option<&str>, offset: u64, entry: &Entry, shown: DataShown) -> Self {
        TxnJson {
            file: file.map(str::to_owned),
            offset,
            zxid: entry.header.zxid.to_string(),
            time: time_text(entry.header.time_ms),
            time_ms: entry.header.time_ms,
            session: entry.header.session.to_string(),
            cxid: entry.header.cxid,
            change: ChangeJson::of(&entry.txn, shown),
            digest: entry.digest.map(|digest| digest.tree_digest),
            digest_version: entry.digest.map(|digest| digest.version),
        }
    }
}

impl ChangeJson {
    fn of(txn: &Txn, shown: DataShown) -> Self {
        let base = ChangeJson { kind: txn.op().name(), ..ChangeJson::default() };
        let at = |path: &str| Some(path.to_owned());
        match txn {
            Txn::Create(create) => base.with_create(create, shown),
            Txn::Delete { path, .. } => ChangeJson { path: at(path), ..base },
            Txn::SetData { path, data, version, .. } => ChangeJson {
                path: at(path),
                data: Some(DataJson::of(data.as_deref(), shown)),
                version: Some(*version),
                ..base
            },
            Txn::SetAcl { path, acl, version } => ChangeJson {
                path: at(path),
                acl: Some(acl_texts(acl)),
                version: Some(*version),
                ..base
            },
            Txn::Check { path, version } => {
                ChangeJson { path: at(path), version: Some(*version), ..base }
            }
            Txn::Multi(parts) => {
                let parts = parts.iter().map(|part| ChangeJson::of(part, shown)).collect();
                ChangeJson { parts: Some(parts), ..base }
            }
            Txn::CreateSession { timeout_ms } => {
                ChangeJson { timeout_ms: Some(*timeout_ms), ..base }
            }
            Txn::CloseSession { ephemerals } => {
                let texts = |paths: &Vec<Box<str>>| paths.iter().map(|p| p.to_string()).collect();
                ChangeJson { ephemerals: Some(ephemerals.as_ref().map(texts)), ..base }
            }
            Txn::Error(code) => ChangeJson { error: Some(*code), ..base },
        }
    }

    fn with_create(self, create: &CreateTxn, shown: DataShown) -> Self {
        let (ephemeral, ttl_ms) = match create.kind {
            CreateKind::Plain { ephemeral, .. } => (Some(ephemeral), None),
            CreateKind::Container => (None, None),
            CreateKind::Ttl(ttl_ms) => (None, Some(ttl_ms)),
        };
        ChangeJson {
            path: Some(create.path.to_string()),
            data: Some(DataJson::of(create.data.as_deref(), shown)),
            acl: Some(acl_texts(&create.acl)),
            ephemeral,
            ttl_ms,
            parent_cversion: Some(create.parent_cversion),
            ..self
        }
    }
}

/// Formats a txn as text: its line, and one for each part of a multi.
pub(super) fn txn_lines(entry: &Entry, shown: DataShown) -> Vec<String> {
    let header = &entry.header;
    let mut first = format!(
        "{:<12} {}  {:<18} {:>6}  {}",
        header.zxid.to_string(),
        time_text(header.time_ms),
        header.session.to_string(),
        header.cxid,
        change_text(&entry.txn, shown),
    );
    if let Some(digest) = entry.digest {
        first.push_str(&format!("  digest={}", digest.tree_digest));
    }
    let mut lines = vec![first];
    if let Txn::Multi(parts) = &entry.txn {
        lines.extend(parts.iter().map(|part| format!("{:>28}- {}", "", change_text(part, shown))));
    }
    lines
}

/// The headings of [`txn_lines`].
pub(super) const COLUMNS: &str =
    "zxid         time                      session              cxid  what";

/// Formats the change of a txn.
pub(super) fn change_text(txn: &Txn, shown: DataShown) -> String {
    let name = txn.op().name();
    match txn {
        Txn::Create(create) => create_text(name, create, shown),
        Txn::Delete { path, .. } => format!("{name} {}", clean(path)),
        Txn::SetData { path, data, version, .. } => {
            let data = data_text(data.as_deref(), shown);
            format!("{name} {} {data} version={version}", clean(path))
        }
        Txn::SetAcl { path, acl, version } => {
            format!("{name} {} acl={} version={version}", clean(path), acl_texts(acl).join(","))
        }
        Txn::Check { path, version } => format!("{name} {} version={version}", clean(path)),
        Txn::Multi(parts) if parts.iter().any(|part| matches!(part, Txn::Error(_))) => {
            format!("{name} of {}, failed as a whole", parts.len())
        }
        Txn::Multi(parts) => format!("{name} of {}", parts.len()),
        Txn::CreateSession { timeout_ms } => format!("{name} timeout={timeout_ms}ms"),
        Txn::CloseSession { ephemerals: None } => format!("{name} (ephemerals are not listed)"),
        Txn::CloseSession { ephemerals: Some(paths) } => {
            let paths: Vec<String> = paths.iter().map(|path| clean(path)).collect();
            if paths.is_empty() {
                name.to_owned()
            } else {
                format!("{name} deletes {}", paths.join(" "))
            }
        }
        Txn::Error(code) => format!("{name} {}", error_text(*code)),
    }
}

fn create_text(name: &str, create: &CreateTxn, shown: DataShown) -> String {
    let kind = match create.kind {
        CreateKind::Plain { ephemeral: true, .. } => " ephemeral".to_owned(),
        CreateKind::Plain { .. } | CreateKind::Container => String::new(),
        CreateKind::Ttl(ttl_ms) => format!(" ttl={ttl_ms}ms"),
    };
    let data = data_text(create.data.as_deref(), shown);
    let acl = acl_texts(&create.acl).join(",");
    format!(
        "{name} {} {data}{kind} acl={acl} parent_cversion={}",
        clean(&create.path),
        create.parent_cversion
    )
}

/// Formats an error's number and name.
fn error_text(code: i32) -> String {
    match ErrorCode::from_code(code) {
        Some(known) => format!("{code} {known:?}"),
        None => code.to_string(),
    }
}
