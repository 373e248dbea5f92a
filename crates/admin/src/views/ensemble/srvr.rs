//! Queries another server by the four-letter word `srvr`, and parses its reply.
//!
//! Apache: `StatCommand`. Unknown lines are skipped, because other versions may have more or fewer
//! lines.

use std::io;
use std::time::Duration;

use herdsman_proto::Zxid;
use herdsman_proto::membership::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time limit of a query, including the connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The longest reply that is read; replies have a few hundred bytes.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// The status of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Its role: leader, follower and so on.
    pub role: String,
    /// Its version.
    pub version: Option<String>,
    /// Its last zxid.
    pub zxid: Option<Zxid>,
    /// The mean latency of requests.
    pub latency_avg_ms: Option<f64>,
    /// The longest latency.
    pub latency_max_ms: Option<u64>,
    /// Connections of clients.
    pub connections: Option<u64>,
    /// Requests without a response yet.
    pub outstanding: Option<u64>,
    /// Znodes, as Apache counts them.
    pub znodes: Option<u64>,
    /// Why it has no status, in its own words.
    pub problem: Option<String>,
}

/// Queries a server.
///
/// # Errors
/// Fails if it cannot be reached, does not reply in time, or the reply is not that of a server.
pub async fn ask(at: &Endpoint) -> Result<Status, String> {
    let answer = timeout(ANSWER_WITHIN, exchange(at)).await;
    let answer = answer.map_err(|_| "timed out: no reply within a second".to_owned())?;
    let answer = answer.map_err(|error| format!("it cannot be reached: {error}"))?;
    parse(&answer)
}

async fn exchange(at: &Endpoint) -> io::Result<String> {
    let host = at.host.as_deref().unwrap_or("localhost");
    let mut stream = TcpStream::connect((host, at.port)).await?;
    stream.write_all(b"srvr").await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Parses a reply.
///
/// # Errors
/// Fails if the text is not a reply to `srvr`.
pub fn parse(answer: &str) -> Result<Status, String> {
    let mut status = Status::default();
    for (key, value) in answer.lines().filter_map(|line| line.split_once(": ")) {
        let value = value.trim();
        match key {
            "Zookeeper version" => status.version = Some(value.to_owned()),
            "Latency min/avg/max" => {
                let mut parts = value.split('/').skip(1);
                status.latency_avg_ms = parts.next().and_then(|part| part.parse().ok());
                status.latency_max_ms = parts.next().and_then(|part| part.parse().ok());
            }
            "Connections" => status.connections = value.parse().ok(),
            "Outstanding" => status.outstanding = value.parse().ok(),
            "Node count" => status.znodes = value.parse().ok(),
            "Zxid" => status.zxid = parse_zxid(value),
            "Mode" => status.role = value.to_owned(),
            _ => {}
        }
    }
    if !status.role.is_empty() {
        return Ok(status);
    }
    let first = answer.lines().next().unwrap_or_default().trim();
    if first.contains("not currently serving") {
        let (role, problem) = ("looking".to_owned(), Some("it has no leader".to_owned()));
        return Ok(Status { role, problem, ..Status::default() });
    }
    Err(match first {
        "" => "it closed the connection without a reply".to_owned(),
        first if first.contains("whitelist") => {
            "it does not allow the four-letter word srvr: see its 4lw.commands.whitelist".to_owned()
        }
        // Any program may be listening there.
        first => format!("unexpected reply {:?}", first.chars().take(80).collect::<String>()),
    })
}

/// Parses a zxid as servers print it.
pub fn parse_zxid(text: &str) -> Option<Zxid> {
    let number = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(Zxid(number.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Apache 3.9.
    const LEADER: &str = "Zookeeper version: 3.9.5-abc, built on 2026-01-01 10:00 UTC\n\
                          Latency min/avg/max: 0/1.4286/12\nReceived: 20\nSent: 19\n\
                          Connections: 2\nOutstanding: 0\nZxid: 0x100000007\nMode: leader\n\
                          Node count: 7\nProposal sizes last/min/max: 48/48/90\n";

    #[test]
    fn a_reply_is_parsed() {
        let status = parse(LEADER).unwrap();
        let expected = Status {
            role: "leader".to_owned(),
            version: Some("3.9.5-abc, built on 2026-01-01 10:00 UTC".to_owned()),
            zxid: Some(Zxid(0x1_0000_0007)),
            latency_avg_ms: Some(1.4286),
            latency_max_ms: Some(12),
            connections: Some(2),
            outstanding: Some(0),
            znodes: Some(7),
            problem: None,
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn other_replies_are_explained() {
        let looking = "This ZooKeeper instance is not currently serving requests\n";
        let status = parse(looking).unwrap();
        assert_eq!(
            (status.role.as_str(), status.problem.as_deref()),
            ("looking", Some("it has no leader"))
        );
        let check = |answer: &str, expected: &str| {
            let problem = parse(answer).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        };
        check(
            "srvr is not executed because it is not in the whitelist.\n",
            "4lw.commands.whitelist",
        );
        check("", "without a reply");
        check("SSH-2.0-x\u{1b}[2J", "SSH-2.0-x\\u{1b}[2J");
    }

    #[test]
    fn invalid_numbers_are_skipped() {
        let status =
            parse("Latency min/avg/max: x\nZxid: 7\nNode count: -1\nMode: follower\n").unwrap();
        assert_eq!(status, Status { role: "follower".to_owned(), ..Status::default() });
    }
}
