//! Table tests of the host rules.

use super::*;

fn alternative(dns: &[&str], addresses: &[&str]) -> HostNames {
    HostNames::Alternative {
        dns: dns.iter().map(|name| (*name).to_owned()).collect(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    }
}

fn common(name: &str) -> HostNames {
    HostNames::Common(name.to_owned())
}

#[test]
fn a_name_matches_a_pattern() {
    for (pattern, name, expected) in [
        ("zk1.example.com", "zk1.example.com", true),
        ("ZK1.Example.com", "zk1.eXample.COM", true),
        ("zk1.example.com", "zk2.example.com", false),
        ("example.com", "zk1.example.com", false),
        ("*.example.com", "zk1.example.com", true),
        ("*.example.com", "a.zk1.example.com", false),
        ("*.example.com", "example.com", false),
        ("*.example.com", ".example.com", true),
        ("zk*.example.com", "zk1.example.com", true),
        ("zk*.example.com", "zk.example.com", true),
        ("zk*.example.com", "k1.example.com", false),
        ("*1.example.com", "zk1.example.com", true),
        ("zk1.*.com", "zk1.example.com", true),
        ("*", "localhost", true),
        ("*", "zk1.example.com", false),
        // Only the first star is a wildcard.
        ("*.*.com", "zk1.example.com", false),
        // The two ends must not overlap.
        ("aba*ba", "aba", false),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn the_address_or_the_name_must_match() {
    let both = alternative(&["zk1.example.com"], &["10.0.0.1", "fd00::1"]);
    let check = |names: &HostNames, peer: Peer, expected: bool| {
        assert_eq!(names.include(&peer), expected, "{names} {peer}");
    };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    check(&both, Peer::at(address("10.0.0.1")), true);
    check(&both, Peer::at(address("::ffff:10.0.0.1")), true);
    check(&both, Peer::at(address("fd00:0:0::1")), true);
    check(&both, Peer::at(address("10.0.0.2")), false);
    check(&both, Peer::dialled("zk1.example.com", address("10.0.0.2")), true);
    check(&both, Peer::dialled("zk2.example.com", address("10.0.0.1")), true);
    check(&both, Peer::dialled("zk2.example.com", address("10.0.0.2")), false);
    // Connected to an address in text form, through address translation.
    check(&both, Peer::dialled("10.0.0.1", address("192.0.2.9")), true);
    check(&both, Peer::dialled("[fd00::1]", address("192.0.2.9")), true);
    // A member of a group may be any of its members, but no other host.
    let member = |hosts: &[&str]| {
        Peer::at(address("192.0.2.9")).or_any_of(hosts.iter().map(|host| (*host).to_owned()))
    };
    check(&both, member(&["zk0.example.com", "zk1.example.com"]), true);
    check(&both, member(&["10.0.0.1"]), true);
    check(&both, member(&["zk0.example.com", "zk2.example.com"]), false);
    check(&both, member(&[]), false);
    // A DNS entry does not match an address, nor the other way round.
    check(&alternative(&["10.0.0.1"], &[]), Peer::at(address("10.0.0.1")), false);
    check(&alternative(&[], &["10.0.0.1"]), Peer::dialled("zk1", address("10.0.0.2")), false);
}

#[test]
fn the_common_name_stands_for_a_name_or_an_address() {
    let address = IpAddr::from([10, 0, 0, 1]);
    assert!(common("zk1").include(&Peer::dialled("ZK1", address)));
    assert!(common("10.0.0.1").include(&Peer::at(address)));
    assert!(!common("10.0.0.2").include(&Peer::at(address)));
    assert!(!common("*.0.0.1").include(&Peer::at(address)), "no wildcards for addresses");
    assert!(!common("*.0.0.1").include(&Peer::dialled("10.0.0.1", address)));
    assert!(!HostNames::None.include(&Peer::dialled("zk1", address)));
}

#[test]
fn the_names_come_from_the_alternative_names_or_else_the_last_common_name() {
    let names = |alternative: &[&str], common: &[&str]| {
        let alternative: Vec<String> = alternative.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(alternative).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in common {
            params.distinguished_name.push(rcgen::DnType::CommonName, *name);
        }
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        HostNames::of(&certificate::parse(certificate.der()).unwrap()).unwrap()
    };
    assert_eq!(
        names(&["a.example", "10.0.0.1", "fd00::1"], &["common"]),
        alternative(&["a.example"], &["10.0.0.1", "fd00::1"])
    );
    assert_eq!(names(&[], &["common"]), common("common"));
    assert_eq!(names(&[], &[]), HostNames::None);
}

#[test]
fn an_error_names_the_hosts_of_the_certificate() {
    let params = rcgen::CertificateParams::new(vec!["a.example".into(), "10.0.0.1".into()]);
    let certificate = params.unwrap().self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let peer = Peer::dialled("b.example", IpAddr::from([10, 0, 0, 2]));
    let error = check_host(certificate.der(), &peer).unwrap_err();
    assert_eq!(
        crate::describe_failure(&error),
        "the peer's certificate was rejected: the certificate is for a.example, 10.0.0.1, not for \
         b.example (10.0.0.2)"
    );
}
