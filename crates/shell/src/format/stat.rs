//! A znode's stat. Apache: `StatPrinter`.

use herdsman_client::Stat;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// A stat in eleven lines, as zkCli prints it.
pub(crate) fn stat_lines(stat: &Stat) -> String {
    stat_lines_in(stat, &TimeZone::system())
}

fn stat_lines_in(stat: &Stat, zone: &TimeZone) -> String {
    format!(
        "cZxid = 0x{:x}\nctime = {}\nmZxid = 0x{:x}\nmtime = {}\npZxid = 0x{:x}\n\
         cversion = {}\ndataVersion = {}\naclVersion = {}\nephemeralOwner = 0x{:x}\n\
         dataLength = {}\nnumChildren = {}",
        stat.czxid.0,
        java_date(stat.ctime, zone),
        stat.mzxid.0,
        java_date(stat.mtime, zone),
        stat.pzxid.0,
        stat.cversion,
        stat.version,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    )
}

/// A stat as JSON: numbers as they are, zxids and sessions in hexadecimal as everywhere else, times in
/// milliseconds.
pub(crate) fn stat_json(stat: &Stat) -> Value {
    json!({
        "czxid": hex(stat.czxid.0),
        "mzxid": hex(stat.mzxid.0),
        "pzxid": hex(stat.pzxid.0),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": hex(stat.ephemeral_owner),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}

fn hex(number: i64) -> String {
    format!("0x{number:x}")
}

/// `Mon Nov 16 05:12:23 UTC 2026`, as Java prints a `Date`.
fn java_date(ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%a %b %d %H:%M:%S %Z %Y").to_string(),
        // Beyond the year 9999; Apache stores whatever a server's clock returned.
        Err(_) => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use herdsman_client::Zxid;

    use super::*;

    fn stat() -> Stat {
        Stat {
            czxid: Zxid(2),
            mzxid: Zxid(0x1_0000_000a),
            ctime: 0,
            mtime: 1_700_000_000_123,
            version: 3,
            cversion: 4,
            aversion: 5,
            ephemeral_owner: -1,
            data_length: 6,
            num_children: 7,
            pzxid: Zxid(8),
        }
    }

    #[test]
    fn a_stat_is_printed_as_zkcli_does() {
        let expected = "\
cZxid = 0x2
ctime = Thu Jan 01 00:00:00 UTC 1970
mZxid = 0x10000000a
mtime = Tue Nov 14 22:13:20 UTC 2023
pZxid = 0x8
cversion = 4
dataVersion = 3
aclVersion = 5
ephemeralOwner = 0xffffffffffffffff
dataLength = 6
numChildren = 7";
        assert_eq!(stat_lines_in(&stat(), &TimeZone::UTC), expected);
    }

    #[test]
    fn a_time_beyond_the_calendar_is_a_number() {
        let stat = Stat { ctime: i64::MAX, ..stat() };
        let lines = stat_lines_in(&stat, &TimeZone::UTC);
        assert!(lines.contains("ctime = 9223372036854775807 ms"), "{lines}");
        assert_eq!(stat_json(&stat)["mzxid"], "0x10000000a");
    }
}
