//! The computation of RFC 2831, section 2.1.2.1: what both sides compute to prove that they know the
//! password without sending it.

use md5::{Digest, Md5};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::{NONCE_COUNT, QOP};
use crate::{SaslError, Secret};

/// The encoding that a server uses for names and passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset {
    /// The server sent `charset=utf-8`.
    Utf8,
    /// The server sent no charset.
    Latin1,
}

impl Charset {
    /// Encodes text for a token.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, SaslError> {
        match self {
            Charset::Utf8 => Ok(text.as_bytes().to_vec()),
            Charset::Latin1 => latin1(text).ok_or(SaslError::BeyondLatin1),
        }
    }

    /// Encodes text for hashing. Even with UTF-8, text that fits ISO 8859-1 is hashed in that encoding, so
    /// that hashes agree with those of implementations without UTF-8.
    fn encode_for_hash(self, text: &str) -> Result<Zeroizing<Vec<u8>>, SaslError> {
        let bytes = match latin1(text) {
            Some(bytes) => bytes,
            None => self.encode(text)?,
        };
        Ok(Zeroizing::new(bytes))
    }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

/// The input of the proofs, besides the password.
pub(super) struct ProofInput<'a> {
    pub(super) charset: Charset,
    pub(super) user: &'a str,
    pub(super) realm: &'a str,
    pub(super) nonce: &'a [u8],
    pub(super) cnonce: &'a [u8],
    pub(super) digest_uri: &'a [u8],
    /// `None` if the client sent none. An empty one is hashed differently.
    pub(super) authzid: Option<&'a [u8]>,
}

/// The proofs that the two sides send to each other.
pub(super) struct Proofs {
    pub(super) of_client: Proof,
    pub(super) of_server: Proof,
}

/// 32 lower-case hexadecimal digits.
pub(super) struct Proof([u8; 32]);

impl Proof {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares with what the other side sent, in constant time.
    pub(super) fn matches(&self, sent: &[u8]) -> Choice {
        self.0[..].ct_eq(sent)
    }
}

impl ProofInput<'_> {
    pub(super) fn proofs(&self, password: &Secret) -> Result<Proofs, SaslError> {
        let key = self.session_key(password)?;
        Ok(Proofs {
            of_client: self.proof(&key, b"AUTHENTICATE"),
            of_server: self.proof(&key, b""),
        })
    }

    /// Computes the RFC's `HEX(H(A1))`.
    fn session_key(&self, password: &Secret) -> Result<Zeroizing<[u8; 32]>, SaslError> {
        let long_lived = Md5::new()
            .chain_update(self.charset.encode_for_hash(self.user)?)
            .chain_update(b":")
            .chain_update(self.charset.encode_for_hash(self.realm)?)
            .chain_update(b":")
            .chain_update(self.charset.encode_for_hash(password.expose())?)
            .finalize();
        let mut key = Md5::new()
            .chain_update(long_lived)
            .chain_update(b":")
            .chain_update(self.nonce)
            .chain_update(b":")
            .chain_update(self.cnonce);
        if let Some(authzid) = self.authzid {
            key = key.chain_update(b":").chain_update(authzid);
        }
        Ok(Zeroizing::new(finish(key)))
    }

    /// Computes the RFC's `response-value`; `method` distinguishes the two sides.
    fn proof(&self, key: &[u8; 32], method: &[u8]) -> Proof {
        let target =
            Md5::new().chain_update(method).chain_update(b":").chain_update(self.digest_uri);
        let pieces: [&[u8]; 6] =
            [key, self.nonce, NONCE_COUNT.as_bytes(), self.cnonce, QOP.as_bytes(), &finish(target)];
        Proof(finish(Md5::new().chain_update(pieces.join(&b':'))))
    }
}

fn finish(hash: Md5) -> [u8; 32] {
    let mut digits = [0; 32];
    hex::encode_to_slice(hash.finalize(), &mut digits).expect("16 bytes are 32 digits");
    digits
}
