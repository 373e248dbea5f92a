//! How a server starts: what it needs of its configuration ([`settings`], keys and certificates), and what is
//! recovered and logged before it serves.

pub(crate) mod certificates;
pub(crate) mod network;
pub(crate) mod session_passwords;
pub(crate) mod settings;
pub(crate) mod startup;
