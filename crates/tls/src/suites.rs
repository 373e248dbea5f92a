//! Protocols and cipher suites by their Java and IANA names.
//!
//! In: the names in the settings. Out: rustls's crypto provider restricted to them, and the names it does
//! not support. Java's lists usually contain suites that rustls omits on purpose (CBC, RSA key exchange);
//! those are skipped, and it is an error only if no suite is left.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::error::TlsError;
use crate::settings::Protocol;

/// Returns the provider with the named cipher suites, in order, and the names without a suite. No names:
/// all suites.
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

/// Returns the IANA name. rustls marks TLS 1.3 suites in the name; IANA and Java do not.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    suite.suite().as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

/// Returns the protocol versions for rustls. None given: all.
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
    fn if_no_name_is_known_the_error_lists_the_known_ones() {
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
