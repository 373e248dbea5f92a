//! Session passwords: what a client sends to resume its session.
//!
//! In: a session's id, and the bytes that a client sends with it. Out: the password, or what is wrong with those
//! bytes. Servers do not exchange passwords, each computes them, so all servers of an ensemble have to use the same
//! function. Apache's uses no secret: anyone who reads an id can take the session over. With a key
//! that the servers share, a password is HMAC-SHA-256(key, id), cut to the 16 bytes that clients expect.
//!
//! Clients adopt the password in every connect response. So an ensemble is moved
//! from one function to the other in three rounds of restarts ([`KeyUse`]), without losing a session.
//! Apache: `ZooKeeperServer.generatePasswd`, `checkPasswd`.

use herdsman_proto::SessionId;
use herdsman_proto::connect::Password;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A secret that the servers of an ensemble share. `Debug` does not show it.
#[derive(Clone, Debug)]
pub struct SessionKey(Hmac<Sha256>);

impl SessionKey {
    /// The minimum length of a secret: a shorter one could be found from a password by brute force.
    pub const BYTES_MIN: usize = 32;

    /// Creates a key from a secret; `None` if that is shorter than [`Self::BYTES_MIN`].
    #[must_use]
    pub fn new(secret: &[u8]) -> Option<Self> {
        let mac = (secret.len() >= Self::BYTES_MIN).then(|| Hmac::new_from_slice(secret))?;
        mac.ok().map(SessionKey)
    }

    /// Computes a session's password, which is infeasible without the key.
    #[must_use]
    pub fn password(&self, session: SessionId) -> Password {
        let tag = self.tag(session).finalize().into_bytes();
        let mut password = Password::default();
        password.copy_from_slice(&tag[..size_of::<Password>()]);
        password
    }

    /// Compares in constant time.
    fn fits(&self, session: SessionId, password: &[u8]) -> bool {
        password.len() == size_of::<Password>()
            && self.tag(session).verify_truncated_left(password).is_ok()
    }

    fn tag(&self, session: SessionId) -> Hmac<Sha256> {
        self.0.clone().chain_update(session.0.to_be_bytes())
    }
}

/// A step of the migration from Apache's passwords to keyed ones. Servers that are one step apart
/// accept each other's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// Sessions get Apache's passwords; keyed ones are accepted, too.
    Accept,
    /// Sessions get keyed passwords; Apache's are accepted, too.
    Issue,
    /// Only keyed passwords.
    Only,
}

/// Which passwords are issued and accepted.
#[derive(Clone, Debug, Default)]
pub enum SessionPasswords {
    /// Apache's, which are computed from the id alone.
    #[default]
    Apache,
    /// With a key.
    Keyed {
        /// The same on all servers of the ensemble.
        key: SessionKey,
        /// Which passwords are issued and accepted with it.
        key_use: KeyUse,
    },
}

/// What is wrong with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordFault {
    /// It is Apache's, which is no longer accepted.
    Apache,
    /// Neither Apache's nor made with this key.
    Wrong,
}

impl SessionPasswords {
    /// Returns the password for a session.
    pub(crate) fn of(&self, session: SessionId) -> Password {
        match self {
            SessionPasswords::Apache | SessionPasswords::Keyed { key_use: KeyUse::Accept, .. } => {
                session.apache_password()
            }
            SessionPasswords::Keyed { key, .. } => key.password(session),
        }
    }

    /// Checks the password that a client sent.
    pub(crate) fn check(&self, session: SessionId, password: &[u8]) -> Result<(), PasswordFault> {
        let is_apache = || *password == session.apache_password();
        let accepts_apache = !self.only_keyed();
        match self {
            SessionPasswords::Keyed { key, .. } if key.fits(session, password) => Ok(()),
            _ if is_apache() && accepts_apache => Ok(()),
            _ if is_apache() => Err(PasswordFault::Apache),
            _ => Err(PasswordFault::Wrong),
        }
    }

    /// Whether only keyed passwords are accepted, so that an id alone is useless.
    pub(crate) fn only_keyed(&self) -> bool {
        matches!(self, SessionPasswords::Keyed { key_use: KeyUse::Only, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(0x0100_004a_b2c3_0000);

    fn keyed(secret: u8, key_use: KeyUse) -> SessionPasswords {
        let key = SessionKey::new(&[secret; 32]).unwrap();
        SessionPasswords::Keyed { key, key_use }
    }

    /// Computed with Python's `hmac`.
    #[test]
    fn a_keyed_password_is_an_hmac_of_the_id() {
        let key = SessionKey::new(b"0123456789abcdef0123456789abcdef").unwrap();
        assert_eq!(
            u128::from_be_bytes(key.password(SESSION)),
            0xac77_d767_3493_94f0_0bf6_8a30_c2e8_e9c9
        );
        assert!(SessionKey::new(&[7; 31]).is_none());
        assert!(!format!("{key:?}").contains("0123"), "{key:?}");
    }

    #[test]
    fn servers_one_step_apart_accept_each_others_sessions() {
        let steps = [
            SessionPasswords::Apache,
            keyed(1, KeyUse::Accept),
            keyed(1, KeyUse::Issue),
            keyed(1, KeyUse::Only),
        ];
        for (i, one) in steps.iter().enumerate() {
            for (j, other) in steps.iter().enumerate() {
                let accepted = other.check(SESSION, &one.of(SESSION)).is_ok();
                assert!(accepted || i.abs_diff(j) > 1, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_password_computed_from_the_id_does_not_fit_where_only_keyed_ones_do() {
        let only = keyed(1, KeyUse::Only);
        assert_eq!(only.check(SESSION, &SESSION.apache_password()), Err(PasswordFault::Apache));
        assert_eq!(only.check(SESSION, &only.of(SessionId(1))), Err(PasswordFault::Wrong));
        assert_eq!(only.check(SESSION, &only.of(SESSION)[..15]), Err(PasswordFault::Wrong));
        assert_eq!(only.check(SESSION, &[]), Err(PasswordFault::Wrong));
        let other = keyed(2, KeyUse::Only);
        assert_eq!(only.check(SESSION, &other.of(SESSION)), Err(PasswordFault::Wrong));
    }
}
