//! Files and tokens of logins.

use herdsman_proto::quorum_auth::{AuthStatus, QuorumAuthPacket};
use herdsman_sasl::{ClientStep, ServerStep};

use super::{Seeds, numbered};
use crate::targets::login;

pub(super) fn files() -> Seeds {
    let digest = "Server {\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n    \
                  user_bob=\"se\\\"cret\"\n    user_ann=plain; // comment\n};\n/* more */\nClient {\n    \
                  org.apache.zookeeper.server.auth.DigestLoginModule required username=\"bob\" \
                  password=\"x\";\n};\n";
    let kerberos = "QuorumServer {\n    com.sun.security.auth.module.Krb5LoginModule required\n    \
                    useKeyTab=true keyTab=\"/etc/zk.keytab\" storeKey=true useTicketCache=false\n    \
                    principal=\"zkquorum/localhost@EXAMPLE.COM\";\n};\n";
    numbered([digest, kerberos, "A {};", "# none", ""].map(|text| text.as_bytes().to_vec()))
}

/// A whole login, token by token.
pub(super) fn tokens() -> Seeds {
    let (mut server, mut client) = (login::server(), login::client());
    let challenge = match server.step(&[]) {
        Ok(ServerStep::Challenge(token)) => token,
        other => panic!("no challenge: {other:?}"),
    };
    let response = match client.step(&challenge) {
        Ok(ClientStep::Response(token)) => token,
        other => panic!("no response: {other:?}"),
    };
    let proof = match server.step(&response) {
        Ok(ServerStep::Accepted(accepted)) => accepted.token,
        other => panic!("not accepted: {other:?}"),
    };
    numbered([challenge, response, proof])
}

pub(super) fn packets() -> Seeds {
    let packets = [
        (AuthStatus::InProgress, &b""[..]),
        (AuthStatus::InProgress, b"realm=\"zk-quorum-sasl-md5\""),
        (AuthStatus::Success, b"rspauth=0"),
        (AuthStatus::Error, b""),
    ];
    numbered(packets.map(|(status, token)| {
        let mut bytes = Vec::new();
        QuorumAuthPacket { status, token }.encode(&mut bytes);
        bytes
    }))
}

pub(super) fn principals() -> Seeds {
    let examples = [
        "ann@EXAMPLE.COM",
        "zookeeper/zk1.example.com@EXAMPLE.COM",
        "RULE:[1:$1@$0](.*@OTHER\\.COM)s/@.*//g\nann@OTHER.COM",
        "RULE:[2:$1;$2](^.*;admin$)s/;admin$/-root/\nDEFAULT\nann/admin@EXAMPLE.COM",
    ];
    numbered(examples.map(|text| text.as_bytes().to_vec()))
}
