//! Names and passwords: all that a server knows, and the one that a client logs in with.

use std::collections::BTreeMap;

use crate::Secret;

/// The users that may log in to a server.
#[derive(Clone, Debug, Default)]
pub struct Users {
    passwords: BTreeMap<String, Secret>,
}

impl Users {
    /// Adds a user, or gives a known one another password.
    pub fn insert(&mut self, name: impl Into<String>, password: Secret) {
        self.passwords.insert(name.into(), password);
    }

    /// The password of a user, if there is one of that name.
    #[must_use]
    pub fn password(&self, name: &str) -> Option<&Secret> {
        self.passwords.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.passwords.keys().map(String::as_str)
    }

    /// Nobody may log in.
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

/// What a client, or a server that connects to another one, logs in with.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// As whom.
    pub username: String,
    /// The password that both sides know.
    pub password: Secret,
}
