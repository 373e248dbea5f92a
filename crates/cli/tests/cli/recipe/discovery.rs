//! `herdsman recipe register` and `discover`.

use super::terminal::Terminal;

#[test]
fn an_instance_is_there_until_ctrl_c() {
    let terminal = Terminal::open();
    terminal.run(&["discover"]).check(0, &[]);
    terminal.run(&["discover", "web"]).check_error(3, &["herdsman: no instances of web"]);
    let watcher = terminal.start(&["discover", "web", "--watch"]);
    let register = ["register", "web", "10.0.0.5:8080", "--id", "a", "--payload", r#"{"zone": 1}"#];
    let instance = terminal.start(&register);
    assert_eq!(instance.line(), "registered web a; press Ctrl-C to unregister");
    assert_eq!(watcher.line(), r#"+ a 10.0.0.5:8080 {"zone":1}"#);
    terminal.run(&["discover"]).check(0, &["web"]);
    terminal.run(&["discover", "web"]).check(0, &[r#"a 10.0.0.5:8080 {"zone":1}"#]);

    instance.interrupted().check(0, &["unregistered web a"]);
    assert_eq!(watcher.line(), r#"- a 10.0.0.5:8080 {"zone":1}"#);
    terminal.run(&["discover", "web"]).check(3, &[]);
    watcher.interrupted().check(0, &[]);
}

#[test]
fn services_can_be_anywhere_and_ids_are_made() {
    let terminal = Terminal::open();
    let instance = terminal.start(&["register", "web", "[::1]:80", "--base", "/other/place"]);
    let line = instance.line();
    let id = line.split(' ').nth(2).expect("an id").trim_end_matches(';').to_owned();
    terminal.run(&["discover"]).check(0, &[]);
    let found = format!("{id} ::1:80");
    terminal.run(&["discover", "web", "--base", "/other/place"]).check(0, &[&found]);
}

#[test]
fn an_invalid_address_or_payload_is_wrong_usage() {
    let terminal = Terminal::open();
    for (address, reason) in [
        ("web", "expected host:port"),
        (":80", "expected host:port"),
        ("::1:80", "[IPv6 address]:port"),
        ("web:http", "\"http\" is not a port"),
        ("web:65536", "\"65536\" is not a port"),
    ] {
        terminal.run(&["register", "web", address]).check_error(2, &[address, reason]);
    }
    terminal.run(&["register", "web", "a:1", "--payload", "{"]).check_error(2, &["not JSON"]);
    terminal.run(&["discover", "--watch"]).check_error(2, &["required"]);
}
