//! A server as a member of an ensemble: [`peers`] connects the protocol core and the network, [`role_log`]
//! logs and counts what happens to this server. The network itself is in the crate `herdsman-quorum`.

mod long_pings;
pub(crate) mod peers;
pub(crate) mod records;
pub mod role_log;

pub use herdsman_quorum::LinkReport;
