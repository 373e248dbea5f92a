//! `herdsman recipe id`.

use super::terminal::Terminal;

#[test]
fn each_kind_generates_unique_ids() {
    let terminal = Terminal::open();
    for kind in ["sequential", "segment", "snowflake", "uuid-v4", "uuid-v7"] {
        let path = format!("/ids/{kind}");
        let make = ["id", &path, "--kind", kind, "--count", "3"];
        let mut ids = terminal.lines(&make);
        ids.extend(terminal.lines(&make));
        let length = if kind.starts_with("uuid") { 36 } else { 1 };
        assert!(ids.iter().all(|id| id.len() >= length), "{kind}: {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6, "{kind}: {ids:?}");
    }
}

#[test]
fn without_options_it_is_one_snowflake() {
    let ids = Terminal::open().lines(&["id"]);
    let [id] = ids.as_slice() else { panic!("{ids:?}") };
    assert!(id.parse::<u64>().expect("a number") > 1 << 40);
}

#[test]
fn kinds_do_not_disturb_each_other_at_the_default_path() {
    let terminal = Terminal::open();
    for _ in 0..2 {
        for kind in ["sequential", "segment", "snowflake"] {
            assert_eq!(terminal.lines(&["id", "--kind", kind]).len(), 1);
        }
    }
}

#[test]
fn blocks_follow_each_other() {
    let terminal = Terminal::open();
    let make = ["id", "/numbers", "--kind", "segment", "--block", "10", "-c", "2"];
    let first: u64 = terminal.lines(&make)[0].parse().expect("a number");
    let second: u64 = terminal.lines(&make)[0].parse().expect("a number");
    assert_eq!(second, first + 10);
}

#[test]
fn impossible_ids_are_wrong_usage() {
    let terminal = Terminal::open();
    terminal.run(&["id", "--kind", "nosuch"]).check_error(2, &["nosuch"]);
    terminal.run(&["id", "--kind", "segment", "--block", "0"]).check_error(2, &["--block"]);
}
