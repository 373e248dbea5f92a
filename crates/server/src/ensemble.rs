//! A server as a member of an ensemble: [`peers`] carries out what agreement asks of the network, [`role_log`] tells
//! operators what becomes of this server. The network itself is in `herdsman-quorum`.

pub(crate) mod peers;
pub mod role_log;

pub use herdsman_quorum::LinkReport;
