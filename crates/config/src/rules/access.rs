//! Rules about authentication: schemes that exist, logins that are required, and what they
//! need. A security setting that this server cannot enforce is an error, so that it is not mistaken for protection.

use super::Checked;
use crate::Tls;
use crate::load::Loading;

/// Apache's class of the scheme → the scheme.
const PROVIDERS: [(&str, &str); 5] = [
    ("org.apache.zookeeper.server.auth.X509AuthenticationProvider", "x509"),
    ("org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "sasl"),
    ("org.apache.zookeeper.server.auth.DigestAuthenticationProvider", "digest"),
    ("org.apache.zookeeper.server.auth.IPAuthenticationProvider", "ip"),
    ("org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider", "ensemble"),
];

pub(super) fn finish(loading: &mut Loading) -> Checked {
    schemes(loading);
    let users = given(loading, "superUser").chain(given(loading, "superUser.")).collect();
    loading.draft.config.access.sasl_super_users = users;
    required_schemes(loading)?;
    tls(loading)?;
    quorum_sasl(loading)
}

/// The values of a key, or of all keys with a prefix that ends in a dot.
fn given<'a>(loading: &'a Loading, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let matches = move |given: &str| {
        given == key || (key.ends_with('.') && given.starts_with(key) && given.len() > key.len())
    };
    let given = loading.draft.config.given.iter().filter(move |given| matches(&given.key));
    given.map(|given| given.value.expose().to_owned())
}

/// A TLS client port brings x509 with it, as in Apache; other schemes are named by their class.
fn schemes(loading: &mut Loading) {
    let classes: Vec<_> = given(loading, "authProvider.").collect();
    let named = |scheme| {
        PROVIDERS.iter().any(|(class, of)| *of == scheme && classes.iter().any(|it| it == class))
    };
    let has_tls_port = loading.draft.config.listen.secure_client.is_some();
    let (x509, sasl) = (named("x509") || has_tls_port, named("sasl"));
    let ensemble = named("ensemble");
    for class in classes.iter().filter(|class| PROVIDERS.iter().all(|(known, _)| known != class)) {
        let text = format!(
            "{class} is a Java class that this server cannot run; its authentication scheme is not available"
        );
        loading.warn(loading.place("authProvider"), text);
    }
    let access = &mut loading.draft.config.access;
    (access.x509_scheme, access.sasl_scheme) = (x509, sasl);
    access.ensemble_scheme = ensemble;
}

fn required_schemes(loading: &mut Loading) -> Checked {
    let raw = &loading.draft.raw;
    let (key, schemes) = match (raw.sasl_required, raw.auth_enforced) {
        (true, _) => ("sessionRequireClientSASLAuth", vec!["sasl".to_owned()]),
        (false, true) => ("enforce.auth.enabled", raw.enforced_schemes.clone()),
        (false, false) => return Ok(()),
    };
    if schemes.is_empty() {
        let problem = "enforce.auth.enabled=true needs enforce.auth.schemes";
        return Err(loading.broken(key, problem));
    }
    let access = &loading.draft.config.access;
    for scheme in &schemes {
        let exists = match scheme.as_str() {
            "digest" => access.digest_scheme,
            "ip" => true,
            "x509" => access.x509_scheme,
            "sasl" => access.sasl_scheme,
            _ => false,
        };
        if !exists {
            let problem = format!(
                "{key}=true requires the scheme {scheme}, which is not configured; for sasl and x509 add authProvider.1=<Apache's class>"
            );
            return Err(loading.broken(key, problem));
        }
    }
    loading.draft.config.access.required_schemes = Some(schemes);
    Ok(())
}

/// A TLS port needs a key.
fn tls(loading: &Loading) -> Checked {
    match loading.draft.config.listen.secure_client {
        Some(_) => needs_key(loading, "secureClientPort", "ssl.", &loading.draft.config.tls),
        None => Ok(()),
    }
}

/// The same for the ports between servers, if there are any. An ensemble of one has no other server to connect to, so
/// it starts, as in Apache.
pub(crate) fn quorum_tls(loading: &mut Loading) -> Checked {
    let config = &loading.draft.config;
    let key = match (config.quorum_security.tls, config.quorum_security.port_unification) {
        (true, _) => "sslQuorum",
        (_, true) => "portUnification",
        _ => return Ok(()),
    };
    match needs_key(loading, key, "ssl.quorum.", &config.quorum_tls) {
        Err(missing) if config.quorum.membership.members.len() == 1 => {
            let text = format!("{}; until then no other server can join", missing.problem());
            loading.warn(loading.place(key), text);
            Ok(())
        }
        checked => checked,
    }
}

fn needs_key(loading: &Loading, key: &str, prefix: &str, tls: &Tls) -> Checked {
    if tls.key_store.is_some() {
        return Ok(());
    }
    let problem =
        format!("{key} needs a key: set {prefix}keyStore.location to a PEM, PKCS12 or JKS file");
    Err(loading.broken(key, problem))
}

fn quorum_sasl(loading: &Loading) -> Checked {
    let security = &loading.draft.config.quorum_security;
    let (sasl, server, learner) =
        (security.sasl, security.server_requires_sasl, security.learner_requires_sasl);
    let (enable, server_key, learner_key) = (
        "quorum.auth.enableSasl",
        "quorum.auth.serverRequireSasl",
        "quorum.auth.learnerRequireSasl",
    );
    let needs =
        |key: &str, other: &str| Err(loading.broken(key, format!("{key}=true needs {other}=true")));
    if server && !sasl {
        needs(server_key, enable)
    } else if learner && !sasl {
        needs(learner_key, enable)
    } else if server && !learner {
        needs(server_key, learner_key)
    } else {
        Ok(())
    }
}
