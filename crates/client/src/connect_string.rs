//! Connect strings, which name the servers of the ensemble: `host:port,host:port/chroot`.
//!
//! In: a connect string, or its parts. Out: a list of servers that is never empty, and a chroot
//! that is empty or a valid path. No name is resolved here, so a host that does not exist is only
//! detected when the client connects. Order and repetitions are kept.
//!
//! Apache: `ConnectStringParser`. What it parses correctly means the same here. It also accepts
//! mistakes that are errors here: it drops empty entries (`a,,b`), reads `a:` as port 2181, accepts
//! any number as a port, and splits a bare IPv6 address at its last colon, so that `::1` becomes
//! port 1 of a host named `:`.

mod host_port;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use herdsman_proto::path;

pub use host_port::HostPort;

/// The servers of an ensemble, and the znode that the client uses as its root.
///
/// The text form is a list of servers separated by commas, then optionally a chroot, which is
/// everything from the first slash on. (So the chroot is written once, at the end: in `a/app,b/app`
/// it would be `/app,b/app`.) Spaces around servers are ignored. A server without a port has
/// [port 2181](HostPort::PORT_DEFAULT). IPv6 addresses must be in brackets; a bare one is accepted
/// if it is not ambiguous.
///
/// ```
/// use herdsman_client::ConnectString;
///
/// let ensemble: ConnectString = "zk1, zk2:2182, [2001:db8::3]:2183/apps/shop".parse()?;
/// assert_eq!(ensemble.hosts().len(), 3);
/// assert_eq!(ensemble.hosts()[0].port(), 2181);
/// assert_eq!(ensemble.hosts()[2].host(), "2001:db8::3");
/// assert_eq!(ensemble.chroot(), "/apps/shop");
/// assert_eq!(ensemble.to_string(), "zk1:2181,zk2:2182,[2001:db8::3]:2183/apps/shop");
///
/// let mistake = "zk1:2181,zk2:21811111".parse::<ConnectString>().unwrap_err();
/// assert_eq!(
///     mistake.to_string(),
///     r#"port "21811111" in "zk2:21811111" is not a number from 1 to 65535"#
/// );
/// # Ok::<(), herdsman_client::ConnectStringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectString {
    /// Never empty.
    hosts: Vec<HostPort>,
    /// Empty, or a valid path other than `/`.
    chroot: String,
}

impl ConnectString {
    /// Creates a connect string from its parts. The chroots `""` and `"/"` both mean none.
    ///
    /// ```
    /// use herdsman_client::{ConnectString, HostPort};
    ///
    /// let ensemble = ConnectString::new([HostPort::new("zk1", 2181)?], "/apps")?;
    /// assert_eq!(ensemble, "zk1/apps".parse()?);
    /// # Ok::<(), herdsman_client::ConnectStringError>(())
    /// ```
    ///
    /// # Errors
    /// There is no host, or the chroot is not a valid path.
    pub fn new(
        hosts: impl IntoIterator<Item = HostPort>,
        chroot: &str,
    ) -> Result<Self, ConnectStringError> {
        let hosts: Vec<HostPort> = hosts.into_iter().collect();
        if hosts.is_empty() {
            return Err(ConnectStringError::NoHosts);
        }
        Ok(Self { hosts, chroot: checked_chroot(chroot)?.to_owned() })
    }

    /// Returns the servers in the order in which they were written; at least one.
    #[must_use]
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// Returns the znode that the client uses as its root, such as `/apps/shop`; empty if there is
    /// none, so that the chroot followed by a path is always the path on the server.
    #[must_use]
    pub fn chroot(&self) -> &str {
        &self.chroot
    }
}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        reject_scheme(text)?;
        let (list, chroot) = text.split_at(text.find('/').unwrap_or(text.len()));
        if list.trim().is_empty() {
            return Err(ConnectStringError::NoHosts);
        }
        let hosts: Vec<HostPort> =
            list.split(',').enumerate().map(parse_entry).collect::<Result<_, _>>()?;
        Self::new(hosts, chroot)
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.hosts.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{host}")?;
        }
        f.write_str(&self.chroot)
    }
}

/// Why a connect string, or a part of it, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectStringError {
    /// There is nothing before the chroot.
    #[error("the connect string names no server; expected \"host:port,host:port/chroot\"")]
    NoHosts,
    /// It looks like a URL.
    #[error("a connect string has no scheme; leave out \"{scheme}://\"")]
    Scheme {
        /// The text before `://`.
        scheme: String,
    },
    /// Two commas in a row, or one at either end.
    #[error("server {position} of the connect string is empty; expected one name between commas")]
    EmptyEntry {
        /// Which server of the list, counted from 1.
        position: usize,
    },
    /// A port without a host.
    #[error("no host before the port in {entry:?}; expected \"host:port\"")]
    EmptyHost {
        /// The server as it was written.
        entry: String,
    },
    /// The host is neither a name nor an address.
    #[error(
        "{host:?} in {entry:?} is neither a host name (letters, digits, '-', '_' and '.') nor an \
         IP address"
    )]
    InvalidHost {
        /// The server as it was written.
        entry: String,
        /// The host in it.
        host: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("port {port:?} in {entry:?} is not a number from 1 to 65535")]
    InvalidPort {
        /// The server as it was written.
        entry: String,
        /// The port in it; empty if there is a colon and nothing after it.
        port: String,
    },
    /// There are several colons or brackets, but the text is not an IPv6 address.
    #[error("{address:?} in {entry:?} is not an IPv6 address; expected \"[address]:port\"")]
    InvalidIpv6 {
        /// The server as it was written.
        entry: String,
        /// The text that should be an address.
        address: String,
    },
    /// An IPv6 address without brackets whose last part may or may not be a port.
    #[error(
        "{entry:?} is an IPv6 address, or one with a port at its end; write \"[address]:port\""
    )]
    AmbiguousIpv6 {
        /// The server as it was written.
        entry: String,
    },
    /// `[` without `]`, or something other than a port after it.
    #[error("{entry:?} has misplaced brackets; expected \"[address]:port\" or \"[address]\"")]
    Brackets {
        /// The server as it was written.
        entry: String,
    },
    /// The chroot ends with a slash.
    #[error("the chroot {chroot:?} ends with a slash; leave it out")]
    ChrootTrailingSlash {
        /// The chroot as it was written.
        chroot: String,
    },
    /// The chroot is not a path that a znode can have.
    #[error(
        "the chroot {chroot:?} is not a valid path; expected \"/a/b\" without empty parts, \".\", \
         \"..\" or control characters"
    )]
    InvalidChroot {
        /// The chroot as it was written.
        chroot: String,
    },
}

/// Rejects `zk://a,b/c`, the form of some other programs. The rest of the parser would read it as a host
/// `zk` without a port, and the error message would be misleading.
fn reject_scheme(text: &str) -> Result<(), ConnectStringError> {
    match text.split_once("://") {
        Some((scheme, _)) if !scheme.contains(['/', ',']) => {
            Err(ConnectStringError::Scheme { scheme: scheme.trim().to_owned() })
        }
        _ => Ok(()),
    }
}

fn parse_entry((index, entry): (usize, &str)) -> Result<HostPort, ConnectStringError> {
    if entry.trim().is_empty() {
        return Err(ConnectStringError::EmptyEntry { position: index + 1 });
    }
    entry.parse()
}

fn checked_chroot(chroot: &str) -> Result<&str, ConnectStringError> {
    if matches!(chroot, "" | path::ROOT) {
        return Ok("");
    }
    if path::is_valid(chroot) {
        return Ok(chroot);
    }
    let chroot = chroot.to_owned();
    match chroot.strip_suffix('/') {
        Some(rest) if path::is_valid(rest) => {
            Err(ConnectStringError::ChrootTrailingSlash { chroot })
        }
        _ => Err(ConnectStringError::InvalidChroot { chroot }),
    }
}
