//! Prints the parts of a snapshot, each as a line of text or an object of JSON.

use std::collections::HashMap;

use anyhow::Result;
use herdsman_proto::{Acl, SessionId, StatPersisted, Zxid, path};
use herdsman_store::Trailer;
use herdsman_store::snapshot::reader::SnapshotVisitor;
use herdsman_tree::LoadError;
use serde_json::{Value, json};

use crate::console::Console;
use crate::counts::shown_path;
use crate::show::{DataJson, DataShown, acl_texts, clean, data_text, owner_text, time_text};

/// The selected parts of a snapshot and their format.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// Only this znode and its descendants.
    pub(super) path: Option<String>,
    /// Show the data, not only its length.
    pub(super) with_data: bool,
    /// Show all stat fields.
    pub(super) with_stat: bool,
    pub(super) json: bool,
}

/// Prints the parts of a snapshot as they are read.
pub(super) struct PartPrinter<'a, 'c> {
    shown: &'a Shown,
    console: &'a mut Console<'c>,
    acls: HashMap<i64, Vec<String>>,
    section: &'static str,
    /// Whether a znode was selected.
    has_znodes: bool,
    /// Printing has failed; nothing more is printed.
    failure: Option<anyhow::Error>,
}

impl<'a, 'c> PartPrinter<'a, 'c> {
    pub(super) fn new(shown: &'a Shown, console: &'a mut Console<'c>) -> Self {
        PartPrinter {
            shown,
            console,
            acls: HashMap::new(),
            section: "",
            has_znodes: false,
            failure: None,
        }
    }

    /// Whether a selected znode was read so far.
    pub(super) fn has_znodes(&self) -> bool {
        self.has_znodes
    }

    /// Prints the trailer. Fails if something could not be printed.
    pub(super) fn finish(mut self, trailer: &Trailer) -> Result<()> {
        let digest = trailer.digest;
        let value = json!({
            "kind": "trailer",
            "digest": digest.map(|digest| digest.digest),
            "digest_version": digest.map(|digest| digest.version),
            "digest_zxid": digest.map(|digest| digest.zxid.to_string()),
            "last_zxid": trailer.last_zxid.map(|zxid| zxid.to_string()),
        });
        let digest = digest.map_or("none".to_owned(), |digest| {
            format!("{} (version {}) as of txn {}", digest.digest, digest.version, digest.zxid)
        });
        let last_zxid = trailer.last_zxid.map_or("none".to_owned(), |zxid: Zxid| zxid.to_string());
        self.put("Trailer", &value, || format!("digest     {digest}\n  last zxid  {last_zxid}"));
        self.stop()
    }

    /// Ends without a trailer. Fails if something could not be printed.
    pub(super) fn stop(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }

    fn put(&mut self, section: &'static str, value: &Value, text: impl FnOnce() -> String) {
        if self.failure.is_some() {
            return;
        }
        let heading = if self.section == section { "" } else { section };
        self.section = section;
        let printed = if self.shown.json {
            self.console.print_json(value)
        } else {
            let title = if heading.is_empty() { Ok(()) } else { self.console.print(heading) };
            title.and_then(|()| self.console.print(format_args!("  {}", text())))
        };
        self.failure = printed.err();
    }

    fn is_wanted(&self, path: &str) -> bool {
        let prefix = self.shown.path.as_deref();
        prefix.is_none_or(|prefix| prefix == path::ROOT || path::is_prefix(prefix, path))
    }
}

impl SnapshotVisitor for PartPrinter<'_, '_> {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        let value = json!({"kind": "session", "id": id.to_string(), "timeout_ms": timeout_ms});
        self.put("Sessions", &value, || format!("{id}  timeout {timeout_ms} ms"));
    }

    fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        let texts = acl_texts(&acl);
        let value = json!({"kind": "acl", "key": key, "acl": texts});
        self.put("ACLs", &value, || format!("{key:<4} {}", texts.join(",")));
        self.acls.insert(key, texts);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        if self.failure.is_none() && self.is_wanted(path) {
            self.has_znodes = true;
            let value = if self.shown.json {
                self.node_json(path, data, acl_key, &stat)
            } else {
                Value::Null
            };
            let text = node_text(path, data, acl_key, &stat, self.shown);
            self.put("Znodes", &value, || text);
        }
        Ok(())
    }
}

impl PartPrinter<'_, '_> {
    fn node_json(
        &self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: &StatPersisted,
    ) -> Value {
        let mut value = json!({
            "kind": "znode",
            "path": shown_path(path),
            "data_bytes": data.map(<[u8]>::len),
            "acl_key": acl_key,
            "stat": stat_json(stat),
        });
        if let Some(acl) = self.acls.get(&acl_key) {
            value["acl"] = json!(acl);
        }
        if self.shown.with_data {
            value["data"] = json!(DataJson::of(data, DataShown::Whole));
        }
        value
    }
}

/// Formats a stored stat. `cversion` counts the children ever created; clients see another number.
pub(super) fn stat_json(stat: &StatPersisted) -> Value {
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "pzxid": stat.pzxid.to_string(),
        "ctime": time_text(stat.ctime),
        "mtime": time_text(stat.mtime),
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": format!("{:#x}", stat.ephemeral_owner),
        "kind": owner_text(stat.ephemeral_owner),
    })
}

fn node_text(
    path: &str,
    data: Option<&[u8]>,
    acl_key: i64,
    stat: &StatPersisted,
    shown: &Shown,
) -> String {
    let mut text = clean(&shown_path(path));
    match data {
        Some(data) => text.push_str(&format!("  {} bytes", data.len())),
        None => text.push_str("  null"),
    }
    text.push_str(&format!("  version {}  {}", stat.version, time_text(stat.mtime)));
    if let Some(owner) = owner_text(stat.ephemeral_owner) {
        text.push_str(&format!("  {owner}"));
    }
    if shown.with_stat {
        text.push_str(&format!(
            "\n      czxid {}  mzxid {}  pzxid {}  ctime {}  cversion {}  aversion {}  owner {:#x}  acl {acl_key}",
            stat.czxid,
            stat.mzxid,
            stat.pzxid,
            time_text(stat.ctime),
            stat.cversion,
            stat.aversion,
            stat.ephemeral_owner,
        ));
    }
    if shown.with_data {
        text.push_str(&format!("\n      {}", data_text(data, DataShown::Whole)));
    }
    text
}
