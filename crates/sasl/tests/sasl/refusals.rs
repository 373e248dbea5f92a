//! Logins that must fail, on both sides.

use herdsman_sasl::SaslError;
use herdsman_sasl::digest_md5::{
    CHALLENGE_BYTES_MAX, ClientStep, RESPONSE_BYTES_MAX, Server, Service,
};

use super::{
    CNONCE, NONCE, challenge, client, response, server, server_with_nonce, shown, verdict,
};

const KNOWN: [(&str, &str); 2] = [("bob", "secret"), ("alice", "other")];

fn challenged() -> Server {
    let mut server = server(&Service::CLIENT_PORT, &KNOWN);
    challenge(&mut server);
    server
}

/// A response that the server accepts.
fn right_response() -> String {
    let token = challenge(&mut server(&Service::CLIENT_PORT, &KNOWN));
    let answer = response(&mut client(&Service::CLIENT_PORT, "bob", "secret"), &token);
    shown(&answer.expect("an answer"))
}

/// The server's error for that response with one piece replaced.
fn refusal(piece: &str, replacement: &str) -> SaslError {
    let right = right_response();
    assert!(right.contains(piece), "{piece} is not in {right}");
    let changed = right.replacen(piece, replacement, 1);
    verdict(&mut challenged(), changed.as_bytes()).expect_err("refused")
}

fn must_be(directive: &'static str, expected: &str) -> SaslError {
    SaslError::Unacceptable { directive, expected: expected.to_string() }
}

#[test]
fn the_response_that_is_tampered_with_below_is_right() {
    assert!(verdict(&mut challenged(), right_response().as_bytes()).is_ok());
}

#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_answer() {
    for (user, password) in [("bob", "guess"), ("bob", ""), ("bob", "other"), ("eve", "secret")] {
        let token = challenge(&mut server(&Service::CLIENT_PORT, &KNOWN));
        let answer = response(&mut client(&Service::CLIENT_PORT, user, password), &token);
        let refusal = verdict(&mut challenged(), &answer.expect("an answer"));
        assert_eq!(refusal, Err(SaslError::WrongCredentials { user: user.to_string() }));
    }
}

/// The password that is used for unknown users is public, but must not be accepted.
#[test]
fn the_decoy_password_is_rejected() {
    let token = challenge(&mut server(&Service::CLIENT_PORT, &KNOWN));
    let answer = response(&mut client(&Service::CLIENT_PORT, "eve", "decoy password"), &token);
    let refusal = verdict(&mut challenged(), &answer.expect("an answer"));
    assert_eq!(refusal, Err(SaslError::WrongCredentials { user: "eve".to_string() }));
}

#[test]
fn every_term_of_a_response_is_checked() {
    let service = "digest-uri=\"zookeeper/zk-sasl-md5\"";
    let nonce = format!("nonce=\"{NONCE}\"");
    for (piece, replacement, expected) in [
        ("realm=\"zk-sasl-md5\"", "realm=\"other\"", must_be("realm", "zk-sasl-md5")),
        ("realm=\"zk-sasl-md5\"", "realm=\"ZK-SASL-MD5\"", must_be("realm", "zk-sasl-md5")),
        ("realm=\"zk-sasl-md5\",", "", must_be("realm", "zk-sasl-md5")),
        ("realm=", "realm=\"zk-sasl-md5\",realm=", SaslError::Repeated("realm")),
        (service, "digest-uri=\"x/zk-sasl-md5\"", must_be("digest-uri", "zookeeper/zk-sasl-md5")),
        (service, "digest-uri=\"zookeeper\"", must_be("digest-uri", "zookeeper/zk-sasl-md5")),
        (service, "x=y", SaslError::Missing("digest-uri")),
        (&nonce, "nonce=\"another\"", SaslError::OtherNonce),
        (&nonce, "x=y", SaslError::Missing("nonce")),
        ("nc=00000001", "nc=00000002", must_be("nc", "00000001")),
        ("charset=utf-8", "charset=utf-16", must_be("charset", "utf-8")),
        ("qop=auth", "qop=auth-int", SaslError::Protection),
        ("qop=auth", "qop=auth-conf,cipher=rc4", SaslError::Protection),
        ("cnonce=", "x=", SaslError::Missing("cnonce")),
        ("response=", "x=", SaslError::Missing("response")),
        ("username=", "x=", SaslError::Missing("username")),
        ("username=", "username=\"alice\",username=", SaslError::Repeated("username")),
        (
            "username=\"bob\"",
            "username=bob\"",
            SaslError::WrongCredentials { user: "bob\"".into() },
        ),
        ("charset", "authzid=\"bob\",charset", SaslError::WrongCredentials { user: "bob".into() }),
    ] {
        assert_eq!(refusal(piece, replacement), expected, "{piece} -> {replacement}");
    }
}

#[test]
fn names_that_are_not_text_are_rejected() {
    let right = right_response().into_bytes();
    let at = right.windows(3).position(|piece| piece == b"bob").expect("the name");
    let mut broken = right;
    broken[at] = 0xff;
    let refusal = verdict(&mut challenged(), &broken);
    assert_eq!(refusal, Err(SaslError::NotUtf8("username")));
}

/// A proof over another user's identity, made with one's own correct password.
#[test]
fn a_user_cannot_act_as_another() {
    let token = format!(
        "username=\"bob\",realm=\"zk-sasl-md5\",nonce=\"{NONCE}\",cnonce=\"{CNONCE}\",\
         digest-uri=\"zookeeper/zk-sasl-md5\",response=cc70b0e5330cd94d32643cb11e6a2cb0,authzid=\"alice\""
    );
    let refusal = verdict(&mut challenged(), token.as_bytes());
    assert_eq!(refusal, Err(SaslError::OtherIdentity { user: "bob".to_string() }));
}

#[test]
fn an_old_response_is_rejected_for_a_new_challenge() {
    let mut next = server_with_nonce(&Service::CLIENT_PORT, &KNOWN, "another");
    challenge(&mut next);
    let refusal = verdict(&mut next, right_response().as_bytes());
    assert_eq!(refusal, Err(SaslError::OtherNonce));
}

/// Not even with the nonce replaced: it is part of the proof.
#[test]
fn an_old_response_with_a_new_nonce_is_rejected() {
    let mut next = server_with_nonce(&Service::CLIENT_PORT, &KNOWN, "another");
    challenge(&mut next);
    let refusal = verdict(&mut next, right_response().replace(NONCE, "another").as_bytes());
    assert_eq!(refusal, Err(SaslError::WrongCredentials { user: "bob".to_string() }));
}

/// A login to the client port is not valid at the quorum port, even with the same password.
#[test]
fn a_response_to_one_service_is_rejected_by_another() {
    let mut quorum = server(&Service::QUORUM, &KNOWN);
    challenge(&mut quorum);
    let refusal = verdict(&mut quorum, right_response().as_bytes());
    assert_eq!(refusal, Err(must_be("realm", "zk-quorum-sasl-md5")));
}

/// Every bit of every byte. The changed response may still mean the same (`Username=` for `username=`, or
/// an optional directive turned into an unknown one), but then for the same user; no changed value is
/// accepted.
#[test]
fn no_flipped_bit_changes_what_is_accepted() {
    let right = right_response();
    let is_in_value = values(&right);
    for at in 0..right.len() {
        for bit in 0..8 {
            let mut changed = right.clone().into_bytes();
            changed[at] ^= 1 << bit;
            if let Ok(accepted) = verdict(&mut challenged(), &changed) {
                assert_eq!(accepted.id.as_str(), "bob", "{}", shown(&changed));
                assert!(!is_in_value[at], "{}", shown(&changed));
            }
        }
    }
}

/// For every byte of a token, whether it belongs to a value.
fn values(token: &str) -> Vec<bool> {
    let mut is_value = false;
    let mark = |byte: u8| {
        is_value = match byte {
            b',' => false,
            _ => is_value,
        };
        let marked = is_value && byte != b'"';
        is_value |= byte == b'=';
        marked
    };
    token.bytes().map(mark).collect()
}

#[test]
fn a_failed_login_is_over() {
    let right = right_response();
    let mut failed = challenged();
    assert!(failed.step(b"username=").is_err());
    assert_eq!(failed.step(right.as_bytes()), Err(SaslError::Finished));
    let mut done = challenged();
    assert!(verdict(&mut done, right.as_bytes()).is_ok());
    assert_eq!(done.step(right.as_bytes()), Err(SaslError::Finished));
}

#[test]
fn long_tokens_are_not_read() {
    let long = |bytes_max: usize| vec![b','; bytes_max + 1];
    let refused = |bytes_max: usize| SaslError::TokenTooLong { bytes: bytes_max + 1, bytes_max };
    let mut server = server(&Service::CLIENT_PORT, &KNOWN);
    let first = server.step(&long(RESPONSE_BYTES_MAX));
    assert_eq!(first, Err(refused(RESPONSE_BYTES_MAX)));
    let mut client = client(&Service::CLIENT_PORT, "bob", "secret");
    let first = client.step(&long(CHALLENGE_BYTES_MAX));
    assert_eq!(first, Err(refused(CHALLENGE_BYTES_MAX)));
}

#[test]
fn a_client_sends_no_response_that_a_server_would_not_read() {
    let token = challenge(&mut server(&Service::CLIENT_PORT, &KNOWN));
    let long_name = "x".repeat(RESPONSE_BYTES_MAX);
    let answer = response(&mut client(&Service::CLIENT_PORT, &long_name, "secret"), &token);
    assert!(matches!(answer, Err(SaslError::TokenTooLong { .. })));
}

#[test]
fn a_client_checks_what_it_is_asked() {
    for (challenge, expected) in [
        ("", SaslError::Missing("algorithm")),
        ("nonce=\"n\"", SaslError::Missing("algorithm")),
        ("algorithm=md5-sess", SaslError::Missing("nonce")),
        ("nonce=\"n\",nonce=\"m\",algorithm=md5-sess", SaslError::Repeated("nonce")),
        ("nonce=\"n\",algorithm=md5", must_be("algorithm", "md5-sess")),
        ("nonce=\"n\",algorithm=md5-sess,charset=latin", must_be("charset", "utf-8")),
        ("nonce=\"n\",algorithm=md5-sess,qop=\"auth-int,auth-conf\"", SaslError::Protection),
    ] {
        let answer =
            response(&mut client(&Service::CLIENT_PORT, "bob", "secret"), challenge.as_bytes());
        assert_eq!(answer, Err(expected), "{challenge}");
    }
}

/// A server that accepts every client in order to record responses does not know the password.
#[test]
fn a_client_accepts_only_a_server_that_proves_itself() {
    let token = challenge(&mut server(&Service::CLIENT_PORT, &KNOWN));
    let answered = || {
        let mut client = client(&Service::CLIENT_PORT, "bob", "secret");
        let answer = response(&mut client, &token).expect("an answer");
        (client, answer)
    };
    let (mut client, answer) = answered();
    let right = verdict(&mut challenged(), &answer).expect("the right password").token;
    assert_eq!(client.step(&right), Ok(ClientStep::Accepted));
    assert_eq!(client.step(&right), Err(SaslError::Finished));
    let own_proof = shown(&answer).replace("response=", "rspauth=");
    for (last, expected) in [
        ("", SaslError::Missing("rspauth")),
        ("rspauth=ea40f60335c427b5527b84dbabcdfffd", SaslError::UnprovenServer),
        ("rspauth=x", SaslError::UnprovenServer),
        (own_proof.as_str(), SaslError::UnprovenServer),
    ] {
        let (mut client, _) = answered();
        assert_eq!(client.step(last.as_bytes()), Err(expected), "{last}");
        assert_eq!(client.step(&right), Err(SaslError::Finished));
    }
}

#[test]
fn errors_truncate_names() {
    let token = challenge(&mut server(&Service::CLIENT_PORT, &KNOWN));
    let name = format!("line\nbreak{}", "x".repeat(1000));
    let answer = response(&mut client(&Service::CLIENT_PORT, &name, "secret"), &token);
    let refusal = verdict(&mut challenged(), &answer.expect("an answer")).expect_err("unknown");
    let line = refusal.to_string();
    assert!(line.starts_with("user \"line\\nbreakxxx") && line.len() < 120, "{line}");
}
