//! Checks that a certificate is for the host at the other end.
//!
//! In: a certificate and a [`Peer`]. Out: yes, or an error that lists the hosts it is for. The peer's
//! address is tried first, then its name, if it has one; one match suffices. Both are compared with the DNS
//! names and addresses of the certificate's subjectAltName, or with the subject's last common name if there
//! are neither. In a name, one `*` matches a possibly empty part of one label; case is ignored. An address
//! is compared as an address and never with a wildcard.
//!
//! Apache: `ZKTrustManager.performHostVerification`, `ZKHostnameVerifier`. Apache compares IPv4 addresses
//! as text and lets a wildcard in a common name match one; we do not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, OtherError};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::certificate::{self, MalformedCertificate};
use crate::distinguished_name::last_common_name;
use crate::peer::{Peer, address_in};

/// The certificate is not for this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the certificate is for {names}, not for {peer}")]
pub(crate) struct WrongHost {
    names: String,
    peer: String,
}

/// Rejects a certificate for another host.
pub(crate) fn check_host(
    certificate: &CertificateDer<'_>,
    peer: &Peer,
) -> Result<(), rustls::Error> {
    let names = HostNames::of(&certificate::parse(certificate)?)?;
    if names.include(peer) {
        return Ok(());
    }
    let wrong = WrongHost { names: names.to_string(), peer: peer.to_string() };
    Err(CertificateError::Other(OtherError(Arc::new(wrong))).into())
}

/// The hosts of a certificate, for comparison with a host that the peer claims to be after the handshake.
#[derive(Debug)]
pub struct CertificateHosts(HostNames);

impl CertificateHosts {
    /// Reads the hosts of a certificate.
    ///
    /// # Errors
    /// The bytes are not a certificate; no handshake would have accepted them.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, MalformedCertificate> {
        Ok(Self(HostNames::of(&certificate::parse(certificate)?)?))
    }

    /// Whether the certificate is for this host name, or for this address in text form.
    #[must_use]
    pub fn include_name(&self, name: &str) -> bool {
        self.0.include_name(name)
    }

    /// Whether the certificate is for the host at this address.
    #[must_use]
    pub fn include_address(&self, address: IpAddr) -> bool {
        self.0.include_address(address.to_canonical())
    }
}

impl fmt::Display for CertificateHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hosts, by where they are in the certificate.
#[derive(Debug, PartialEq, Eq)]
enum HostNames {
    /// The subjectAltName; at least one of the two lists is not empty.
    Alternative { dns: Vec<String>, addresses: Vec<IpAddr> },
    /// The common name, because there is no subjectAltName.
    Common(String),
    /// No host at all.
    None,
}

impl HostNames {
    fn of(certificate: &X509Certificate<'_>) -> Result<Self, MalformedCertificate> {
        let extension =
            certificate.subject_alternative_name().map_err(|_malformed| MalformedCertificate)?;
        let entries = extension.map(|extension| extension.value.general_names.as_slice());
        let (mut dns, mut addresses) = (Vec::new(), Vec::new());
        for entry in entries.unwrap_or_default() {
            match entry {
                GeneralName::DNSName(name) => dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.extend(address_of(bytes)),
                _ => {}
            }
        }
        if dns.is_empty() && addresses.is_empty() {
            let name = last_common_name(certificate.subject().as_raw());
            return Ok(name.map_or(Self::None, Self::Common));
        }
        Ok(Self::Alternative { dns, addresses })
    }

    fn include(&self, peer: &Peer) -> bool {
        self.include_address(peer.address()) || peer.names().any(|name| self.include_name(name))
    }

    fn include_address(&self, address: IpAddr) -> bool {
        match self {
            Self::Alternative { addresses, .. } => addresses.contains(&address),
            Self::Common(name) => address_in(name) == Some(address),
            Self::None => false,
        }
    }

    fn include_name(&self, name: &str) -> bool {
        if let Some(address) = address_in(name) {
            return self.include_address(address);
        }
        match self {
            Self::Alternative { dns, .. } => dns.iter().any(|pattern| matches(pattern, name)),
            Self::Common(pattern) => matches(pattern, name),
            Self::None => false,
        }
    }
}

impl fmt::Display for HostNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alternative { dns, addresses } => {
                let addresses = addresses.iter().map(IpAddr::to_string);
                f.write_str(&dns.iter().cloned().chain(addresses).collect::<Vec<_>>().join(", "))
            }
            Self::Common(name) => f.write_str(name),
            Self::None => f.write_str("no host"),
        }
    }
}

/// Decodes an address from a certificate.
fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::from(Ipv4Addr::from(bytes)));
    let v6 = || <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::from(Ipv6Addr::from(bytes)));
    v4.or_else(|_| v6()).ok().map(|address| address.to_canonical())
}

fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let rest = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    rest.is_some_and(|star| !star.contains('.'))
}

#[cfg(test)]
mod tests;
