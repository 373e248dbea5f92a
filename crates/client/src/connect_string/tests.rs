//! Which connect strings are accepted, and which are rejected with which message.

use std::net::SocketAddr;

use super::*;

fn parse(text: &str) -> Result<ConnectString, ConnectStringError> {
    text.parse()
}

/// `expected` lists `host port` pairs, the host without brackets.
fn check(text: &str, expected: &[(&str, u16)], chroot: &str) {
    let parsed = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let hosts: Vec<(&str, u16)> = parsed.hosts().iter().map(|h| (h.host(), h.port())).collect();
    assert_eq!(hosts, expected, "{text:?}");
    assert_eq!(parsed.chroot(), chroot, "{text:?}");
    assert_eq!(parse(&parsed.to_string()), Ok(parsed), "{text:?} survives a round trip");
}

/// Checks that the message quotes the invalid part and says what is expected instead.
fn check_error(text: &str, piece: &str, expected: &str) {
    let message = match parse(text) {
        Ok(parsed) => panic!("{text:?} was read as {parsed:?}"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains(piece), "{text:?}: {message} names {piece}");
    assert!(message.contains(expected), "{text:?}: {message} says {expected}");
}

#[test]
fn servers_and_chroots_are_read_as_apache_reads_them() {
    check("a", &[("a", 2181)], "");
    check("a:2182", &[("a", 2182)], "");
    check("a:1,b:65535", &[("a", 1), ("b", 65535)], "");
    check(
        "host1:2181,host2,[::1]:2183,10.0.0.1:2181/chroot/path",
        &[("host1", 2181), ("host2", 2181), ("::1", 2183), ("10.0.0.1", 2181)],
        "/chroot/path",
    );
    check(" a:2182 ,\tb , c /x", &[("a", 2182), ("b", 2181), ("c", 2181)], "/x");
    check("a/", &[("a", 2181)], "");
    check("a/x", &[("a", 2181)], "/x");
    check("a/x,y:z/w w", &[("a", 2181)], "/x,y:z/w w");
    check("a,b,a", &[("a", 2181), ("b", 2181), ("a", 2181)], "");
    check("zk_1.my-net.example.", &[("zk_1.my-net.example.", 2181)], "");
    check("zürich.example:2181", &[("zürich.example", 2181)], "");
    check("[2001:db8::1]", &[("2001:db8::1", 2181)], "");
    check("[::ffff:10.0.0.1]:99", &[("::ffff:10.0.0.1", 99)], "");
    check("[fe80::1%eth0]:99", &[("fe80::1%eth0", 99)], "");
}

#[test]
fn a_bare_ipv6_address_is_read_if_there_is_one_reading() {
    check("::1", &[("::1", 2181)], "");
    check("2001:db8::1,b", &[("2001:db8::1", 2181), ("b", 2181)], "");
    check("fe80::1:abcd", &[("fe80::1:abcd", 2181)], "");
    check("1:2:3:4:5:6:7:8", &[("1:2:3:4:5:6:7:8", 2181)], "");
    check("1:2:3:4:5:6:7:8:2182", &[("1:2:3:4:5:6:7:8", 2182)], "");
    check("::1:12181", &[("::1", 12181)], "");
    check("fe80::1%eth0", &[("fe80::1%eth0", 2181)], "");
    check("fe80::1%eth0:2182", &[("fe80::1%eth0", 2182)], "");
    for text in ["::1:2181", "fe80::1:2181", "2001:db8::1:2:3", "::ffff:1:2"] {
        check_error(text, &format!("{text:?}"), "[address]:port");
        let entry = text.to_owned();
        assert_eq!(parse(text), Err(ConnectStringError::AmbiguousIpv6 { entry }));
    }
}

#[test]
fn mistakes_in_servers_are_named() {
    for text in ["", " ", "/", "/chroot"] {
        check_error(text, "no server", "host:port");
    }
    check_error(",", "server 1 ", "between commas");
    check_error("a,,b", "server 2 ", "between commas");
    check_error("a, /x", "server 2 ", "between commas");
    check_error("a,b,", "server 3 ", "between commas");
    check_error("a,:2181", r#"":2181""#, "host:port");
    check_error("zk://a:2181/x", r#""zk://""#, "leave out");
    for port in ["", "0", "00", "65536", "99999999999", "x", "21 81", "+2181", "-1", "0x10"] {
        check_error(&format!("a,b:{port}"), &format!("port {port:?} in \"b:{port}\""), "65535");
        check_error(&format!("[::1]:{port}"), &format!("port {port:?}"), "65535");
    }
    for host in ["a b", "a;b", "a]", "u@a", "a%eth0", "10.0.0.256", "10.1", "2181", "a\u{7}"] {
        check_error(&format!("ok,{host}:2181"), &format!("{host:?}"), "host name");
        check_error(&format!("{host}/x"), &format!("{host:?}"), "host name");
    }
    for text in ["a:2888:3888", "::1:70000", "1:2:3:4:5:6:7:8:9:10", "a:1;b:2", ":::", "fe80::1%:1"]
    {
        check_error(text, &format!("{text:?}"), "IPv6");
    }
    for address in ["", "a", "10.0.0.1", "::1%", "::g"] {
        check_error(&format!("[{address}]:1"), &format!("{address:?}"), "not an IPv6 address");
    }
    for text in ["[::1", "[::1]2181", "[::1]]:2181", "[::1] :2181", "["] {
        check_error(&format!("a,{text}"), &format!("{text:?}"), "brackets");
    }
}

#[test]
fn mistakes_in_the_chroot_are_named() {
    for chroot in ["//", "/x/", "/x/y/"] {
        check_error(&format!("a{chroot}"), &format!("{chroot:?}"), "leave it out");
    }
    for chroot in ["///", "//x", "/x//y", "/x//", "/.", "/x/../y", "/x\n", "/\u{0}"] {
        check_error(&format!("a:2181{chroot}"), &format!("{chroot:?}"), "valid path");
    }
}

#[test]
fn parts_are_checked_like_text() {
    let host = |name: &str| HostPort::new(name, 2181);
    let zk = host("zk").unwrap();
    assert_eq!(ConnectString::new([], "/x"), Err(ConnectStringError::NoHosts));
    for none in ["", "/"] {
        assert_eq!(ConnectString::new([zk.clone()], none), parse("zk"));
    }
    for bad in ["x", "/x/", "/x//y"] {
        assert!(ConnectString::new([zk.clone()], bad).is_err(), "{bad:?}");
    }
    for bad in ["", " zk", "zk ", "[::1]", "a:b", "a/b", "a,b"] {
        assert!(host(bad).is_err(), "{bad:?}");
    }
    assert!(HostPort::new("zk", 0).is_err());
    assert_eq!(host("::1").unwrap().to_string(), "[::1]:2181");
}

#[test]
fn socket_addresses_become_servers() {
    for text in ["127.0.0.1:2181", "[::1]:2181", "[fe80::1%3]:2181"] {
        let address: SocketAddr = text.parse().unwrap();
        assert_eq!(HostPort::try_from(address).unwrap().to_string(), text);
    }
    assert!(HostPort::try_from(SocketAddr::from(([127, 0, 0, 1], 0))).is_err());
}
