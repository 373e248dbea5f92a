//! Answers to four-letter words, reduced to what two equal servers must share: always the keys, and the
//! values that do not depend on time, ports, directories or machines.

use herdsman_proto::Zxid;

use crate::canon::{Canon, member};

/// Metrics of `mntr` that depend only on the script.
const STABLE_METRICS: &[&str] = &[
    "zk_server_state",
    "zk_ephemerals_count",
    "zk_num_alive_connections",
    "zk_outstanding_requests",
    "zk_znode_count",
    "zk_global_sessions",
    "zk_watch_count",
];

/// The comparable lines of an answer.
#[must_use]
pub fn canonical(word: &str, answer: &str, canon: &Canon) -> Vec<String> {
    if answer.contains("not in the whitelist") {
        return exact(answer);
    }
    match word {
        "conf" => answer.lines().map(|line| conf_line(line, canon)).collect(),
        "srvr" | "stat" => answer.lines().map(|line| stat_line(line, canon)).collect(),
        "mntr" => sorted(answer.lines().filter(|line| is_stable_metric(line))),
        "cons" => connections(answer, canon),
        "dump" => ephemerals(answer, canon),
        "wchc" | "wchp" => pairs(answer, canon),
        "envi" => answer.lines().take(1).map(str::to_owned).collect(),
        "dirs" => answer.lines().map(|line| key(line, ':')).collect(),
        // Apache still counts connections whose last watch has fired.
        "wchs" => answer.lines().map(|line| after(line, " connections")).collect(),
        // Which zxids are kept depends on when the server started.
        "hash" => Vec::new(),
        _ => exact(answer),
    }
}

fn exact(answer: &str) -> Vec<String> {
    vec![format!("{answer:?}")]
}

fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

fn key(line: &str, separator: char) -> String {
    line.split_once(separator).map_or(line, |(key, _)| key).to_owned()
}

fn after(line: &str, text: &str) -> String {
    line.split_once(text).map_or(line, |(_, rest)| rest).to_owned()
}

fn conf_line(line: &str, canon: &Canon) -> String {
    match line.split_once('=') {
        // Which server leads is random.
        Some((key @ "serverId", _)) if !canon.probes.is_empty() => key.to_owned(),
        Some((key, _)) if key.ends_with("Port") || key.starts_with("data") => key.to_owned(),
        _ => member(line),
    }
}

fn is_stable_metric(line: &str) -> bool {
    line.split_once('\t').is_some_and(|(name, _)| STABLE_METRICS.contains(&name))
}

fn stat_line(line: &str, canon: &Canon) -> String {
    if let Some(zxid) = line.strip_prefix("Zxid: 0x") {
        let zxid = i64::from_str_radix(zxid, 16).map(Zxid);
        return zxid.map_or(line.to_owned(), |zxid| format!("Zxid: {}", canon.zxid(zxid)));
    }
    match line.split_once(':') {
        Some((key, _)) if is_volatile(key) => key.to_owned(),
        Some((client, _)) if client.starts_with(" /") => " /client".into(),
        _ => line.to_owned(),
    }
}

fn is_volatile(key: &str) -> bool {
    // Proposals contain session ids, and there were some before the script.
    matches!(
        key,
        "Zookeeper version"
            | "Latency min/avg/max"
            | "Received"
            | "Sent"
            | "Proposal sizes last/min/max"
    )
}

/// For each connection: its session, and its last op, timeout, cxid and zxid.
fn connections(answer: &str, canon: &Canon) -> Vec<String> {
    let mut lines: Vec<String> = answer
        .lines()
        .filter(|line| line.contains("sid="))
        .map(|line| {
            let fields = line.split(['(', ',', ')']).filter_map(|f| f.split_once('='));
            let kept = fields.filter_map(|(key, value)| match key {
                "sid" => Some(format!("sid={}", symbol(value, canon))),
                "lzxid" => hex_value(value).map(|zxid| format!("lzxid={}", canon.zxid(Zxid(zxid)))),
                "to" | "lop" | "lcxid" => Some(format!("{key}={value}")),
                _ => None,
            });
            kept.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines
}

/// The part of `dump` about the owners of ephemerals.
fn ephemerals(answer: &str, canon: &Canon) -> Vec<String> {
    let mut lines = answer.lines();
    let headings = lines.by_ref().filter(|line| line.ends_with("dump:"));
    let mut kept: Vec<String> = headings.take(2).map(str::to_owned).collect();
    let owned: Vec<&str> = lines.take_while(|line| *line != "Connections dump:").collect();
    kept.extend(pairs(&owned.join("\n"), canon));
    kept
}

/// Headings with indented lines below them, as sorted pairs.
fn pairs(answer: &str, canon: &Canon) -> Vec<String> {
    let mut heading = String::new();
    let mut lines = Vec::new();
    for line in answer.lines() {
        match line.strip_prefix('\t') {
            Some(item) => lines.push(format!("{heading} {}", symbol(item, canon))),
            None => heading = symbol(line.trim_end_matches(':'), canon),
        }
    }
    lines.sort();
    lines
}

fn symbol(text: &str, canon: &Canon) -> String {
    hex_value(text).map_or(text.to_owned(), |id| canon.session(id))
}

fn hex_value(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().map(|id| id as i64)
}

#[cfg(test)]
mod tests {
    use herdsman_proto::SessionId;

    use super::*;

    fn canon() -> Canon {
        let mut canon = Canon::starting_now();
        canon.count_from(Zxid(0x10));
        canon.sessions = vec![SessionId(0x1000_0000_0000_0001)];
        canon
    }

    #[test]
    fn volatile_values_are_removed() {
        let stat = "Zookeeper version: x\nReceived: 7\nZxid: 0x12\nMode: standalone\n";
        assert_eq!(
            canonical("srvr", stat, &canon()),
            ["Zookeeper version", "Received", "Zxid: +2", "Mode: standalone"]
        );
        let conf = "clientPort=2181\ntickTime=2000\n";
        assert_eq!(canonical("conf", conf, &canon()), ["clientPort", "tickTime=2000"]);
    }

    #[test]
    fn sessions_become_symbols() {
        let watches = "0x1000000000000001\n\t/b\n\t/a\n\n";
        assert_eq!(canonical("wchc", watches, &canon()), ["session #0 /a", "session #0 /b"]);
        let cons = " /127.0.0.1:1[1](queued=0,recved=2,sent=2,sid=0x1000000000000001,lop=PING,\
                    est=5,to=30000,lcxid=0x3,lzxid=0x11,lresp=1,llat=0,minlat=0)\n";
        assert_eq!(
            canonical("cons", cons, &canon()),
            ["sid=session #0 lop=PING to=30000 lcxid=0x3 lzxid=+1"]
        );
    }

    #[test]
    fn a_rejection_is_compared_exactly() {
        let refusal = "mntr is not executed because it is not in the whitelist.\n";
        assert_eq!(canonical("mntr", refusal, &canon()), exact(refusal));
    }
}
