//! Whole exchanges with fake contexts instead of Kerberos: a token is the initiator's name, and a message
//! is wrapped by a prefix.

use std::sync::Arc;

use super::*;
use crate::SaslError;
use crate::exchange::{ClientStep, ServerStep};
use crate::kerberos::{Appended, ClientNames, NameRules};

/// One side of a fake context. The initiator sends its name; the acceptor answers if `answers` is set.
struct FakeContext {
    name: String,
    answers: bool,
    is_acceptor: bool,
}

const PROOF: &[u8] = b"the service's proof";

impl SecurityContext for FakeContext {
    fn step(&mut self, token: &[u8]) -> Result<Progress, GssapiError> {
        match (self.is_acceptor, token) {
            (false, b"") if self.answers => Ok(Progress::Continue(self.name.clone().into_bytes())),
            (false, b"") => Ok(Progress::Established(Some(self.name.clone().into_bytes()))),
            (false, PROOF) => Ok(Progress::Established(None)),
            (true, name) if name.contains(&b'@') => {
                self.name = String::from_utf8(name.to_vec()).unwrap();
                Ok(Progress::Established(self.answers.then(|| PROOF.to_vec())))
            }
            _ => Err(failure()),
        }
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError> {
        Ok([b"wrapped ", message].concat())
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, GssapiError> {
        wrapped.strip_prefix(b"wrapped ").map(Into::into).ok_or_else(failure)
    }
}

impl AcceptingContext for FakeContext {
    fn initiator(&mut self) -> Result<String, GssapiError> {
        Ok(self.name.clone())
    }
}

fn failure() -> GssapiError {
    GssapiError::Failed { problem: "fake", reason: "no such token".to_owned() }
}

fn initiator(name: &str, answers: bool) -> Client<FakeContext> {
    Client::new(FakeContext { name: name.to_owned(), answers, is_acceptor: false })
}

fn acceptor(answers: bool, admission: Admission) -> Server<FakeContext> {
    Server::new(FakeContext { name: String::new(), answers, is_acceptor: true }, admission)
}

fn clients() -> Admission {
    Admission::Clients(Arc::new(ClientNames {
        rules: NameRules::parse("DEFAULT").unwrap(),
        default_realm: "HERD".to_owned(),
        host: Appended::Kept,
        realm: Appended::Removed,
    }))
}

/// Runs a login; returns how many tokens the client sent and the accepted name.
fn play(name: &str, answers: bool, admission: Admission) -> Result<(usize, String), SaslError> {
    let (mut client, mut server) = (initiator(name, answers), acceptor(answers, admission));
    let mut token = client.open()?;
    for sent in 1.. {
        match server.step(&token)? {
            ServerStep::Challenge(challenge) => match client.step(&challenge)? {
                ClientStep::Response(response) => token = response,
                ClientStep::Accepted => panic!("accepted too early"),
            },
            ServerStep::Accepted(accepted) => {
                assert_eq!(client.step(&accepted.token), Ok(ClientStep::Accepted));
                return Ok((sent, accepted.id.into_string()));
            }
        }
    }
    unreachable!("a login ends");
}

#[test]
fn a_login_with_and_without_the_servers_proof() {
    assert_eq!(play("ann@HERD", true, clients()), Ok((3, "ann".to_owned())));
    assert_eq!(play("ann@HERD", false, clients()), Ok((2, "ann".to_owned())));
    assert_eq!(play("zk/a@HERD", true, clients()), Ok((3, "zk/a".to_owned())));
}

#[test]
fn a_client_without_a_rule_is_rejected() {
    assert!(matches!(play("ann@OTHER", true, clients()), Err(SaslError::NoRule(_))));
    assert!(matches!(play("a/b/c@HERD", true, clients()), Err(SaslError::BadPrincipal(_))));
}

#[test]
fn servers_are_those_whose_host_is_a_members() {
    let members = || Admission::servers(["a.example", "B.example"]);
    for name in ["zk/a.example@HERD", "learner/b.example@HERD", "zk/A.EXAMPLE@HERD"] {
        assert_eq!(play(name, true, members()), Ok((3, name.to_owned())));
    }
    // CVE-2023-44981: a name without a host was accepted without a check.
    for name in ["zk@HERD", "a.example@HERD", "zk/c.example@HERD", "zk/a.example.evil@HERD"] {
        let error = play(name, true, members()).unwrap_err();
        assert_eq!(error, SaslError::NoMember { principal: name.to_owned() });
    }
    assert!(play(r"zk\/a.example@HERD", true, members()).is_err());
}

/// Passes the client's name to a server, and this as the last message.
fn choose(admission: Admission, message: &[u8]) -> Result<ServerStep, SaslError> {
    let mut server = acceptor(false, admission);
    server.step(b"zk/a@HERD").unwrap();
    server.step(message)
}

#[test]
fn a_clients_requested_identity_is_ignored_and_a_servers_is_checked() {
    let accepted = |step| match step {
        Ok(ServerStep::Accepted(accepted)) => accepted.id.into_string(),
        other => panic!("{other:?}"),
    };
    let members = || Admission::servers(["a"]);
    assert_eq!(accepted(choose(clients(), b"wrapped \x01\0\0\0root")), "zk/a");
    assert_eq!(accepted(choose(members(), b"wrapped \x01\0\0\0zk/a@HERD")), "zk/a@HERD");
    let other = choose(members(), b"wrapped \x01\0\0\0zk/b@HERD");
    assert_eq!(other, Err(SaslError::OtherIdentity { user: "zk/a@HERD".to_owned() }));
}

#[test]
fn invalid_tokens_end_the_exchange() {
    assert_eq!(choose(clients(), b"wrapped \x02\0\0\0"), Err(SaslError::Protection));
    assert_eq!(choose(clients(), b"wrapped \x01"), Err(SaslError::MalformedLayers));
    assert!(matches!(choose(clients(), b"\x01\0\0\0"), Err(SaslError::Gssapi(_))));
    let mut server = acceptor(true, clients());
    assert_eq!(server.step(b""), Err(SaslError::NoTicket));
    assert_eq!(server.step(b"ann@HERD"), Err(SaslError::Finished));
    let long = vec![b'@'; TOKEN_BYTES_MAX + 1];
    let too_long = SaslError::TokenTooLong { bytes: long.len(), bytes_max: TOKEN_BYTES_MAX };
    assert_eq!(acceptor(true, clients()).step(&long), Err(too_long));
}

#[test]
fn a_client_authenticates_the_server_first() {
    let mut client = initiator("ann@HERD", true);
    client.open().unwrap();
    assert!(matches!(client.step(b"another service's proof"), Err(SaslError::Gssapi(_))));
    assert_eq!(client.step(PROOF), Err(SaslError::Finished));
    let mut client = initiator("ann@HERD", true);
    client.open().unwrap();
    client.step(PROOF).unwrap();
    assert!(matches!(client.step(b""), Err(SaslError::Gssapi(_))));
}
