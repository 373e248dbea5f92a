//! Command-line filters for txns.

use clap::Args;
use herdsman_proto::txn::Entry;
use herdsman_proto::{OpCode, SessionId, Txn, Zxid, path};

use super::time::{parse_moment, parse_session, parse_txn_type, parse_zxid};

/// A filter for txns; all conditions must hold.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(super) struct TxnFilter {
    /// Start at this txn.
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    from: Option<Zxid>,
    /// Up to and including this txn.
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    to: Option<Zxid>,
    /// Start at this time: 2026-11-15, 2026-11-15T19:37:46Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<i64>,
    /// End at this time.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<i64>,
    /// Only txns that touch this znode or one of its descendants.
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Only txns of this session.
    #[arg(long, value_name = "ID", value_parser = parse_session)]
    session: Option<SessionId>,
    /// Only txns of these types, also inside a multi: create, setData, delete, closeSession, …
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = parse_txn_type)]
    types: Vec<OpCode>,
}

impl TxnFilter {
    /// Whether a txn passes the filter.
    pub(super) fn wants(&self, entry: &Entry) -> bool {
        let header = &entry.header;
        self.from.is_none_or(|from| header.zxid >= from)
            && self.to.is_none_or(|to| header.zxid <= to)
            && self.since.is_none_or(|since| header.time_ms >= since)
            && self.until.is_none_or(|until| header.time_ms <= until)
            && self.session.is_none_or(|session| header.session == session)
            && (self.types.is_empty() || has_type(&entry.txn, &self.types))
            && self.path.as_deref().is_none_or(|prefix| touches(&entry.txn, prefix))
    }
}

fn has_type(txn: &Txn, types: &[OpCode]) -> bool {
    types.contains(&txn.op())
        || matches!(txn, Txn::Multi(parts) if parts.iter().any(|part| has_type(part, types)))
}

/// Whether a txn touches a znode or one of its descendants.
pub(super) fn touches(txn: &Txn, prefix: &str) -> bool {
    let is_below = |path: &str| prefix == path::ROOT || path::is_prefix(prefix, path);
    match txn {
        Txn::Create(create) => is_below(&create.path),
        Txn::Delete { path, .. }
        | Txn::SetData { path, .. }
        | Txn::SetAcl { path, .. }
        | Txn::Check { path, .. } => is_below(path),
        Txn::Multi(parts) => parts.iter().any(|part| touches(part, prefix)),
        Txn::CloseSession { ephemerals } => ephemerals.iter().flatten().any(|path| is_below(path)),
        Txn::CreateSession { .. } | Txn::Error(_) => false,
    }
}
