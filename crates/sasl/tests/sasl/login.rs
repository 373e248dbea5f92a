//! The meaning of the sections of a JAAS file.

use herdsman_sasl::gssapi::{AcceptorKeys, InitiatorKeys};
use herdsman_sasl::{JaasFile, Login, LoginError};

fn login(file: &str, section: &str) -> Result<Login, LoginError> {
    Login::from_file(&JaasFile::parse(file).expect("a good file"), section)
}

/// The error as an operator sees it.
fn complaint(file: &str, section: &str) -> String {
    login(file, section).expect_err("an unusable section").to_string()
}

const FILE: &str = r#"
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="adminsecret"
    user_bob="bobsecret";
};
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="bob"
    password="bobsecret";
};
KerberosServer {
    com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true
    keyTab="/etc/zookeeper.keytab"
    storeKey=TRUE
    useTicketCache=false
    principal="zookeeper/host.example.com@EXAMPLE.COM";
};
KerberosClient {
    com.ibm.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="/tmp/cc";
};
Empty { };
"#;

#[test]
fn a_server_section_names_its_users() {
    let Ok(Login::Digest(digest)) = login(FILE, "Server") else {
        panic!("not a section with passwords");
    };
    assert_eq!(digest.users.names().collect::<Vec<_>>(), ["bob", "super"]);
    assert_eq!(digest.users.password("bob").map(|password| password.expose()), Some("bobsecret"));
    assert!(digest.users.password("eve").is_none());
    assert!(digest.credentials.is_none());
}

#[test]
fn a_client_section_names_one_user() {
    let Ok(Login::Digest(digest)) = login(FILE, "Client") else {
        panic!("not a section with passwords");
    };
    let credentials = digest.credentials.expect("a user name and a password");
    assert_eq!(credentials.username, "bob");
    assert_eq!(credentials.password.expose(), "bobsecret");
    assert!(digest.users.is_empty());
}

#[test]
fn kerberos_sections_keep_their_options() {
    let Ok(Login::Kerberos(server)) = login(FILE, "KerberosServer") else {
        panic!("not a section for Kerberos");
    };
    assert_eq!(server.principal.as_deref(), Some("zookeeper/host.example.com@EXAMPLE.COM"));
    assert_eq!(server.key_tab, Some("/etc/zookeeper.keytab".into()));
    assert!(server.use_key_tab && !server.use_ticket_cache);
    let Ok(Login::Kerberos(client)) = login(FILE, "KerberosClient") else {
        panic!("not a section for Kerberos");
    };
    assert!(client.use_ticket_cache && !client.use_key_tab);
    assert_eq!(client.ticket_cache, Some("/tmp/cc".into()));
}

#[test]
fn a_kerberos_section_must_name_keys_or_tickets() {
    let kerberos = |options: &str| {
        let class = "com.sun.security.auth.module.Krb5LoginModule";
        match login(&format!("S {{ {class} required {options}; }};"), "S") {
            Ok(Login::Kerberos(login)) => login,
            other => panic!("not a section for Kerberos: {other:?}"),
        }
    };
    let key_tab = "useKeyTab=true keyTab=\"/k\"";
    let service = kerberos(&format!("{key_tab} principal=\"zk/a@HERD\""));
    let (principal, file) = ("zk/a@HERD".to_owned(), Some("/k".into()));
    assert_eq!(
        service.acceptor_keys(),
        Ok(AcceptorKeys { principal: principal.clone(), key_table: file.clone() })
    );
    assert_eq!(service.initiator_keys(), Ok(InitiatorKeys::KeyTable { principal, file }));
    let cached = kerberos("useTicketCache=true ticketCache=\"/c\" principal=ann");
    let (principal, file) = (Some("ann".to_owned()), Some("/c".into()));
    assert_eq!(cached.initiator_keys(), Ok(InitiatorKeys::TicketCache { principal, file }));
    for (options, said) in [
        (key_tab.to_owned(), "section `S`: option `principal` is missing"),
        (
            format!("{key_tab} principal=ann"),
            "section `S`: option `principal` must name a service, as name/host@REALM",
        ),
        (
            format!("{key_tab} principal=\"a/b/c@D\""),
            "section `S`: option `principal`: \"a/b/c@D\" is not a Kerberos name",
        ),
        (String::new(), "section `S`: name the keys with `useKeyTab=true` and `keyTab`"),
    ] {
        let error = kerberos(&options).acceptor_keys().unwrap_err().to_string();
        assert!(error.starts_with(said), "{options}: {error}");
    }
    let nothing = kerberos("principal=ann").initiator_keys().unwrap_err().to_string();
    assert!(nothing.ends_with("or use a ticket with `useTicketCache=true`"), "{nothing}");
}

/// Apache combines the options of all modules.
#[test]
fn users_of_several_modules_are_all_known() {
    let class = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let file =
        format!("S {{ {class} required user_a=x user_b=x; {class} optional user_b=y user_=z; }};");
    let Ok(Login::Digest(digest)) = login(&file, "S") else {
        panic!("not a section with passwords");
    };
    assert_eq!(digest.users.names().collect::<Vec<_>>(), ["", "a", "b"]);
    assert_eq!(digest.users.password("b").map(|password| password.expose()), Some("y"));
}

#[test]
fn unusable_sections_are_described_in_one_line() {
    assert_eq!(
        complaint(FILE, "Sever"),
        "no section `Sever` with a login module; the file has `Server`, `Client`, `KerberosServer`, \
         `KerberosClient`, `Empty`"
    );
    assert_eq!(
        complaint("", "Server"),
        "no section `Server` with a login module; the file has no section"
    );
    assert!(complaint(FILE, "Empty").starts_with("no section `Empty` with a login module"));
    assert_eq!(
        complaint("S { com.example.Other required password=x; };", "S"),
        "section `S`: unknown login module `com.example.Other`; use \
         `org.apache.zookeeper.server.auth.DigestLoginModule` or \
         `com.sun.security.auth.module.Krb5LoginModule`"
    );
    let digest = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    for (options, missing) in [("username=bob", "password"), ("password=x", "username")] {
        let said = complaint(&format!("S {{ {digest} {options}; }};"), "S");
        assert_eq!(said, format!("section `S`: option `{missing}` is missing"));
    }
    let mixed =
        format!("S {{ {digest}; com.sun.security.auth.module.Krb5LoginModule required; }};");
    assert!(complaint(&mixed, "S").contains("keep one kind"));
}
