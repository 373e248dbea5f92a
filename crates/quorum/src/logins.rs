//! Logins between servers: how other servers log in here, and how this server logs in to them. Each login is a state
//! machine that is stepped with tokens. Apache: `SecurityUtils`.

use std::net::ToSocketAddrs as _;

use herdsman_proto::{Member, Membership};
use herdsman_sasl::digest_md5::{self, ClientSettings, Nonce, ServerSettings};
use herdsman_sasl::gssapi::{
    self, Acceptor, AcceptorKeys, Admission, GssapiError, Initiator, InitiatorKeys,
};
use herdsman_sasl::kerberos::PrincipalName;
use herdsman_sasl::{ClientLogin, ServerLogin};

/// An error before the first message of a login.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// The system's random number generator failed.
    #[error("cannot read random bytes from the system: {0}")]
    NoRandomness(#[from] getrandom::Error),
    /// GSSAPI returned an error.
    #[error(transparent)]
    Kerberos(#[from] GssapiError),
}

/// How logins of other servers are checked.
#[derive(Clone, Debug)]
pub enum MemberLogins {
    /// With DIGEST-MD5.
    Digest(ServerSettings),
    /// With Kerberos.
    Kerberos {
        /// The key of the service.
        keys: AcceptorKeys,
        /// The names under which hosts may log in.
        hosts: HostNames,
    },
}

impl MemberLogins {
    /// Starts a login; with Kerberos, of a server whose host is one of these members'.
    pub fn begin(&self, members: &Membership) -> Result<ServerLogin, BeginError> {
        match self {
            MemberLogins::Digest(settings) => digest_server(settings),
            MemberLogins::Kerberos { keys, hosts } => {
                let members = members.members.values().flat_map(|member| &member.addresses);
                let names: Vec<_> = members.map(|address| hosts.known_as(&address.host)).collect();
                kerberos_server(keys, Admission::servers(names.iter().map(String::as_str)))
            }
        }
    }

    /// Whether a peer that has logged in under this name may be that member. With DIGEST-MD5 any peer that knows the
    /// password may be any of them.
    pub fn is_name_of(&self, name: &str, member: &Member) -> bool {
        match self {
            MemberLogins::Digest(_) => true,
            MemberLogins::Kerberos { hosts, .. } => hosts.has_principal(name, member),
        }
    }
}

/// How this server logs in to others.
#[derive(Clone, Debug)]
pub enum OwnLogin {
    /// With DIGEST-MD5.
    Digest(ClientSettings),
    /// With Kerberos.
    Kerberos {
        /// The key of this server.
        keys: InitiatorKeys,
        /// The principal of the other servers, which may contain `_HOST`.
        service: String,
        /// How the host in that principal is named.
        hosts: HostNames,
    },
}

impl OwnLogin {
    /// Starts a login to the server of this host.
    pub fn begin(&self, host: &str) -> Result<ClientLogin, BeginError> {
        match self {
            OwnLogin::Digest(settings) => {
                Ok(ClientLogin::Digest(digest_md5::Client::new(settings.clone(), nonce()?)))
            }
            OwnLogin::Kerberos { keys, service, hosts } => {
                let initiator = Initiator::new(keys, &hosts.service(service, host))?;
                Ok(ClientLogin::Gssapi(gssapi::Client::new(initiator)))
            }
        }
    }
}

impl OwnLogin {
    /// Whether the server of this host, which our login has authenticated, may be that member.
    pub fn is_host_of(&self, host: &str, member: &Member) -> bool {
        match self {
            OwnLogin::Digest(_) => true,
            OwnLogin::Kerberos { hosts, .. } => hosts.has_host(host, member),
        }
    }
}

/// Starts a login with DIGEST-MD5.
///
/// # Errors
/// The system's random number generator failed.
pub fn digest_server(settings: &ServerSettings) -> Result<ServerLogin, BeginError> {
    Ok(ServerLogin::Digest(digest_md5::Server::new(settings.clone(), nonce()?)))
}

/// Starts a login with Kerberos.
///
/// # Errors
/// The key of the service cannot be used.
pub fn kerberos_server(
    keys: &AcceptorKeys,
    admission: Admission,
) -> Result<ServerLogin, BeginError> {
    Ok(ServerLogin::Gssapi(gssapi::Server::new(Acceptor::new(keys)?, admission)))
}

fn nonce() -> Result<Nonce, getrandom::Error> {
    let mut random = [0; Nonce::RANDOM_BYTES];
    getrandom::fill(&mut random)?;
    Ok(Nonce::from_random(random))
}

/// How host names in server principals are formed (`kerberos.canonicalizeHostNames`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNames {
    /// As in the list of members.
    AsWritten,
    /// As the name service returns it, which is asked for each login and may take long.
    Canonical,
}

/// The placeholder for the host in `quorum.auth.kerberos.servicePrincipal`.
const HOST_MARK: &str = "_HOST";

impl HostNames {
    fn known_as(self, host: &str) -> String {
        match self {
            HostNames::AsWritten => host.to_owned(),
            HostNames::Canonical => canonical(host).unwrap_or_else(|| host.to_owned()),
        }
    }

    /// Whether the host in `name/host@REALM` is this member's.
    fn has_principal(self, principal: &str, member: &Member) -> bool {
        let name = PrincipalName::parse(principal).ok();
        let host = name.as_ref().and_then(PrincipalName::host);
        host.is_some_and(|host| {
            let own = member.addresses.iter().map(|address| self.known_as(&address.host));
            { own }.any(|own| own.eq_ignore_ascii_case(host))
        })
    }

    /// Whether a host that this server connected to is this member's.
    fn has_host(self, host: &str, member: &Member) -> bool {
        let mut own = member.addresses.iter().map(|address| &address.host);
        own.any(|own| {
            own.eq_ignore_ascii_case(host)
                || self.known_as(own).eq_ignore_ascii_case(&self.known_as(host))
        })
    }

    /// The principal of a server: as configured, with the host that was connected to.
    pub fn service(self, pattern: &str, host: &str) -> String {
        let (name, realm) = pattern.split_once('@').unwrap_or((pattern, ""));
        match name.split_once('/') {
            Some((name, HOST_MARK)) => {
                format!("{name}/{}@{realm}", self.known_as(host).to_ascii_lowercase())
            }
            _ => format!("{name}@{realm}"),
        }
    }
}

/// The reverse name of a host's address, if it resolves to that address.
fn canonical(host: &str) -> Option<String> {
    let address = (host, 0).to_socket_addrs().ok()?.next()?.ip();
    herdsman_tls::reverse_lookup(address).name().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_principal_of_a_server_has_the_host_that_was_dialled_where_it_says_so() {
        let service = |pattern: &str| HostNames::AsWritten.service(pattern, "A.example");
        assert_eq!(service("zkquorum/_HOST"), "zkquorum/a.example@");
        assert_eq!(service("zkquorum/_HOST@HERD"), "zkquorum/a.example@HERD");
        assert_eq!(service("zkquorum/localhost"), "zkquorum/localhost@");
        assert_eq!(service("zkquorum/_HOSTS@HERD"), "zkquorum/_HOSTS@HERD");
        assert_eq!(service("zkquorum"), "zkquorum@");
    }

    #[test]
    fn a_principal_is_that_of_the_member_whose_host_it_has() {
        let mut membership = Membership::default();
        for (key, line) in [
            ("server.1", "a.example:2888:3888"),
            ("server.2", "b.example:2888:3888|b2.example:1:2"),
        ] {
            membership.take_line(key, line).expect("a line about members").expect("a member");
        }
        let may_be = |principal: &str| -> Vec<i64> {
            let members = membership.members.iter();
            let own = members.filter(|(_, one)| HostNames::AsWritten.has_principal(principal, one));
            own.map(|(id, _)| id.0).collect()
        };
        assert_eq!(may_be("zk/a.example@HERD"), [1]);
        assert_eq!(may_be("zk/B.example@HERD"), [2]);
        assert_eq!(may_be("learner/b2.example@HERD"), [2]);
        for none in ["zk@HERD", "a.example@HERD", "zk/c.example@HERD", ""] {
            assert!(may_be(none).is_empty(), "{none}");
        }
        let member = &membership.members[&herdsman_proto::ServerId(1)];
        assert!(HostNames::AsWritten.has_host("A.example", member));
        assert!(!HostNames::AsWritten.has_host("b.example", member));
    }

    #[test]
    fn a_canonical_name_leads_back_to_its_address() {
        assert_eq!(HostNames::Canonical.known_as("host.invalid"), "host.invalid");
        let name = HostNames::Canonical.known_as("127.0.0.1");
        assert!(canonical(&name).is_none_or(|again| again == name), "{name}");
    }
}
