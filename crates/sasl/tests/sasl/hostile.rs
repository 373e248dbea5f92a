//! Arbitrary input: every input gives an answer or an error, and never a panic.

use herdsman_sasl::JaasFile;
use herdsman_sasl::digest_md5::Service;
use herdsman_sasl::gssapi::Admission;
use herdsman_sasl::kerberos::{NameRules, PrincipalName};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{challenge, client, response, server};

/// Builds tokens from fragments, so that random ones get past the first byte.
fn token() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop::sample::select(vec![
            "username=",
            "realm=\"",
            "nonce=",
            "cnonce=\"",
            "nc=00000001",
            "qop=auth",
            "algorithm=md5-sess",
            "charset=utf-8",
            "digest-uri=\"",
            "response=",
            "rspauth=",
            "authzid=",
            "\"",
            "\\",
            ",",
            " ",
            "zk-sasl-md5",
            "zookeeper/zk-sasl-md5",
            "OA6MG9tEQGm2hh",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_random_token_is_accepted(token in token()) {
        let mut server = server(&Service::CLIENT_PORT, &[("bob", "secret")]);
        challenge(&mut server);
        prop_assert!(server.step(&token).is_err());
    }

    #[test]
    fn no_token_convinces_a_client(first in token(), second in token()) {
        let mut client = client(&Service::CLIENT_PORT, "bob", "secret");
        if response(&mut client, &first).is_ok() {
            prop_assert!(client.step(&second).is_err());
        }
    }

    #[test]
    fn any_file_is_parsed_or_rejected(text in "([a-z$_.{};=\"\\\\/*# \n-]|\\PC){0,60}") {
        let _ = JaasFile::parse(&text);
    }

    #[test]
    fn any_rules_and_principals_are_parsed_or_rejected(
        rules in "(DEFAULT|RULE:\\[[0-3]:|\\]|s/|[$@/()\\\\a-c1-9 g*]|\\PC){0,20}",
        principal in "[ab/@\\\\.]{0,8}",
    ) {
        if let (Ok(rules), Ok(name)) = (NameRules::parse(&rules), PrincipalName::parse(&principal)) {
            let short = rules.short_name(&name, "a");
            prop_assert!(short.is_err() || !short.unwrap_or_default().contains(['/', '@']));
        }
    }

    /// Every principal accepted as a server is exactly `name/host@REALM` with a host of the list.
    #[test]
    fn only_members_are_accepted_as_servers(principal in "(zk|a|H|/a@|/|@|\\\\){1,5}") {
        if Admission::servers(["a"]).admit(&principal, None).is_ok() {
            let (name, realm) = principal.split_once("/a@").expect("the host is a");
            prop_assert!(!name.contains(['/', '@', '\\']) && !realm.contains(['/', '@', '\\']));
            prop_assert!(!name.is_empty() && !realm.is_empty());
        }
    }

    /// Errors come from files that contain passwords: cut one anywhere and check the error.
    #[test]
    fn no_error_repeats_a_value(cut in 0usize..400, with in "[{};=\"/# ]") {
        let file = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  \
            user_bob=\"hunter2\"\n  user_alice=hunter2;\n};\nClient { x.y optional password=\"hunter2\"; };\n";
        let cut = cut % file.len();
        let changed = format!("{}{with}{}", &file[..cut], &file[cut..]);
        let said = match JaasFile::parse(&changed) {
            Ok(parsed) => format!("{parsed:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!said.contains("hunter2"), "{} -> {}", changed, said);
    }
}
