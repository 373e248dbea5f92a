//! Connections, one per line. Apache: `ServerCnxn.dumpConnectionInfo`.

use std::fmt::Write;

use herdsman_proto::{OpCode, SessionId};

use super::report::{ConnectionReport, plain_address};
use crate::clients::{Client, Clients};
use crate::operators::stats::ConnStats;

/// The level of detail of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Address and counts.
    Brief,
    /// Session, last request and latencies, too.
    Full,
}

/// Every connection, oldest first.
pub(super) fn reports(clients: &Clients) -> Vec<ConnectionReport> {
    clients.all().iter().map(|client| report(client)).collect()
}

fn report(client: &Client) -> ConnectionReport {
    let stats = *client.stats.lock();
    ConnectionReport {
        peer: plain_address(client.peer),
        // Apache prints the events that its selector waits for; 1 is "to read".
        interest_ops: i32::from(!stats.asked_word),
        established_ms: client.established_ms,
        last_operation: last_op(stats.last_op),
        stats,
    }
}

/// A line for each connection, oldest first.
pub(super) fn lines(clients: &Clients, detail: Detail) -> String {
    let mut text = String::new();
    for connection in reports(clients) {
        line(&mut text, &connection, detail);
        text.push('\n');
    }
    text
}

fn line(text: &mut String, connection: &ConnectionReport, detail: Detail) {
    let ConnectionReport { peer, interest_ops, stats, .. } = connection;
    let ConnStats { queued, received, sent, .. } = stats;
    let _ = write!(text, " /{peer}[{interest_ops}](queued={queued},recved={received},sent={sent}");
    if detail == Detail::Full && stats.session != SessionId::NONE {
        details(text, connection);
    }
    text.push(')');
}

fn details(text: &mut String, connection: &ConnectionReport) {
    let ConnectionReport { established_ms, last_operation: op, stats, .. } = connection;
    let (session, timeout_ms) = (stats.session, stats.timeout_ms);
    let _ = write!(text, ",sid={session},lop={op},est={established_ms},to={timeout_ms}");
    if stats.last_xid.0 >= 0 {
        let _ = write!(text, ",lcxid=0x{:x}", stats.last_xid.0);
    }
    let (zxid, response_ms, latency_ms) =
        (stats.last_zxid, stats.last_response_ms, stats.last_latency_ms);
    let _ = write!(text, ",lzxid={zxid},lresp={response_ms},llat={latency_ms}");
    // Whole milliseconds here, unlike the server's average.
    let latency = stats.latency;
    let average = average_ms(stats);
    let _ = write!(text, ",minlat={},avglat={average},maxlat={}", latency.min, latency.max);
}

fn average_ms(stats: &ConnStats) -> u64 {
    stats.latency.sum.checked_div(stats.latency.count).unwrap_or(0)
}

/// Apache's short names of requests, from `FinalRequestProcessor`. A failed write has none.
#[must_use]
pub fn last_op(op: Option<OpCode>) -> &'static str {
    match op {
        None | Some(OpCode::Error | OpCode::Auth | OpCode::Sasl) => "NA",
        Some(OpCode::Ping) => "PING",
        Some(OpCode::CreateSession) => "SESS",
        Some(OpCode::CloseSession) => "CLOS",
        Some(OpCode::Create | OpCode::Create2 | OpCode::CreateTtl | OpCode::CreateContainer) => {
            "CREA"
        }
        Some(OpCode::Delete | OpCode::DeleteContainer) => "DELE",
        Some(OpCode::Exists) => "EXIS",
        Some(OpCode::GetData) => "GETD",
        Some(OpCode::SetData) => "SETD",
        Some(OpCode::GetAcl) => "GETA",
        Some(OpCode::SetAcl) => "SETA",
        Some(OpCode::GetChildren | OpCode::GetChildren2) => "GETC",
        Some(OpCode::GetAllChildrenNumber) => "GETACN",
        Some(OpCode::GetEphemerals) => "GETE",
        Some(OpCode::Sync) => "SYNC",
        Some(OpCode::Check) => "CHEC",
        Some(OpCode::Multi) => "MULT",
        Some(OpCode::MultiRead) => "MLTR",
        Some(OpCode::Reconfig) => "RECO",
        Some(OpCode::SetWatches) => "SETW",
        Some(OpCode::SetWatches2) => "STW2",
        Some(OpCode::AddWatch) => "ADDW",
        Some(OpCode::CheckWatches) => "CHKW",
        Some(OpCode::RemoveWatches) => "REMW",
        Some(OpCode::WhoAmI) => "HOMI",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::ConnLimits;
    use herdsman_proto::{Xid, Zxid};

    fn check(stats: &ConnStats, detail: Detail, expected: &str) {
        let clients = Clients::new(ConnLimits::default(), 1);
        let peer = "127.0.0.1:54321".parse().expect("an address");
        let client = clients.admit(peer, 0, 1_700_000_000_000).expect("there is no limit");
        *client.stats.lock() = *stats;
        assert_eq!(lines(&clients, detail), expected);
    }

    #[test]
    fn a_connection_without_a_session_has_no_details() {
        let mut stats = ConnStats { received: 1, ..ConnStats::default() };
        check(&stats, Detail::Full, " /127.0.0.1:54321[1](queued=0,recved=1,sent=0)\n");
        stats.asked_word = true;
        check(&stats, Detail::Brief, " /127.0.0.1:54321[0](queued=0,recved=1,sent=0)\n");
    }

    #[test]
    fn details_are_those_of_apache() {
        let mut stats = ConnStats {
            received: 3,
            sent: 2,
            queued: 1,
            session: SessionId(0x1000_0000_0000_001f),
            timeout_ms: 4000,
            ..ConnStats::default()
        };
        let line = |rest: &str| {
            format!(
                " /127.0.0.1:54321[1](queued=1,recved=3,sent=2,sid=0x100000000000001f,{rest})\n"
            )
        };
        let fresh = "lop=NA,est=1700000000000,to=4000,lzxid=0xffffffffffffffff,lresp=0,llat=0,\
                     minlat=0,avglat=0,maxlat=0";
        check(&stats, Detail::Full, &line(fresh));
        stats.answered(OpCode::Create2, Xid(10), Zxid(0x2a), 100, 103);
        stats.answered(OpCode::Ping, Xid::PING, Zxid(0x2a), 110, 110);
        let used = "lop=PING,est=1700000000000,to=4000,lcxid=0xa,lzxid=0x2a,lresp=110,llat=0,\
                    minlat=0,avglat=1,maxlat=3";
        check(&stats, Detail::Full, &line(used));
    }
}
