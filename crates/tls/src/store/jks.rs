//! JKS, Java's own key store format.
//!
//! In: a file's bytes and the password. Out: its keys, still encrypted, and its certificates. Numbers are
//! big-endian; a text is a two-byte length and that many bytes.
//!
//! ```text
//! store        magic 0xFEEDFEED (4) | version 1 or 2 (4) | count of entries (4) | entries | digest (20)
//! key entry    1 (4) | alias (text) | date (8) | length (4) | sealed key | count (4) | certificates
//! certificate  2 (4) | alias (text) | date (8) | one certificate
//! certificate  version 2 only: type (text, "X.509") | length (4) | DER
//! digest       SHA-1 of the password in UTF-16, the words "Mighty Aphrodite", and all before the digest
//! sealed key   SEQUENCE { the algorithm 1.3.6.1.4.1.42.2.17.1.1, OCTET STRING }
//!              in which: salt (20) | key XOR stream | SHA-1 of the password and the key (20)
//! stream       SHA-1 of the password and the salt, SHA-1 of the password and that, and so on
//! ```
//!
//! The stream is not real encryption: a JKS file is only as secret as its permissions. The digest protects
//! against accidental damage only. Java: `sun.security.provider.JavaKeyStore`, `KeyProtector`.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha1::{Digest, Sha1};
use zeroize::Zeroizing;

use super::{Contents, StoredKey};
use crate::certificate;
use crate::der;
use crate::error::StoreProblem;
use herdsman_secret::Secret;

const KEY_ENTRY: u32 = 1;
const CERTIFICATE_ENTRY: u32 = 2;
const DIGEST_BYTES: usize = 20;
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// 1.3.6.1.4.1.42.2.17.1.1, the key protection described above.
const SUN_KEY_PROTECTOR: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

/// Reads a store. Without a password the digest is not checked.
pub(super) fn read(content: &[u8], password: Option<&Secret>) -> Result<Contents, StoreProblem> {
    let body_length = content.len().checked_sub(DIGEST_BYTES).ok_or_else(cut_short)?;
    let (body, digest) = content.split_at(body_length);
    if let Some(password) = password {
        check_digest(body, digest, password)?;
    }
    let mut reader = Reader { rest: body };
    let _magic = reader.number()?;
    let version = reader.number()?;
    if !(1..=2).contains(&version) {
        return Err(StoreProblem::Unsupported(format!("version {version} of JKS")));
    }
    let mut contents = Contents::default();
    for _ in 0..reader.number()? {
        read_entry(&mut reader, version, &mut contents)?;
    }
    if !reader.rest.is_empty() {
        return Err(StoreProblem::Damaged("there are bytes after the last entry".to_owned()));
    }
    Ok(contents)
}

fn check_digest(body: &[u8], digest: &[u8], password: &Secret) -> Result<(), StoreProblem> {
    let expected = Sha1::new()
        .chain_update(utf16(password))
        .chain_update(WHITENER)
        .chain_update(body)
        .finalize();
    if expected[..] == *digest { Ok(()) } else { Err(StoreProblem::WrongPassword) }
}

fn read_entry(
    reader: &mut Reader<'_>,
    version: u32,
    contents: &mut Contents,
) -> Result<(), StoreProblem> {
    let tag = reader.number()?;
    let _alias = reader.text()?;
    let _date = reader.bytes(8)?;
    match tag {
        KEY_ENTRY => {
            let length = reader.number()?;
            contents.keys.push(StoredKey::Jks(reader.bytes(length)?.to_vec()));
            for _ in 0..reader.number()? {
                let certificate = read_certificate(reader, version)?;
                contents.certificates.push(certificate);
            }
        }
        CERTIFICATE_ENTRY => {
            let certificate = read_certificate(reader, version)?;
            contents.certificates.push(certificate.clone());
            contents.trusted.push(certificate);
        }
        other => {
            return Err(StoreProblem::Damaged(format!("an entry of unknown type {other}")));
        }
    }
    Ok(())
}

fn read_certificate(
    reader: &mut Reader<'_>,
    version: u32,
) -> Result<CertificateDer<'static>, StoreProblem> {
    if version == 2 {
        let kind = reader.text()?;
        if kind != b"X.509" && kind != b"X509" {
            let kind = String::from_utf8_lossy(kind).into_owned();
            return Err(StoreProblem::Unsupported(format!("a certificate of type {kind}")));
        }
    }
    let length = reader.number()?;
    let certificate = CertificateDer::from(reader.bytes(length)?.to_vec());
    certificate::parse(&certificate)
        .map_err(|malformed| StoreProblem::Damaged(malformed.to_string()))?;
    Ok(certificate)
}

/// Decrypts a key.
pub(super) fn open_key(
    sealed: &[u8],
    password: &Secret,
) -> Result<PrivateKeyDer<'static>, StoreProblem> {
    let protected = protected_bytes(sealed)?;
    let password = utf16(password);
    let damaged = || StoreProblem::Damaged("the private key is too short".to_owned());
    let (salt, rest) = protected.split_at_checked(DIGEST_BYTES).ok_or_else(damaged)?;
    let key_length = rest.len().checked_sub(DIGEST_BYTES).ok_or_else(damaged)?;
    let (hidden, check) = rest.split_at(key_length);

    let mut key = Zeroizing::new(Vec::with_capacity(key_length));
    let mut block = salt.to_vec();
    for hidden in hidden.chunks(DIGEST_BYTES) {
        block = Sha1::new().chain_update(&password).chain_update(&block).finalize().to_vec();
        key.extend(hidden.iter().zip(&block).map(|(byte, stream)| byte ^ stream));
    }
    let expected = Sha1::new().chain_update(&password).chain_update(&key).finalize();
    if expected[..] != *check {
        return Err(StoreProblem::WrongPassword);
    }
    Ok(PrivatePkcs8KeyDer::from(key.to_vec()).into())
}

/// Returns the octets of an encrypted key, if the algorithm is the known one.
fn protected_bytes(sealed: &[u8]) -> Result<&[u8], StoreProblem> {
    let parts = || {
        let items = der::items(der::only(der::SEQUENCE, sealed)?)?;
        let [algorithm, octets] = <[der::Item<'_>; 2]>::try_from(items).ok()?;
        let (identifier, _parameters) = der::split(algorithm.content)?;
        (octets.tag == der::OCTET_STRING).then_some((identifier.content, octets.content))
    };
    let (algorithm, octets) =
        parts().ok_or_else(|| StoreProblem::Damaged("the private key's envelope".to_owned()))?;
    if algorithm != SUN_KEY_PROTECTOR {
        return Err(StoreProblem::Unsupported("the private key's protection".to_owned()));
    }
    Ok(octets)
}

/// Encodes a password as big-endian UTF-16, the form that Java hashes.
fn utf16(password: &Secret) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.expose().encode_utf16().flat_map(u16::to_be_bytes).collect())
}

/// Reads from the front, and never past the end.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: u32) -> Result<&'a [u8], StoreProblem> {
        let length = usize::try_from(length).map_err(|_too_long| cut_short())?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u32, StoreProblem> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn text(&mut self) -> Result<&'a [u8], StoreProblem> {
        let (length, rest) = self.rest.split_first_chunk().ok_or_else(cut_short)?;
        self.rest = rest;
        self.bytes(u32::from(u16::from_be_bytes(*length)))
    }
}

fn cut_short() -> StoreProblem {
    StoreProblem::Damaged("the file is cut short".to_owned())
}
