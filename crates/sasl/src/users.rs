//! Names and passwords: all users that a server knows, and the credentials of a client.

use std::collections::BTreeMap;

use crate::Secret;

/// The users that may log in to a server.
#[derive(Clone, Debug, Default)]
pub struct Users {
    passwords: BTreeMap<String, Secret>,
}

impl Users {
    /// Adds a user, or changes the password of a known one.
    pub fn insert(&mut self, name: impl Into<String>, password: Secret) {
        self.passwords.insert(name.into(), password);
    }

    /// Returns the password of a user, if the user is known.
    #[must_use]
    pub fn password(&self, name: &str) -> Option<&Secret> {
        self.passwords.get(name)
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.passwords.keys().map(String::as_str)
    }

    /// Whether there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passwords.is_empty()
    }
}

impl<Name: Into<String>> FromIterator<(Name, Secret)> for Users {
    fn from_iter<I: IntoIterator<Item = (Name, Secret)>>(users: I) -> Self {
        let passwords = users.into_iter().map(|(name, password)| (name.into(), password)).collect();
        Users { passwords }
    }
}

/// Credentials of a client, or of a server that connects to another one.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password that both sides know.
    pub password: Secret,
}
