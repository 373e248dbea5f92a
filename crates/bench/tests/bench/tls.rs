//! Targets with TLS and plain targets.

use crate::{check_rounds, measured, refused, znodes};
use herdsman_testing::Authority;

fn flags(authority: &Authority, name: &str) -> String {
    let (trust, own) = (authority.trust_store(), authority.sign(name));
    format!("--tls-trust-store {} --tls-key-store {}", trust.display(), own.display())
}

#[test]
fn every_kind_of_load_works_through_tls() {
    let authority = Authority::new();
    let server = authority.start_server();
    let before = znodes(&server);
    let words = format!(
        "get set children multi watch session --keys 50 --value-bytes 3000 --rounds 1 \
         --target tls=tls://{} {}",
        server.secure_address(),
        flags(&authority, "ann")
    );
    let report = measured(&words, &[&server]);
    check_rounds(&report);
    let secured = report.rows.iter().filter(|row| row.target == "tls").count();
    assert_eq!(secured, 6, "each workload on each target");
    assert_eq!(znodes(&server), before);
}

#[test]
fn an_untrusted_server_is_an_error() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = others.start_server();
    let target = format!("get --target tls=tls://{}", server.secure_address());
    let words = refused(&format!("{target} {}", flags(&ours, "ann")), &[]);
    assert!(words.contains("not signed by any authority in the trust store"), "{words}");
    assert!(refused(&target, &[]).contains("needs --tls-trust-store"));
    let words = refused(&format!("{target} --tls-key-store x.pem"), &[]);
    assert!(words.contains("--tls-key-store needs --tls-trust-store"), "{words}");
}
