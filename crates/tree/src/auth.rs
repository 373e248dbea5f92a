//! Authentication schemes: credentials → ids, and ids against the entries of an ACL.
//! Apache: `DigestAuthenticationProvider`, `IPAuthenticationProvider`, `X509AuthenticationProvider`,
//! `SASLAuthenticationProvider`.
//!
//! `world` and `super` need no credentials. The connection verifies certificates and SASL logins;
//! this module maps them to ids.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use herdsman_proto::acl::{DigestAlgorithm, digest_id};
use herdsman_proto::{ErrorCode, Id, Perms};
use herdsman_secret::Secret;

use crate::acl_list::AclList;

/// Everyone.
pub const WORLD: &str = "world";
/// Stands for the ids of the caller.
pub const AUTH: &str = "auth";
/// User and password.
pub const DIGEST: &str = "digest";
/// The peer address of a connection.
pub const IP: &str = "ip";
/// The subject of a client certificate.
pub const X509: &str = "x509";
/// A user logged in with SASL.
pub const SASL: &str = "sasl";
/// The super user, who may do everything.
pub const SUPER: &str = "super";

/// The enabled schemes and their settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schemes {
    /// `digest` is enabled.
    pub digest: bool,
    /// Hash of the passwords.
    pub digest_algorithm: DigestAlgorithm,
    /// `user:hash` that becomes the super user.
    pub super_digest: Option<Secret>,
    /// `x509`, if ACLs may name it.
    pub x509: Option<X509Scheme>,
    /// `sasl`, if ACLs may name it.
    pub sasl: Option<SaslScheme>,
    /// SASL users who become the super user.
    pub sasl_super_users: Vec<String>,
}

/// Client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct X509Scheme {
    /// The subject that becomes the super user.
    pub super_user: Option<String>,
}

/// SASL users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaslScheme {
    /// The name in an ACL that stands for every SASL user (`letAnySaslUserDoX`).
    pub anybody: Option<String>,
}

/// The SASL user that Apache accepts as every other one.
const SASL_SUPER: &str = "super";

impl Default for Schemes {
    fn default() -> Self {
        Schemes {
            digest: true,
            digest_algorithm: DigestAlgorithm::default(),
            super_digest: None,
            x509: None,
            sasl: None,
            sasl_super_users: Vec::new(),
        }
    }
}

impl Schemes {
    /// Credentials → ids. `peer` is the address of the client.
    pub fn authenticate(
        &self,
        scheme: &str,
        credentials: Option<&[u8]>,
        peer: IpAddr,
    ) -> Result<Vec<Id>, ErrorCode> {
        match scheme {
            DIGEST if self.digest => {
                credentials.map(|text| self.authenticate_digest(text)).ok_or(ErrorCode::AuthFailed)
            }
            IP => Ok(vec![ip_id(peer)]),
            _ => Err(ErrorCode::AuthFailed),
        }
    }

    fn authenticate_digest(&self, credentials: &[u8]) -> Vec<Id> {
        let text = String::from_utf8_lossy(credentials);
        let id = digest_id(&text, self.digest_algorithm);
        let is_super =
            self.super_digest.as_ref().is_some_and(|wanted| *wanted == Secret::new(id.as_str()));
        let mut ids = Vec::new();
        if is_super {
            ids.push(Id::new(SUPER, ""));
        }
        ids.push(Id::new(DIGEST, &id));
        ids
    }

    /// The ids of the owner of a verified certificate.
    #[must_use]
    pub fn of_certificate(&self, subject: &str) -> Vec<Id> {
        let Some(x509) = &self.x509 else { return Vec::new() };
        let mut ids = Vec::new();
        if x509.super_user.as_deref() == Some(subject) {
            ids.push(Id::new(SUPER, subject));
        }
        ids.push(Id::new(X509, subject));
        ids
    }

    /// The ids of a user logged in with SASL. Apache keeps the id even if no ACL can name it.
    #[must_use]
    pub fn of_sasl_user(&self, user: &str) -> Vec<Id> {
        let mut ids = vec![Id::new(SASL, user)];
        if self.sasl_super_users.iter().any(|super_user| super_user == user) {
            ids.push(Id::new(SUPER, ""));
        }
        ids
    }

    /// Whether an ACL may name this id.
    #[must_use]
    pub fn is_valid_id(&self, id: &Id) -> bool {
        match id.scheme.as_str() {
            WORLD => id.id == "anyone",
            DIGEST if self.digest => is_digest_form(&id.id),
            IP => Network::parse(&id.id).is_some(),
            X509 if self.x509.is_some() => is_distinguished_name(&id.id),
            SASL if self.sasl.is_some() => is_kerberos_name(&id.id),
            _ => false,
        }
    }

    /// Whether the id is authenticated, so that `auth` may stand for it.
    #[must_use]
    pub fn is_authenticated(&self, id: &Id) -> bool {
        match id.scheme.as_str() {
            DIGEST => self.digest,
            X509 => self.x509.is_some(),
            SASL => self.sasl.is_some(),
            _ => false,
        }
    }

    /// The permissions that an ACL grants to the id `presented`, in addition to those of everyone. `hash` is the
    /// id's, by which the list finds it.
    #[must_use]
    pub fn granted(&self, acl: &AclList, presented: &Id, hash: u64) -> Perms {
        let Id { scheme, id } = presented;
        match (scheme.as_str(), &self.x509, &self.sasl) {
            (IP, ..) => parse_address(id).map_or(Perms(0), |address| acl.to_address(address)),
            (DIGEST, ..) if self.digest => acl.to_id(presented, hash),
            (X509, Some(x509), _) if x509.super_user.as_ref() == Some(id) => acl.to_all_x509(),
            (SASL, _, Some(_)) if id == SASL_SUPER => acl.to_all_sasl(),
            (X509, Some(_), _) => acl.to_id(presented, hash),
            (SASL, _, Some(sasl)) => {
                let anybody = sasl.anybody.as_ref().map(|anybody| Id::new(SASL, anybody));
                let to_anybody = anybody.map_or(Perms(0), |id| acl.to_other_id(&id));
                acl.to_id(presented, hash).union(to_anybody)
            }
            _ => Perms(0),
        }
    }

    /// The name that whoAmI returns: never the hash.
    #[must_use]
    pub fn user_name<'a>(&self, id: &'a Id) -> &'a str {
        match id.scheme.as_str() {
            DIGEST if self.digest => id.id.split(':').next().unwrap_or_default(),
            IP => &id.id,
            X509 if self.x509.is_some() => &id.id,
            SASL if self.sasl.is_some() => &id.id,
            _ => "",
        }
    }
}

/// Exactly two parts, counted as Java's `split` does: empty parts at the end do not count.
fn is_digest_form(id: &str) -> bool {
    let mut parts: Vec<_> = id.split(':').collect();
    while parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    parts.len() == 2
}

/// `key=value` pairs with commas or `+` between, checked as far as needed to keep mistakes out of ACLs.
fn is_distinguished_name(id: &str) -> bool {
    id.is_empty()
        || split_unescaped(id).all(|part| {
            part.split_once('=').is_some_and(|(key, _)| {
                let key = key.trim();
                !key.is_empty()
                    && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
            })
        })
}

/// Parts between commas, semicolons and plus signs that are neither escaped nor quoted.
fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let (mut escaped, mut quoted) = (false, false);
    text.split(move |c| {
        let separates = !escaped && !quoted && matches!(c, ',' | ';' | '+');
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
}

/// `service[/host]@realm`, or anything without an `@`.
fn is_kerberos_name(id: &str) -> bool {
    match id.split_once('@') {
        None => true,
        Some((name, realm)) => !realm.contains(['@', '/']) && name.split('/').count() <= 2,
    }
}

/// The id of a connection's address. Java writes IPv6 addresses in full.
#[must_use]
pub fn ip_id(peer: IpAddr) -> Id {
    match peer.to_canonical() {
        IpAddr::V4(v4) => Id::new(IP, &v4.to_string()),
        IpAddr::V6(v6) => {
            let groups: Vec<_> = v6.segments().iter().map(|group| format!("{group:x}")).collect();
            Id::new(IP, &groups.join(":"))
        }
    }
}

/// A network: an id of the scheme `ip` in an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Parses `10.0.0.0/8`, or one address.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = parse_address(address)?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits =
            bits.map_or(Some(bits_max), |bits| bits.parse().ok().filter(|&bits| bits <= bits_max))?;
        Some(Network { address, bits })
    }

    /// Whether the address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (address, self.address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (u32::from(a) ^ u32::from(b)).checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (u128::from(a) ^ u128::from(b)).checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        // Java does not accept the form that ends in a dotted quad.
        if text.contains('.') {
            return None;
        }
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    // Java reads leading zeros as decimal, std rejects them.
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use herdsman_proto::Acl;

    use super::*;
    use crate::acl_list::ProvenIds;

    /// Whether an ACL that names `wanted` grants something to `presented`.
    fn matches(schemes: &Schemes, presented: &Id, wanted: &Id) -> bool {
        let entry = Acl { perms: Perms::READ, id: wanted.clone() };
        let acl = AclList::new(Arc::from([entry]), 0);
        let ids = [presented.clone()];
        let ids = ProvenIds::new(&ids);
        ids.granted_by(&acl, 0, |id, hash| schemes.granted(&acl, id, hash)) == Perms::READ
    }

    #[test]
    fn the_super_digest_adds_an_id() {
        let super_digest = Some(Secret::new(digest_id("root:pw", DigestAlgorithm::Sha1)));
        let schemes = Schemes { super_digest, ..Schemes::default() };
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ids = schemes.authenticate(DIGEST, Some(b"root:pw"), peer).unwrap();
        assert_eq!(ids.iter().map(|id| id.scheme.as_str()).collect::<Vec<_>>(), [SUPER, DIGEST]);
        assert_eq!(schemes.authenticate(DIGEST, Some(b"root:no"), peer).unwrap().len(), 1);
        assert_eq!(schemes.authenticate("nope", Some(b""), peer), Err(ErrorCode::AuthFailed));
    }

    #[test]
    fn a_certificate_is_its_subject_and_maybe_the_super_user() {
        let subject = "CN=kafka,O=Example";
        let none = Schemes::default();
        assert_eq!(none.of_certificate(subject), []);
        assert!(!none.is_valid_id(&Id::new(X509, subject)));
        let x509 = Some(X509Scheme { super_user: Some("CN=root".to_owned()) });
        let schemes = Schemes { x509, ..Schemes::default() };
        assert_eq!(schemes.of_certificate(subject), [Id::new(X509, subject)]);
        let root = schemes.of_certificate("CN=root");
        assert_eq!(root, [Id::new(SUPER, "CN=root"), Id::new(X509, "CN=root")]);
        assert!(schemes.is_valid_id(&Id::new(X509, r"CN=a\,b+OU=c,O=d")));
        for invalid in ["kafka", "CN=a,b", "=a"] {
            assert!(!schemes.is_valid_id(&Id::new(X509, invalid)), "{invalid}");
        }
        let is_meant = |presented, wanted| {
            matches(&schemes, &Id::new(X509, presented), &Id::new(X509, wanted))
        };
        assert!(is_meant(subject, subject));
        assert!(is_meant("CN=root", subject));
        assert!(!is_meant("CN=other", subject));
    }

    #[test]
    fn a_sasl_user_is_matched_only_where_the_scheme_exists() {
        let alice = Id::new(SASL, "alice");
        assert!(!matches(&Schemes::default(), &alice, &alice));
        let sasl = Some(SaslScheme { anybody: Some("x".to_owned()) });
        let sasl_super_users = vec!["root".to_owned()];
        let schemes = Schemes { sasl, sasl_super_users, ..Schemes::default() };
        assert_eq!(schemes.of_sasl_user("alice"), std::slice::from_ref(&alice));
        assert_eq!(schemes.of_sasl_user("root"), [Id::new(SASL, "root"), Id::new(SUPER, "")]);
        assert!(matches(&schemes, &alice, &alice));
        assert!(matches(&schemes, &alice, &Id::new(SASL, "x")));
        assert!(matches(&schemes, &Id::new(SASL, "super"), &alice));
        assert!(!matches(&schemes, &Id::new(SASL, "bob"), &alice));
        assert!(schemes.is_valid_id(&Id::new(SASL, "hdfs/host@REALM")));
        assert!(!schemes.is_valid_id(&Id::new(SASL, "a@b@c")));
    }

    #[test]
    fn addresses_match_networks() {
        let check = |presented, wanted, expected| {
            let schemes = Schemes::default();
            let matched = matches(&schemes, &Id::new(IP, presented), &Id::new(IP, wanted));
            assert_eq!(matched, expected, "{presented} in {wanted}");
        };
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "10.1.0.0/16", true);
        check("10.2.2.3", "10.1.0.0/16", false);
        check("10.2.2.3", "0.0.0.0/0", true);
        check("0:0:0:0:0:0:0:1", "::1", true);
        check("2001:db8:0:0:0:0:0:7", "2001:db8::/32", true);
        check("2001:db9:0:0:0:0:0:7", "2001:db8::/32", false);
        check("10.1.2.3", "2001:db8::/32", false);
        check("10.1.2.3", "10.1.2.3/33", false);
    }

    #[test]
    fn ids_in_acls_must_have_their_schemes_form() {
        let schemes = Schemes::default();
        let valid = |scheme, id| schemes.is_valid_id(&Id::new(scheme, id));
        assert!(valid(WORLD, "anyone") && valid(DIGEST, "u:h") && valid(IP, "1.2.3.4/8"));
        assert!(
            !valid(WORLD, "me")
                && !valid(DIGEST, "u")
                && !valid(DIGEST, "a:b:c")
                && !valid(DIGEST, "u:")
        );
        assert!(
            !valid(IP, "1.2.3")
                && !valid(IP, "1.2.3.4/33")
                && !valid(IP, "::ffff:1.2.3.4")
                && !valid("sasl", "u")
                && !valid("", "")
        );
    }
}
