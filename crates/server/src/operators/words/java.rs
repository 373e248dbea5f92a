//! Formats numbers, times and addresses as Java does, because scripts parse Apache's output.

use std::net::{IpAddr, SocketAddr};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Double.toString`: always a decimal point, an exponent for the very small and the large.
pub(super) fn double(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&size) || !value.is_finite() {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// `InetSocketAddress.toString` of an address without a name: a slash, and IPv6 in full.
pub(super) fn address(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => format!("/{ip}:{port}"),
        IpAddr::V6(ip) => {
            let groups = ip.segments().map(|group| format!("{group:x}"));
            format!("/[{}]:{port}", groups.join(":"))
        }
    }
}

/// `Date.toString` in UTC. Apache prints the server's local time.
pub(super) fn date(wall_ms: i64) -> String {
    let seconds = wall_ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let name = DAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[month - 1];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{name} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

/// `%d{ISO8601}` of Apache's logging, in UTC: `2026-11-15 20:10:25,042`.
pub(crate) fn log_time(wall_ms: i64) -> String {
    let (seconds, ms) = (wall_ms.div_euclid(1000), wall_ms.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{ms:03}")
}

/// Year, month and day of a day counted from 1970. The year begins in March here, so that a leap
/// day is its last, and 400 years are always 146097 days.
fn civil(days: i64) -> (i64, usize, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_have_a_point_and_rarely_an_exponent() {
        let check = |value: f64, text: &str| assert_eq!(double(value), text);
        check(0.0, "0.0");
        check(3.0, "3.0");
        check(0.25, "0.25");
        check(1.3333, "1.3333");
        check(0.001, "0.001");
        check(0.0005, "5.0E-4");
        check(9_999_999.0, "9999999.0");
        check(10_000_000.0, "1.0E7");
        check(12_345_678.5, "1.23456785E7");
    }

    #[test]
    fn addresses_begin_with_a_slash() {
        let check = |given: &str, text: &str| {
            assert_eq!(address(given.parse().expect("an address")), text);
        };
        check("127.0.0.1:54321", "/127.0.0.1:54321");
        check("[::ffff:10.0.0.1]:1", "/10.0.0.1:1");
        check("[::1]:2181", "/[0:0:0:0:0:0:0:1]:2181");
        check("[2001:db8::a0]:9", "/[2001:db8:0:0:0:0:0:a0]:9");
    }

    #[test]
    fn dates_have_the_form_of_java() {
        let check = |wall_ms: i64, text: &str| assert_eq!(date(wall_ms), text);
        check(0, "Thu Jan 01 00:00:00 UTC 1970");
        check(951_827_696_999, "Tue Feb 29 12:34:56 UTC 2000");
        check(1_794_773_425_000, "Sun Nov 15 20:10:25 UTC 2026");
        check(-1, "Wed Dec 31 23:59:59 UTC 1969");
        check(4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100");
    }
}
