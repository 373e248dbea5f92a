//! Service discovery: instances register, others find them and pick one.
//!
//! The layout and the JSON are those of Curator's x-discovery: `<base>/<name>/<id>`, containers above,
//! data as [`ServiceInstance`] says. Java programs with Curator and programs with this crate can
//! share a registry.
//!
//! * [`Registry`] registers, and looks up once. A [`Registration`] is put back in the next session
//!   and after somebody deleted it.
//! * [`ServiceCache`] follows the instances of one service. What it saw last survives an outage of
//!   the coordination service.
//! * [`ServiceProvider`] picks one of them, with one of the six algorithms of
//!   [`balance`](crate::balance), and leaves those with errors alone for a while.
//!
//! Least connections are counted over all clients: each publishes what it has under way. As all
//! children of `<base>` are services to Curator, these counts live beside it, in
//! `<base>-loads/<name>/<client>`. Or the instances publish what they have, in
//! `<base>-connections/<name>/<id>`; see [`Registration::connection_count`].

mod cache;
mod connection_count;
mod instance;
mod instance_counts;
mod loads;
mod provider;
mod registry;
mod stabiliser;
mod uri_spec;

pub use cache::{ServiceCache, ServiceCacheOptions, ServiceEvent};
pub use connection_count::{ConnectionCount, ConnectionCountOptions, CountedConnection};
pub use instance::{ServiceInstance, ServiceType};
pub use provider::{Picked, ServiceProvider, ServiceProviderOptions};
pub use registry::{Lookup, Registration, Registry};
pub use uri_spec::{UriPart, UriSpec};
