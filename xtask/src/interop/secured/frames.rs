//! The frames with which a server answers valid and invalid SASL tokens, compared with Apache's.

use std::io::{self, ErrorKind};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use herdsman_sasl::digest_md5::{Client, ClientSettings, ClientStep, Nonce, Service};
use herdsman_sasl::{Credentials, Secret};

use crate::wire::{Decoder, Op, Session, Ticket};

const TIMEOUT: Duration = Duration::from_secs(30);
const SESSION_TIMEOUT_MS: i32 = 20_000;
/// The JDK accepts no longer response.
const RESPONSE_BYTES_MAX: usize = 4096;

/// A token that a client sends.
#[derive(Clone, Copy, Debug)]
enum Token {
    Null,
    Empty,
    Nonsense,
    TooLong,
    /// The response to the last challenge, with this user and password.
    Response(&'static str, &'static str),
}

const RIGHT: Token = Token::Response("bob", "bob's secret");
const WRONG: Token = Token::Response("bob", "a guess");

/// The tokens of single connections.
const EXCHANGES: &[&[Token]] = &[
    &[Token::Empty, RIGHT],
    &[Token::Empty, WRONG],
    &[Token::Empty, Token::Response("nobody", "bob's secret")],
    &[Token::Empty, Token::Nonsense],
    &[Token::Empty, Token::Empty],
    &[Token::Empty, Token::TooLong],
    &[Token::Empty, Token::Null],
    &[Token::Null],
    &[Token::Nonsense, RIGHT],
    &[Token::Nonsense, Token::Nonsense],
    &[Token::Empty, RIGHT, Token::Empty, RIGHT],
    &[Token::Empty, WRONG, Token::Empty, RIGHT],
];

/// Runs all exchanges with both servers.
pub fn compare(apache: &str, tested: &str) -> Result<()> {
    for tokens in EXCHANGES {
        let expected = play(apache, tokens).with_context(|| format!("Apache and {tokens:?}"))?;
        let answers = play(tested, tokens).with_context(|| format!("{tokens:?}"))?;
        ensure!(
            answers == expected,
            "{tokens:?} is answered with\n{answers:#?}\nand by Apache with\n{expected:#?}"
        );
    }
    Ok(())
}

/// Returns what a server answers to these tokens, and to a read after them.
fn play(address: &str, tokens: &[Token]) -> Result<Vec<String>> {
    let ticket = Ticket::new(SESSION_TIMEOUT_MS);
    let mut session = Session::open(address, &ticket, TIMEOUT)?.context("no session")?;
    let mut challenge = Vec::new();
    let mut answers = Vec::new();
    for token in tokens {
        let token = match token {
            Token::Null => None,
            Token::Empty => Some(Vec::new()),
            Token::Nonsense => Some(b"nonsense".to_vec()),
            Token::TooLong => Some(vec![b'x'; RESPONSE_BYTES_MAX + 1]),
            // If no client can log in, there is no challenge to respond to.
            Token::Response(..) if challenge.is_empty() => Some(b"a response".to_vec()),
            Token::Response(user, password) => Some(response(&challenge, user, password)?),
        };
        let Some(reply) = unless_closed(session.call(&Op::Sasl { token }))? else {
            answers.push("closed".to_owned());
            return Ok(answers);
        };
        let token = match &reply.body[..] {
            [] => "no token".to_owned(),
            body => shown(Decoder::new(body).buffer()?, &mut challenge),
        };
        answers.push(format!("zxid {}, error {}, {token}", reply.zxid, reply.err));
    }
    answers.push(match unless_closed(session.call(&Op::exists("/")))? {
        Some(reply) => format!("a read: error {}", reply.err),
        None => "closed".to_owned(),
    });
    Ok(answers)
}

/// Describes a token. A challenge is kept.
fn shown(token: Option<Vec<u8>>, challenge: &mut Vec<u8>) -> String {
    let Some(token) = token else { return "null token".to_owned() };
    let text = String::from_utf8_lossy(&token).into_owned();
    if text.starts_with("rspauth=") {
        return "proof".to_owned();
    }
    if text.contains("nonce=") {
        *challenge = token;
        return "challenge".to_owned();
    }
    format!("token {text:?}")
}

fn response(challenge: &[u8], user: &str, password: &str) -> Result<Vec<u8>> {
    let credentials =
        Credentials { username: user.to_owned(), password: Secret::new(password.to_owned()) };
    let settings = ClientSettings { service: Service::CLIENT_PORT, credentials };
    let nonce = Nonce::from_random([0x5a; Nonce::RANDOM_BYTES]);
    match Client::new(settings, nonce).step(challenge)? {
        ClientStep::Response(response) => Ok(response),
        ClientStep::Accepted => bail!("a challenge was accepted as a proof"),
    }
}

/// `None` if the server has closed the connection.
fn unless_closed<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}
