//! Valid certificates for other hosts.

use std::net::IpAddr;

use herdsman_tls::{ClientAuth, Peer, Side, TlsContext};

use crate::authority::Parties;
use crate::connection::{HERE, connect, connect_as};

const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

#[test]
fn a_server_is_accepted_by_address_or_name() {
    let parties = Parties::new();
    let (server, client) = (parties.server(), parties.client());
    for to in [
        Peer::at(HERE),
        Peer::dialled("localhost", ELSEWHERE),
        Peer::dialled("127.0.0.1", ELSEWHERE),
        Peer::dialled("elsewhere.example", HERE),
    ] {
        assert!(connect_as(&server, &Peer::at(HERE), &client, &to).is_ok(), "{to}");
    }
    for to in [Peer::at(ELSEWHERE), Peer::dialled("elsewhere.example", ELSEWHERE)] {
        let refusal = connect_as(&server, &Peer::at(HERE), &client, &to).err().unwrap();
        let expected = format!(
            "the peer's certificate was rejected: the certificate is for localhost, 127.0.0.1, not \
             for {to}"
        );
        assert_eq!(refusal.client_error(), expected);
    }
}

#[test]
fn a_server_may_be_anywhere_if_hosts_are_not_checked() {
    let mut parties = Parties::new();
    parties.client.verify_server_host = false;
    let to = Peer::dialled("elsewhere.example", ELSEWHERE);
    connect_as(&parties.server(), &Peer::at(HERE), &parties.client(), &to).unwrap();
}

#[test]
fn a_clients_host_is_checked_only_if_configured() {
    let mut parties = Parties::new();
    let client = parties.client();
    let to = Peer::dialled("localhost", HERE);
    let from = Peer::at(ELSEWHERE);
    connect_as(&parties.server(), &from, &client, &to).unwrap();

    parties.server.verify_client_host = true;
    let server = parties.server();
    assert!(connect(&server, &client).is_ok());
    let refusal = connect_as(&server, &from, &client, &to).err().unwrap();
    assert_eq!(
        refusal.server_error(),
        "the peer's certificate was rejected: the certificate is for localhost, 127.0.0.1, not for \
         192.0.2.7"
    );
    // A name found by a reverse lookup counts as well.
    let named = Peer::dialled("localhost", ELSEWHERE);
    connect_as(&server, &named, &client, &to).unwrap();
}

#[test]
fn configurations_are_shared_where_the_peer_does_not_matter() {
    let mut parties = Parties::new();
    parties.client.verify_server_host = false;
    let (server, client) = (parties.server(), parties.client());
    let (here, elsewhere) = (Peer::at(HERE), Peer::at(ELSEWHERE));
    let (one, other) = (server.server_config(&here), server.server_config(&elsewhere));
    assert!(std::sync::Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    let (one, other) = (client.client_config(&here), client.client_config(&elsewhere));
    assert!(std::sync::Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
}

#[test]
fn a_reverse_lookup_is_wanted_if_allowed_and_needed() {
    let mut parties = Parties::new();
    parties.server.allow_reverse_dns = true;
    let wants = |settings: &herdsman_tls::TlsSettings, side, peer: &Peer| {
        TlsContext::load(settings.clone(), side).unwrap().wants_reverse_lookup(peer)
    };
    let nameless = Peer::at(HERE);
    assert!(!wants(&parties.server, Side::Server, &nameless), "clients' hosts are not checked");
    assert!(wants(&parties.server, Side::Client, &nameless));
    assert!(wants(&parties.server, Side::Client, &Peer::dialled("127.0.0.1", HERE)));
    assert!(!wants(&parties.server, Side::Client, &Peer::dialled("localhost", HERE)));

    parties.server.verify_client_host = true;
    assert!(wants(&parties.server, Side::Server, &nameless));
    parties.server.client_auth = ClientAuth::None;
    assert!(!wants(&parties.server, Side::Server, &nameless), "there is no certificate to check");
    parties.server.client_auth = ClientAuth::Need;
    parties.server.allow_reverse_dns = false;
    assert!(!wants(&parties.server, Side::Both, &nameless));
}
