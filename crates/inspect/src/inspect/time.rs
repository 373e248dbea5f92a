//! Parses times, zxids, session ids and txn types from the command line.

use herdsman_proto::{OpCode, SessionId, Zxid};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Parses a time in milliseconds since 1970: a date, a date and time (UTC unless it has an offset), or a
/// duration before now such as `90m`.
pub(crate) fn parse_moment(text: &str) -> Result<i64, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let local = text.parse::<DateTime>().ok();
    let local = local.or_else(|| text.parse::<Date>().ok().map(DateTime::from));
    if let Some(local) = local {
        let zoned = local.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(zoned.timestamp().as_millisecond());
    }
    match text.parse::<SignedDuration>() {
        Ok(ago) if ago.is_positive() => match Timestamp::now().checked_sub(ago) {
            Ok(time) => Ok(time.as_millisecond()),
            Err(_) => Err("that is too long ago".to_owned()),
        },
        _ => {
            Err("a time such as 2026-11-15, 2026-11-15T19:37:46Z, or 90m for 90 minutes ago"
                .to_owned())
        }
    }
}

/// Parses a zxid: hex with `0x`, or decimal.
pub(crate) fn parse_zxid(text: &str) -> Result<Zxid, String> {
    parse_number(text)
        .filter(|number| *number >= 0)
        .map(Zxid)
        .ok_or_else(|| "a zxid such as 0x100000054".to_owned())
}

/// Parses a session id: hex with `0x`, or decimal.
pub(super) fn parse_session(text: &str) -> Result<SessionId, String> {
    parse_number(text)
        .map(SessionId)
        .ok_or_else(|| "a session id such as 0x100000f1e190000".to_owned())
}

fn parse_number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(|number| number as i64),
        None => text.parse().ok(),
    }
}

/// The types of txns.
const TXN_TYPES: [OpCode; 14] = [
    OpCode::Create,
    OpCode::Create2,
    OpCode::CreateContainer,
    OpCode::CreateTtl,
    OpCode::Delete,
    OpCode::DeleteContainer,
    OpCode::SetData,
    OpCode::SetAcl,
    OpCode::Check,
    OpCode::Multi,
    OpCode::Reconfig,
    OpCode::CreateSession,
    OpCode::CloseSession,
    OpCode::Error,
];

/// Parses a type of txn: Apache's name, in upper or lower case.
pub(super) fn parse_txn_type(text: &str) -> Result<OpCode, String> {
    let found = TXN_TYPES.into_iter().find(|op| op.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<&str> = TXN_TYPES.iter().map(|op| op.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        assert_eq!(parse_moment("1970-01-02"), Ok(86_400_000));
        assert_eq!(parse_moment("1970-01-01T00:01"), Ok(60_000));
        assert_eq!(parse_moment("1970-01-01T01:00:00+01:00"), Ok(0));
        assert!(parse_moment("2h").is_ok());
        assert!(parse_moment("-2h").is_err());
        assert!(parse_moment("yesterday").is_err());
    }

    #[test]
    fn numbers_and_types_are_read() {
        assert_eq!(parse_zxid("0x1f"), Ok(Zxid(0x1f)));
        assert_eq!(parse_zxid("12"), Ok(Zxid(12)));
        assert!(parse_zxid("0xffffffffffffffff").is_err());
        assert!(parse_session("0xff00000000000001").is_ok());
        assert_eq!(parse_txn_type("SETDATA"), Ok(OpCode::SetData));
        assert!(parse_txn_type("getData").is_err());
    }
}
