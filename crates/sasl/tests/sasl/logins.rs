//! Successful logins: RFC 2831's examples, and our two sides with all kinds of names.

use herdsman_sasl::digest_md5::{ClientStep, Nonce, ServerStep, Service};
use herdsman_sasl::{SaslError, Secret, Users};
use proptest::prelude::*;

use super::{
    CNONCE, NONCE, challenge, client, log_in, response, server, server_with_nonce, shown, verdict,
};

/// RFC 2831, section 4, first example: the tokens of a login to an IMAP server.
#[test]
fn the_first_example_of_the_rfc_from_both_sides() {
    const CHALLENGE: &str = "realm=\"elwood.innosoft.com\",nonce=\"OA6MG9tEQGm2hh\",qop=\"auth\",\
        algorithm=md5-sess,charset=utf-8";
    const RESPONSE: &str = "charset=utf-8,username=\"chris\",realm=\"elwood.innosoft.com\",\
        nonce=\"OA6MG9tEQGm2hh\",nc=00000001,cnonce=\"OA6MHXh6VqTrRk\",\
        digest-uri=\"imap/elwood.innosoft.com\",response=d388dad90d4bbd760a152321f2143af7,qop=auth";
    const LAST: &str = "rspauth=ea40f60335c427b5527b84dbabcdfffd";
    let imap = Service::new("imap", "elwood.innosoft.com");

    let mut client = client(&imap, "chris", "secret");
    let answer = response(&mut client, CHALLENGE.as_bytes()).expect("an answer");
    assert_eq!(shown(&answer), RESPONSE);
    assert_eq!(client.step(LAST.as_bytes()), Ok(ClientStep::Accepted));

    let mut server = server(&imap, &[("chris", "secret")]);
    challenge(&mut server);
    let accepted = verdict(&mut server, RESPONSE.as_bytes()).expect("the right password");
    assert_eq!(accepted.id.as_str(), "chris");
    assert_eq!(shown(&accepted.token), LAST);
}

/// RFC 2831, section 4, second example: other nonces, another service, the same password.
#[test]
fn the_second_example_of_the_rfc() {
    const RESPONSE: &str = "username=\"chris\",realm=\"elwood.innosoft.com\",\
        nonce=\"OA9BSXrbuRhWay\",nc=00000001,cnonce=\"OA9BSuZWMSpW8m\",\
        digest-uri=\"acap/elwood.innosoft.com\",response=6084c6db3fede7352c551284490fd0fc,qop=auth";
    let acap = Service::new("acap", "elwood.innosoft.com");
    let mut server = server_with_nonce(&acap, &[("chris", "secret")], "OA9BSXrbuRhWay");
    challenge(&mut server);
    let accepted = verdict(&mut server, RESPONSE.as_bytes()).expect("the right password");
    assert_eq!(shown(&accepted.token), "rspauth=2f0b3d7c3c2e486600ef710726aa2eae");
}

#[test]
fn a_challenge_is_what_the_jdk_sends() {
    let token = challenge(&mut server(&Service::CLIENT_PORT, &[]));
    let expected =
        format!("realm=\"zk-sasl-md5\",nonce=\"{NONCE}\",charset=utf-8,algorithm=md5-sess");
    assert_eq!(shown(&token), expected);
}

#[test]
fn a_response_is_what_the_jdk_sends() {
    let token = challenge(&mut server(&Service::QUORUM, &[]));
    let token = response(&mut client(&Service::QUORUM, "test", "mypassword"), &token);
    let expected = format!(
        "charset=utf-8,username=\"test\",realm=\"zk-quorum-sasl-md5\",nonce=\"{NONCE}\",nc=00000001,\
         cnonce=\"{CNONCE}\",digest-uri=\"zookeeper-quorum/zk-quorum-sasl-md5\",response="
    );
    let token = shown(&token.expect("an answer"));
    let proof = token.strip_prefix(&expected).and_then(|rest| rest.strip_suffix(",qop=auth"));
    assert!(proof.is_some_and(|proof| proof.len() == 32), "{token}");
}

/// Cyrus remembers the nonce of an earlier login and starts with a complete response.
#[test]
fn a_response_to_no_challenge_gets_a_challenge() {
    let known = [("bob", "secret")];
    let mut first = server(&Service::CLIENT_PORT, &known);
    let remembered =
        response(&mut client(&Service::CLIENT_PORT, "bob", "secret"), &challenge(&mut first));
    let mut second = server_with_nonce(&Service::CLIENT_PORT, &known, "another");
    let step = second.step(&remembered.expect("an answer")).expect("a challenge");
    let ServerStep::Challenge(challenge) = step else {
        panic!("accepted without a challenge");
    };
    let mut client = client(&Service::CLIENT_PORT, "bob", "secret");
    let answer = response(&mut client, &challenge).expect("an answer");
    assert!(verdict(&mut second, &answer).is_ok());
}

#[test]
fn a_service_is_named_in_any_case_and_an_own_identity_may_be_named() {
    // `authzid` is part of the proof, so a client that sends one computes a different proof; these were
    // computed with Python's hashlib.
    for (extra, uri, proof) in [
        ("", "ZooKeeper/ZK-SASL-MD5", "ee8a5da1dd2733dc3c3adb1a11f24fff"),
        (",authzid=\"bob\"", "zookeeper/zk-sasl-md5", "3ec01eb29c262d59f2bc0fb84a925593"),
        (",authzid=\"\"", "zookeeper/zk-sasl-md5", "4956b276ea0b7b573b1a1f3df01536e7"),
    ] {
        let mut server = server(&Service::CLIENT_PORT, &[("bob", "secret")]);
        challenge(&mut server);
        let token = format!(
            "username=\"bob\",realm=\"zk-sasl-md5\",nonce=\"{NONCE}\",cnonce=\"{CNONCE}\",\
             digest-uri=\"{uri}\",response={proof}{extra}"
        );
        let id = verdict(&mut server, token.as_bytes()).map(|accepted| accepted.id.into_string());
        assert_eq!(id.as_deref(), Ok("bob"), "{token}");
    }
}

/// A server without UTF-8 is answered in ISO 8859-1, or with an error.
#[test]
fn servers_without_utf8_are_answered_in_latin1() {
    const CHALLENGE: &[u8] = b"realm=\"k\xf6ln\",nonce=\"n\",algorithm=md5-sess";
    let service = Service::new("imap", "host");
    let answer = response(&mut client(&service, "j\u{fc}rgen", "geheim"), CHALLENGE);
    let answer = answer.expect("all of it fits");
    let start: &[u8] = b"username=\"j\xfcrgen\",realm=\"k\xf6ln\",nonce=\"n\",";
    assert!(answer.starts_with(start), "{}", shown(&answer));
    for (username, password) in [("\u{43c}", "geheim"), ("bob", "\u{20ac}")] {
        let answer = response(&mut client(&service, username, password), CHALLENGE);
        assert_eq!(answer, Err(SaslError::BeyondLatin1));
    }
}

#[test]
fn a_client_takes_the_first_of_several_realms_and_none_if_there_is_none() {
    let service = Service::new("imap", "host");
    for (challenge, part) in [
        ("realm=\"a\",realm=\"b\",nonce=\"n\",algorithm=md5-sess", ",realm=\"a\","),
        ("nonce=\"n\",algorithm=md5-sess", "username=\"bob\",nonce=\"n\""),
        ("nonce=\"n\",algorithm=md5-sess,qop=\"auth-conf, auth\",stale=true", "qop=auth"),
    ] {
        let challenge = format!("charset=utf-8,{challenge}");
        let answer = response(&mut client(&service, "bob", "x"), challenge.as_bytes());
        let answer = shown(&answer.expect("an answer"));
        assert!(answer.contains(part), "{challenge} -> {answer}");
    }
}

#[test]
fn nonces_differ_by_their_randomness_alone() {
    let zeros = Nonce::from_random([0; Nonce::RANDOM_BYTES]);
    assert_eq!(zeros, Nonce::recorded(&"00".repeat(Nonce::RANDOM_BYTES)));
    assert_ne!(zeros, Nonce::from_random([1; Nonce::RANDOM_BYTES]));
}

#[test]
fn debug_output_contains_no_password() {
    let service = Service::CLIENT_PORT;
    let mut server = server(&service, &[("bob", "hunter2")]);
    let mut client = client(&service, "bob", "hunter2");
    let shown_before = format!("{server:?} {client:?}");
    let answer = response(&mut client, &challenge(&mut server)).expect("an answer");
    let accepted = verdict(&mut server, &answer).expect("the right password");
    let awaited = shown(&accepted.token).replace("rspauth=", "");
    let shown = format!("{shown_before} {server:?} {client:?}");
    assert!(shown.contains("bob") && shown.contains('…'), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains(&awaited), "{shown}");
    let mut users = Users::default();
    users.insert("bob", Secret::new("hunter2"));
    assert_eq!(format!("{users:?}"), "Users { passwords: {\"bob\": …} }");
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\"\\\\, =]{1,12}",
        "[a-z\u{e0}-\u{ff}\t\u{1}\u{7f}\"]{1,12}",
        "\\PC{1,20}",
        any::<String>().prop_filter("not empty", |text| !text.is_empty()),
    ]
}

proptest! {
    /// Any name, password and service: both sides agree on quoting and charset.
    #[test]
    fn the_right_password_is_accepted(
        user in name(), password in any::<String>(), other in name(), host in name(),
    ) {
        let service = Service::new("zookeeper", host);
        let known = [(other.as_str(), "x"), (user.as_str(), password.as_str())];
        let id = log_in(server(&service, &known), client(&service, &user, &password));
        prop_assert_eq!(id.map(|id| id.into_string()), Ok(user));
    }

    #[test]
    fn a_wrong_password_is_rejected(user in name(), password in name(), guess in name()) {
        prop_assume!(password != guess);
        let service = Service::CLIENT_PORT;
        let known = [(user.as_str(), password.as_str())];
        let id = log_in(server(&service, &known), client(&service, &user, &guess));
        prop_assert!(matches!(id, Err(SaslError::WrongCredentials { .. })), "{:?}", id);
    }
}
