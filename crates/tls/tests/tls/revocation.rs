//! Revoked certificates.

use herdsman_tls::{Revocation, Side, TlsContext};
use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd,
};

use crate::authority::{Authority, Parties, leaf_params};
use crate::connection::connect;

/// The serial number of every leaf, and one that is not in use.
const OURS: u8 = 42;
const OTHER: u8 = 43;

/// A list with one revoked serial number, valid until the given year.
pub fn list(
    authority: &Authority,
    revoked: u8,
    next_update: i32,
) -> rcgen::CertificateRevocationList {
    let revoked = RevokedCertParams {
        serial_number: SerialNumber::from_slice(&[revoked]),
        revocation_time: date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2019, 1, 1),
        next_update: date_time_ymd(next_update, 1, 1),
        crl_number: SerialNumber::from_slice(&[1]),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(&authority.issuer).unwrap()
}

fn check(parties: &Parties, expected: Result<(), &str>) {
    let server = TlsContext::load(parties.server.clone(), Side::Server).unwrap();
    let outcome = connect(&server, &parties.client()).map(drop);
    assert_eq!(
        outcome.map_err(|refusal| refusal.server_error()),
        expected.map_err(ToOwned::to_owned)
    );
}

#[test]
fn a_revoked_certificate_is_rejected() {
    for pem in [true, false] {
        let mut parties = Parties::new();
        let content = |list: rcgen::CertificateRevocationList| match pem {
            true => list.pem().unwrap().into_bytes(),
            false => list.der().to_vec(),
        };
        let crl_file = Some(parties.files.path("list.crl"));
        parties.server.revocation = Revocation::Checked { crl_file };
        let revoked = list(&parties.authority, OURS, 2900);
        parties.files.put("list.crl", content(revoked));
        check(&parties, Err("the peer's certificate has been revoked"));
        let another = list(&parties.authority, OTHER, 2900);
        parties.files.put("list.crl", content(another));
        check(&parties, Ok(()));
    }
}

#[test]
fn lists_may_be_in_a_pem_trust_store() {
    let mut parties = Parties::new();
    let list = list(&parties.authority, OURS, 2900).pem().unwrap();
    let trust = parties.authority.pem() + &list;
    let key = parties.authority.issue("server").pem();
    parties.server = parties.files.settings("server", &key, &trust);
    check(&parties, Ok(()));
    parties.server.revocation = Revocation::Checked { crl_file: None };
    check(&parties, Err("the peer's certificate has been revoked"));
}

#[test]
fn an_overdue_list_and_a_missing_one_reject() {
    let mut parties = Parties::new();
    let crl_file = Some(parties.files.path("list.crl"));
    parties.server.revocation = Revocation::Checked { crl_file };
    let overdue = list(&parties.authority, OTHER, 2021);
    parties.files.put("list.crl", overdue.der());
    check(&parties, Err("the revocation list for the peer's certificate is out of date"));
    let untrusted = Authority::new("untrusted");
    parties.files.put("list.crl", list(&untrusted, OTHER, 2900).der());
    check(&parties, Err("there is no revocation list for the peer's certificate"));
}

#[test]
fn a_list_with_a_wrong_signature_rejects() {
    let mut parties = Parties::new();
    let crl_file = Some(parties.files.path("list.crl"));
    parties.server.revocation = Revocation::Checked { crl_file };
    let impostor = Authority::new("root");
    parties.files.put("list.crl", list(&impostor, OTHER, 2900).der());
    check(
        &parties,
        Err("the revocation list for the peer's certificate cannot be used: BadSignature"),
    );
}

#[test]
fn a_revoked_intermediate_authority_rejects() {
    let mut parties = Parties::new();
    let below = parties.authority.subordinate("below");
    let leaf = below.sign(&leaf_params("client"));
    let key = leaf.pem() + &below.pem();
    parties.client = parties.files.settings("client", &key, &parties.authority.pem());
    check(&parties, Ok(()));

    let crl_file = Some(parties.files.path("list.crl"));
    parties.server.revocation = Revocation::Checked { crl_file };
    let lists = [list(&below, OTHER, 2900), list(&parties.authority, OTHER, 2900)];
    parties.files.put("list.crl", lists.map(|list| list.pem().unwrap()).concat());
    check(&parties, Ok(()));
    parties.files.put("list.crl", list(&below, OTHER, 2900).pem().unwrap());
    check(&parties, Err("there is no revocation list for the peer's certificate"));
}

#[test]
fn no_list_at_all_is_an_error_when_loading() {
    let mut parties = Parties::new();
    parties.server.revocation = Revocation::Checked { crl_file: None };
    let error = TlsContext::load(parties.server.clone(), Side::Server).unwrap_err().to_string();
    assert!(error.starts_with("revocation is to be checked, but there is no"), "{error}");

    for (content, problem) in [
        (parties.authority.pem().into_bytes(), "damaged: no X509 CRL block found"),
        (b"nonsense".to_vec(), "no PEM block found"),
        (vec![0x30, 3, 1, 1, 1], "damaged: cannot read a revocation list"),
    ] {
        let path = parties.files.put("list.crl", content);
        parties.server.revocation = Revocation::Checked { crl_file: Some(path.clone()) };
        let error = TlsContext::load(parties.server.clone(), Side::Server).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: {problem}", path.display())), "{error}");
    }
}
