//! Kinds of znodes, access to them, and how clients prove who they are.

use crate::field::settings;
use crate::setting::Initial::{Derived, Is, Unset};
use crate::setting::Setting;
use crate::setting::Status::{Acted, Ignored};

pub(super) static SETTINGS: &[Setting] = settings! {
    "enforceQuota", Property Flag => znodes.enforce_quota, Is("false"), "", Acted,
        "Whether hard quotas reject writes; soft ones only log.";
    "extendedTypesEnabled", Property Flag => znodes.ttl, Is("false"), "", Acted,
        "Whether znodes with a time to live can be created.";
    "emulate353TTLNodes", Property Flag => znodes.ttl_of_353, Is("false"), "", Acted,
        "Whether the TTL znodes of release 3.5.3 are understood.";
    "znode.container.checkIntervalMs", Bare LooseInt => znodes.sweep_interval_ms, Is("60000"), "ms", Acted,
        "Time between sweeps for empty containers and expired TTL znodes.";
    "znode.container.maxPerMinute", Bare LooseInt => znodes.sweep_per_minute_max, Is("10000"), "znodes", Acted,
        "How many such znodes are removed in a minute.";
    "znode.container.maxNeverUsedIntervalMs", Bare LooseLong => znodes.never_used_ms_max, Is("0"), "ms", Acted,
        "Age at which a container that never had a child is removed; 0 never does.";
    "skipACL", Property OnlyYes => access.skip_acl, Is("no"), "", Acted,
        "Whether ACLs are not checked at all.";
    "enableEagerACLCheck", Property Flag => kept, Is("false"), "",
        Ignored("the leader checks every write in any case"),
        "Whether a server checks ACLs before it forwards a write to the leader.";
};

pub(super) static AUTHENTICATION: &[Setting] = settings! {
    "DigestAuthenticationProvider.enabled", Property Flag => access.digest_scheme, Is("true"), "", Acted,
        "Whether the digest scheme exists.";
    "DigestAuthenticationProvider.superDigest", Property Secret => access.super_digest, Unset, "", Acted,
        "`super:<digest>` of the user who may do everything.";
    "DigestAuthenticationProvider.digestAlg", Property Word => access.digest_algorithm, Is("SHA1"), "", Acted,
        "Hash of the digest scheme: SHA1, SHA-256, SHA-384 or SHA-512.";
    "authProvider.*", Property Text => kept, Unset, "", Acted,
        "Java class of a further authentication scheme: Apache's for x509, sasl, digest, ip and ensemble are known.";
    "superUser", Property Text => kept, Unset, "", Acted,
        "SASL user who may do everything.";
    "superUser.*", Property Text => kept, Unset, "", Acted,
        "Further SASL users who may do everything.";
    "X509AuthenticationProvider.superUser", Property Text => access.x509_super_user, Unset, "", Acted,
        "Subject of the client certificate that may do everything.";
    "SASLAuthenticationProvider.superPassword", Property Secret => sasl.super_password, Unset, "", Acted,
        "SASL password of the user `super`.";
    "letAnySaslUserDoX", Property Text => access.any_sasl_user, Unset, "", Acted,
        "The name in an ACL that matches every SASL user.";
    "IPAuthenticationProvider.usexforwardedfor", Property Flag => kept, Is("false"), "",
        Ignored("any client can set that header; the address is that of the connection"),
        "Whether the admin server trusts X-Forwarded-For.";
    "allowSaslFailedClients", Property Flag => access.tolerate_failed_sasl, Is("false"), "", Acted,
        "Whether a client whose SASL login failed may continue without one.";
    "sessionRequireClientSASLAuth", Property Flag => raw.sasl_required, Is("false"), "", Acted,
        "Whether clients must log in with SASL.";
    "enforce.auth.enabled", Property Flag => raw.auth_enforced, Is("false"), "", Acted,
        "Whether clients must log in with one of enforce.auth.schemes.";
    "enforce.auth.schemes", Property Text => raw.enforced_schemes, Unset, "", Acted,
        "The schemes of which a client must use one.";
    "ensembleAuthName", Property Text => access.ensemble_names, Unset, "", Acted,
        "Names of the ensemble, one of which a client of the ensemble scheme must give.";
    "sasl.serverconfig", Property Text => sasl.login_context, Is("Server"), "", Acted,
        "JAAS section of the server for its clients.";
    "java.security.auth.login.config", Bare Path => sasl.login_file, Unset, "", Acted,
        "The JAAS file.";
    "kerberos.removeHostFromPrincipal", Property OnlyTrue => sasl.remove_host, Is("false"), "", Acted,
        "Whether the host is removed from a Kerberos principal.";
    "kerberos.removeRealmFromPrincipal", Property OnlyTrue => sasl.remove_realm, Is("false"), "", Acted,
        "Whether the realm is removed from a Kerberos principal.";
    "kerberos.canonicalizeHostNames", Property Flag => sasl.canonical_hosts, Is("false"), "", Acted,
        "Whether host names of servers are made canonical for Kerberos.";
    "kerberos.minReLoginTimeMs", Property LooseLong => kept, Is("60000"), "ms",
        Ignored("tickets are fetched when a login needs them, and no thread renews them"),
        "The shortest time between two Kerberos logins.";
    "security.auth_to_local", Property Text => sasl.name_rules, Is("DEFAULT"), "", Acted,
        "Rules from Kerberos principals to user names.";
    "requireKerberosConfig", Property OnlyTrue => sasl.kerberos_config_required, Is("false"), "", Acted,
        "Whether the Kerberos configuration must exist.";
    "kinit", Property Path => kept, Derived("/usr/bin/kinit"), "",
        Ignored("tickets are fetched when a login needs them, and no thread renews them"),
        "Program that renews the Kerberos ticket.";
    "requireClientAuthScheme", Property Text => kept, Unset, "",
        Ignored("Apache's server does not read it either"),
        "Appears in guides to SASL.";
    "jaasLoginRenew", Property LooseInt => kept, Unset, "ms",
        Ignored("Apache's server does not read it either"),
        "Appears in guides to SASL.";
};
