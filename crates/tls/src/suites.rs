//! Protocols and cipher suites by the names that Java and IANA give them.
//!
//! In: the settings' names. Out: rustls's provider of cryptography, cut down to them, and the names that
//! it does not know. Java's lists usually hold suites that rustls leaves out on purpose (CBC, RSA key
//! exchange); those are skipped, and only a list without any usable name is an error.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::error::TlsError;
use crate::settings::Protocol;

/// The cryptography with the cipher suites of these names, in their order, and the names that there is
/// no suite for. No names: all suites.
pub(crate) fn provider_with(names: &[String]) -> Result<(CryptoProvider, Vec<String>), TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    if names.is_empty() {
        return Ok((provider, Vec::new()));
    }
    let (mut suites, mut skipped) = (Vec::new(), Vec::new());
    for name in names {
        match provider.cipher_suites.iter().find(|suite| iana_name(suite) == name.trim()) {
            Some(suite) => suites.push(*suite),
            None => skipped.push(name.trim().to_owned()),
        }
    }
    if suites.is_empty() {
        let known: Vec<String> = provider.cipher_suites.iter().map(iana_name).collect();
        return Err(TlsError::NoCipherSuite { asked: names.join(", "), known: known.join(", ") });
    }
    provider.cipher_suites = suites;
    Ok((provider, skipped))
}

/// rustls marks those of TLS 1.3 in the name; IANA and Java do not.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    suite.suite().as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

/// The versions as rustls has them. None given: all.
pub(crate) fn versions(protocols: &[Protocol]) -> Vec<&'static SupportedProtocolVersion> {
    if protocols.is_empty() {
        return rustls::ALL_VERSIONS.to_vec();
    }
    let version = |protocol: &Protocol| match protocol {
        Protocol::Tls12 => &rustls::version::TLS12,
        Protocol::Tls13 => &rustls::version::TLS13,
    };
    protocols.iter().map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<(Vec<String>, Vec<String>), TlsError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (provider, skipped) = provider_with(&names)?;
        Ok((provider.cipher_suites.iter().map(iana_name).collect(), skipped))
    }

    #[test]
    fn the_suites_are_those_named_in_their_order() {
        let cbc = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256";
        let (suites, skipped) =
            suites(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cbc, " TLS_AES_256_GCM_SHA384"])
                .unwrap();
        assert_eq!(suites, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]);
        assert_eq!(skipped, [cbc]);
    }

    #[test]
    fn no_names_mean_all_suites() {
        let (suites, skipped) = suites(&[]).unwrap();
        assert_eq!(suites.len(), aws_lc_rs::DEFAULT_CIPHER_SUITES.len());
        assert!(suites.iter().all(|name| name.starts_with("TLS_") && name.contains("_SHA")));
        assert_eq!(skipped, [""; 0]);
    }

    #[test]
    fn names_of_which_none_is_known_are_answered_with_the_known_ones() {
        let error = suites(&["RC4", "TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "none of these cipher suites is supported: RC4, TLS_RSA_WITH_AES_128_CBC_SHA; \
                 known are TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, "
            ),
            "{error}"
        );
    }
}
