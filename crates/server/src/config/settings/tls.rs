//! TLS, the same names for clients and between servers.

use crate::config::field::settings;
use crate::config::setting::Initial::{Derived, Is, Unset};
use crate::config::setting::Setting;
use crate::config::setting::Status::{Ignored, NotYet, NotYetUnless};

macro_rules! tls {
    ($prefix:literal, $verify_clients:literal) => {
        settings! {
            concat!($prefix, "protocol"), Property Text => kept, Is("TLSv1.3"), "", NotYet,
                "Protocol that is offered.";
            concat!($prefix, "enabledProtocols"), Property Text => kept, Derived("protocol"), "", NotYet,
                "Protocols that are accepted, with commas between.";
            concat!($prefix, "ciphersuites"), Property Text => kept, Derived("a safe list"), "", NotYet,
                "Cipher suites that are accepted, with commas between.";
            concat!($prefix, "keyStore.location"), Property Path => kept, Unset, "", NotYet,
                "File of the server's key and certificate.";
            concat!($prefix, "keyStore.password"), Property Secret => kept, Unset, "", NotYet,
                "Its password.";
            concat!($prefix, "keyStore.passwordPath"), Property Path => kept, Unset, "", NotYet,
                "File that holds its password.";
            concat!($prefix, "keyStore.type"), Property Text => kept, Derived("by extension"), "", NotYet,
                "JKS, PEM, PKCS12 or BCFKS.";
            concat!($prefix, "trustStore.location"), Property Path => kept, Unset, "", NotYet,
                "File of the certificates that are trusted.";
            concat!($prefix, "trustStore.password"), Property Secret => kept, Unset, "", NotYet,
                "Its password.";
            concat!($prefix, "trustStore.passwordPath"), Property Path => kept, Unset, "", NotYet,
                "File that holds its password.";
            concat!($prefix, "trustStore.type"), Property Text => kept, Derived("by extension"), "", NotYet,
                "JKS, PEM, PKCS12 or BCFKS.";
            concat!($prefix, "context.supplier.class"), Property Text => kept, Unset, "",
                Ignored("Java classes are not loaded"),
                "Java class that makes the TLS context.";
            concat!($prefix, "hostnameVerification"), Property Flag => kept, Is("true"), "", NotYet,
                "Whether the name in a peer's certificate must match its host.";
            concat!($prefix, "clientHostnameVerification"), Property Flag => kept, Is($verify_clients), "", NotYet,
                "Whether that holds for those who connect to us, too.";
            concat!($prefix, "allowReverseDnsLookup"), Property Flag => kept, Is("false"), "", NotYet,
                "Whether a host name may be found by reverse lookup.";
            concat!($prefix, "crl"), Property Flag => kept, Is("false"), "", NotYetUnless("false"),
                "Whether revocation lists are consulted.";
            concat!($prefix, "ocsp"), Property Flag => kept, Is("false"), "", NotYetUnless("false"),
                "Whether revocation is asked for online.";
            concat!($prefix, "clientAuth"), Property Text => kept, Is("need"), "", NotYet,
                "Whether those who connect must show a certificate: none, want or need.";
            concat!($prefix, "handshakeDetectionTimeoutMillis"), Property LooseInt => kept, Is("5000"), "ms", NotYet,
                "How long a port for both TLS and plain waits to see which it is.";
        }
    };
}

pub(super) static SERVERS: &[Setting] = tls!("ssl.quorum.", "true");

pub(super) static CLIENTS: &[Setting] = tls!("ssl.", "false");

/// TLS for clients beyond what both kinds have.
pub(super) static CLIENTS_ONLY: &[Setting] = settings! {
    "ssl.authProvider", Property Text => kept, Is("x509"), "", NotYet,
        "Scheme that makes a user of a client certificate.";
    "ssl.sslProvider", Property Text => kept, Is("JDK"), "", Ignored("there is one TLS library"),
        "TLS library of Apache's Netty stack.";
    "fips-mode", Property Flag => kept, Is("true"), "", NotYet,
        "Whether only FIPS algorithms and checks are used.";
    "client.portUnification", Property Flag => kept, Is("false"), "", NotYetUnless("false"),
        "Whether the TLS client port takes plain connections, too.";
    "client.certReload", Property Flag => kept, Is("false"), "", NotYetUnless("false"),
        "Whether changed certificate files are read again.";
    "netty.server.outstandingHandshake.limit", Property LooseInt => kept, Is("-1"), "handshakes", NotYetUnless("-1"),
        "TLS handshakes in progress at the same time; -1 sets no limit.";
    "netty.server.earlyDropSecureConnectionHandshakes", Property Flag => kept, Is("false"), "", NotYetUnless("false"),
        "Whether TLS connections are dropped before the handshake while the server is not serving.";
};
