//! What Java trusts and rustls alone would not.

use std::fs;

use herdsman_tls::rustls::CertificateError;
use herdsman_tls::rustls::pki_types::CertificateDer;
use herdsman_tls::{Protocol, Revocation, Side, TlsContext, subject_name};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SigningKey,
    date_time_ymd,
};

use crate::authority::{Authority, Files, Leaf, Parties, leaf_params};
use crate::connection::connect;
use crate::revocation::list;
use crate::tools::run;

fn self_signed(params: &CertificateParams) -> Leaf {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Leaf {
        der: certificate.der().clone(),
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    }
}

/// Both sides use this certificate and trust what is in `trust`.
fn check(leaf: &Leaf, trust: &str, expected: Result<(), &CertificateError>) {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let files = Files::new();
        let mut settings = files.settings("both", &leaf.pem(), trust);
        settings.protocols = vec![protocol];
        let context = TlsContext::load(settings, Side::Both).unwrap();
        let outcome = connect(&context, &context).map(|mut link| link.exchange());
        let outcome = outcome.map_err(|refusal| refusal.client.unwrap());
        assert_eq!(outcome, expected.map_err(|error| error.clone().into()), "{protocol:?}");
    }
}

#[test]
fn a_certificate_that_is_in_the_trust_store_is_trusted() {
    let plain = self_signed(&leaf_params("self-signed"));
    check(&plain, &plain.certificate_pem, Ok(()));

    let mut params = leaf_params("authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = self_signed(&params);
    check(&authority, &authority.certificate_pem, Ok(()));

    // Its issuer need not be known.
    let issued = Authority::new("unknown").issue("issued");
    check(&issued, &issued.certificate_pem, Ok(()));
    let same_name = self_signed(&leaf_params("self-signed"));
    let other_key = &CertificateError::UnknownIssuer;
    check(&Authority::new("other").issue("x"), &same_name.certificate_pem, Err(other_key));
}

#[test]
fn a_certificate_that_is_in_the_trust_store_may_not_be_expired() {
    let mut params = leaf_params("self-signed");
    params.not_after = date_time_ymd(2002, 1, 1);
    let leaf = self_signed(&params);
    let files = Files::new();
    let settings = files.settings("both", &leaf.pem(), &leaf.certificate_pem);
    let context = TlsContext::load(settings, Side::Both).unwrap();
    let refusal = connect(&context, &context).err().unwrap();
    assert_eq!(refusal.client_error(), "the peer's certificate has expired");
    assert_eq!(context.warnings().len(), 2, "of the key store and of the trust store");
}

#[test]
fn a_certificate_that_lists_purposes_must_list_ours() {
    let parties = Parties::new();
    let trust = parties.authority.pem();
    let with = |purposes: &[ExtendedKeyUsagePurpose]| {
        let mut params = leaf_params("leaf");
        params.extended_key_usages = purposes.to_vec();
        parties.authority.sign(&params)
    };
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, ServerAuth};
    check(&with(&[ServerAuth, ClientAuth]), &trust, Ok(()));
    check(&with(&[CodeSigning, Any]), &trust, Ok(()));
    check(&with(&[ClientAuth]), &trust, Err(&CertificateError::InvalidPurpose));
    check(&with(&[CodeSigning]), &trust, Err(&CertificateError::InvalidPurpose));
}

#[test]
fn an_authority_below_an_anchor_is_not_a_peer() {
    let root = Authority::new("root");
    let mut params = leaf_params("authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let files = Files::new();
    let settings = files.settings("both", &root.sign(&params).pem(), &root.pem());
    let context = TlsContext::load(settings, Side::Both).unwrap();
    let refusal = connect(&context, &context).err().unwrap();
    assert_eq!(
        refusal.client_error(),
        "the peer's certificate was rejected: it belongs to a certificate authority and is not itself in the \
         trust store"
    );
}

#[test]
fn an_intermediate_authority_may_be_trusted_or_shown() {
    let root = Authority::new("root");
    let below = root.subordinate("below");
    let mut leaf = below.issue("leaf");
    check(&leaf, &below.pem(), Ok(()));
    check(&leaf, &root.pem(), Err(&CertificateError::UnknownIssuer));
    leaf.certificate_pem += &below.pem();
    check(&leaf, &root.pem(), Ok(()));
    leaf.certificate_pem += &root.pem();
    check(&leaf, &root.pem(), Ok(()));
}

#[test]
fn a_version_1_certificate_is_trusted_if_an_anchor_has_signed_it() {
    let root = Authority::new("root");
    let leaf = version_1(&root, &version_1_params());
    assert_eq!(subject_name(&leaf.der).unwrap(), "CN=127.0.0.1");
    check(&leaf, &root.pem(), Ok(()));
    check(&leaf, &leaf.certificate_pem, Ok(()));

    let untrusted = Authority::new("untrusted");
    check(&leaf, &untrusted.pem(), Err(&CertificateError::UnknownIssuer));
    let impostor = Authority::new("root");
    check(&leaf, &impostor.pem(), Err(&CertificateError::BadSignature));
    // Either of two authorities with the same name may be the issuer.
    check(&leaf, &(impostor.pem() + &root.pem()), Ok(()));
    check(&leaf, &(root.pem() + &impostor.pem()), Ok(()));
    // An authority below an anchor is not enough.
    let below = root.subordinate("below");
    let leaf = version_1(&below, &version_1_params());
    check(&leaf, &root.pem(), Err(&CertificateError::UnknownIssuer));
}

#[test]
fn a_version_1_certificate_must_be_valid_now_and_excludes_revocation_lists() {
    let root = Authority::new("root");
    let mut params = version_1_params();
    params.not_after = date_time_ymd(2002, 1, 1);
    let files = Files::new();
    let settings = files.settings("both", &version_1(&root, &params).pem(), &root.pem());
    let context = TlsContext::load(settings, Side::Both).unwrap();
    let refusal = connect(&context, &context).err().unwrap();
    assert_eq!(refusal.client_error(), "the peer's certificate has expired");

    let leaf = version_1(&root, &version_1_params());
    let mut settings = files.settings("both", &leaf.pem(), &root.pem());
    let crl_file = Some(files.put("list.crl", list(&root, 43, 2900).der()));
    settings.revocation = Revocation::Checked { crl_file };
    let context = TlsContext::load(settings, Side::Both).unwrap();
    let refusal = connect(&context, &context).err().unwrap();
    assert_eq!(
        refusal.client_error(),
        "the peer's certificate was rejected: an X.509 version 1 certificate cannot be checked against \
         revocation lists"
    );
}

/// As in the scripts that make the test certificates of the C client and of kazoo: no extensions, so older
/// openssl versions write X.509 version 1; root and leaf may even have the same name.
#[test]
fn certificates_of_plain_openssl_commands_are_trusted() {
    let files = Files::new();
    let openssl = |line: &str| {
        run(files.dir(), "openssl", &line.split(' ').collect::<Vec<_>>());
    };
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout root.key -out root.pem -days 9 -subj /CN=127.0.0.1",
    );
    openssl("req -newkey rsa:2048 -nodes -keyout leaf.key -out leaf.csr -subj /CN=127.0.0.1");
    openssl(
        "x509 -req -in leaf.csr -CA root.pem -CAkey root.key -CAcreateserial -days 9 -out leaf.pem",
    );
    let read = |name: &str| fs::read_to_string(files.path(name)).unwrap();
    let leaf = Leaf {
        der: CertificateDer::from(vec![]),
        certificate_pem: read("leaf.pem"),
        key_pem: read("leaf.key"),
    };
    check(&leaf, &read("root.pem"), Ok(()));

    openssl("x509 -req -sha1 -in leaf.csr -CA root.pem -CAkey root.key -days 9 -out leaf.pem");
    let key = read("leaf.key") + &read("leaf.pem");
    let settings = files.settings("weak", &key, &read("root.pem"));
    let context = TlsContext::load(settings, Side::Both).unwrap();
    let refusal = connect(&context, &context).err().unwrap();
    assert_eq!(
        refusal.client_error(),
        "the peer's certificate is signed with an algorithm that is not supported"
    );
}

/// Version 1 has no alternative names, so the common name must be the host.
fn version_1_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "127.0.0.1");
    params
}

/// What the authority would sign, without what makes it version 3: the version and the extensions.
fn version_1(authority: &Authority, params: &CertificateParams) -> Leaf {
    let key = KeyPair::generate().unwrap();
    let version_3 = params.signed_by(&key, &authority.issuer).unwrap();
    let outer = items(content(version_3.der()));
    let fields = items(content(outer[0]));
    let kept: Vec<&[u8]> =
        fields.into_iter().filter(|field| field[0] != 0xa0 && field[0] != 0xa3).collect();
    let signed = encode(0x30, &kept.concat());
    let signature = authority.issuer.key().sign(&signed).unwrap();
    let signature = encode(0x03, &[&[0], &signature[..]].concat());
    let der = CertificateDer::from(encode(0x30, &[&signed[..], outer[1], &signature].concat()));
    Leaf { certificate_pem: to_pem(&der), der, key_pem: key.serialize_pem() }
}

fn to_pem(der: &[u8]) -> String {
    let files = Files::new();
    files.put("der", der);
    run(files.dir(), "openssl", &["x509", "-inform", "DER", "-in", "der", "-out", "pem"]);
    fs::read_to_string(files.path("pem")).unwrap()
}

/// The lengths of a DER item's header and content; lengths here need at most two bytes.
fn lengths(item: &[u8]) -> (usize, usize) {
    match item[1] {
        0x82 => (4, usize::from(u16::from_be_bytes([item[2], item[3]]))),
        0x81 => (3, usize::from(item[2])),
        length => (2, usize::from(length)),
    }
}

fn content(item: &[u8]) -> &[u8] {
    &item[lengths(item).0..]
}

fn items(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let (header, content) = lengths(bytes);
        let (item, rest) = bytes.split_at(header + content);
        items.push(item);
        bytes = rest;
    }
    items
}

fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let header = match length {
        [0, short @ 0..0x80] => vec![tag, short],
        [0, long] => vec![tag, 0x81, long],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [&header[..], content].concat()
}
