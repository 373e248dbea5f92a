//! TLS, the same names for clients and between servers.

use crate::field::settings;
use crate::setting::Initial::{Derived, Is, Unset};
use crate::setting::Setting;
use crate::setting::Status::{Acted, Ignored, NotYetUnless};

macro_rules! tls {
    ($prefix:literal, $area:ident, $verify_clients:literal) => {
        settings! {
            concat!($prefix, "protocol"), Property Text => $area.protocol, Is("TLSv1.3"), "", Acted,
                "The newest accepted protocol: TLSv1.3 or TLSv1.2.";
            concat!($prefix, "enabledProtocols"), Property Text => $area.protocols, Derived("protocol and those before it"), "", Acted,
                "Accepted protocols, comma-separated.";
            concat!($prefix, "ciphersuites"), Property Text => $area.cipher_suites, Derived("all supported"), "", Acted,
                "Accepted cipher suites, comma-separated.";
            concat!($prefix, "keyStore.location"), Property Path => $area.key_store, Unset, "", Acted,
                "File of the server's key and certificate.";
            concat!($prefix, "keyStore.password"), Property Secret => $area.key_store_password, Unset, "", Acted,
                "Its password.";
            concat!($prefix, "keyStore.passwordPath"), Property Path => $area.key_store_password_file, Unset, "", Acted,
                "File that holds its password.";
            concat!($prefix, "keyStore.type"), Property Text => $area.key_store_kind, Derived("by extension"), "", Acted,
                "PEM, PKCS12 or JKS.";
            concat!($prefix, "trustStore.location"), Property Path => $area.trust_store, Unset, "", Acted,
                "File of the trusted certificates.";
            concat!($prefix, "trustStore.password"), Property Secret => $area.trust_store_password, Unset, "", Acted,
                "Its password.";
            concat!($prefix, "trustStore.passwordPath"), Property Path => $area.trust_store_password_file, Unset, "", Acted,
                "File that holds its password.";
            concat!($prefix, "trustStore.type"), Property Text => $area.trust_store_kind, Derived("by extension"), "", Acted,
                "PEM, PKCS12 or JKS.";
            concat!($prefix, "context.supplier.class"), Property Text => kept, Unset, "",
                Ignored("Java classes are not loaded"),
                "Java class that creates the TLS context.";
            concat!($prefix, "hostnameVerification"), Property Flag => $area.verify_hosts, Is("true"), "", Acted,
                "Whether the name in a peer's certificate must match its host.";
            concat!($prefix, "clientHostnameVerification"), Property Flag => $area.verify_client_hosts, Is($verify_clients), "", Acted,
                "Whether this also applies to certificates of clients and servers that connect to this one.";
            concat!($prefix, "allowReverseDnsLookup"), Property Flag => kept, Is("false"), "",
                Ignored("a name found by reverse lookup proves nothing; a certificate between servers may name any member"),
                "Whether a host name may be found by reverse lookup.";
            concat!($prefix, "crl"), Property Flag => $area.revocation, Is("false"), "", Acted,
                "Whether revocation lists are consulted: those in a PEM trust store, and crl.file.";
            concat!($prefix, "crl.file"), Property Path => $area.revocation_lists, Unset, "", Acted,
                "File of revocation lists, PEM or DER. Herdsman's own setting.";
            concat!($prefix, "ocsp"), Property Flag => kept, Is("false"), "", NotYetUnless("false"),
                "Whether revocation is checked online.";
            concat!($prefix, "clientAuth"), Property Word => $area.client_auth, Is("need"), "", Acted,
                "Whether the connecting side must present a certificate: none, want or need.";
            concat!($prefix, "handshakeDetectionTimeoutMillis"), Property LooseInt => $area.detection_timeout_ms, Is("5000"), "ms", Acted,
                "How long a port for both TLS and plain connections waits for the first bytes.";
        }
    };
}

pub(super) static SERVERS: &[Setting] = tls!("ssl.quorum.", quorum_tls, "true");

pub(super) static CLIENTS: &[Setting] = tls!("ssl.", tls, "false");

/// TLS for clients beyond what both kinds have.
pub(super) static CLIENTS_ONLY: &[Setting] = settings! {
    "ssl.authProvider", Property Text => kept, Is("x509"), "", Ignored("there is one scheme for certificates: x509"),
        "Scheme that derives a user from a client certificate.";
    "ssl.sslProvider", Property Text => kept, Is("JDK"), "", Ignored("there is one TLS library"),
        "TLS library of Apache's Netty stack.";
    "fips-mode", Property Flag => kept, Is("true"), "", Ignored("only safe protocols and suites are accepted, and hosts are verified either way"),
        "Whether only FIPS algorithms and checks are used.";
    "client.portUnification", Property Flag => client_tls.port_unification, Is("false"), "", Acted,
        "Whether the TLS client port also accepts plain connections.";
    "client.certReload", Property Flag => client_tls.reload_certificates, Is("false"), "", Acted,
        "Whether changed certificate files are reloaded.";
    "netty.server.outstandingHandshake.limit", Property LooseInt => client_tls.handshakes_max, Is("-1"), "handshakes", Acted,
        "TLS handshakes in progress at the same time; -1 leaves it at 1,024.";
    "netty.server.earlyDropSecureConnectionHandshakes", Property Flag => client_tls.drop_while_not_serving, Is("false"), "", Acted,
        "Whether TLS connections are dropped before the handshake while the server is not serving.";
};
