//! Startup: settings of the parts of a server from its configuration ([`settings`], keys and certificates), and
//! recovery of the data, which a member of an ensemble may have to repair first ([`repair`]).

pub(crate) mod certificates;
pub(crate) mod network;
pub(crate) mod repair;
pub(crate) mod session_passwords;
pub(crate) mod settings;
pub(crate) mod startup;
pub(crate) mod stop_signal;
