//! Service discovery: instances register, and clients find them and pick one.
//!
//! The layout and the JSON are those of Curator's x-discovery: `<base>/<name>/<id>`, with containers above and the
//! data of [`ServiceInstance`]. Java programs with Curator and programs with this crate can share a registry.
//!
//! * [`Registry`] registers instances, and looks them up once. A [`Registration`] is put back in the next session and
//!   after its node was deleted.
//! * [`ServiceCache`] follows the instances of one service. It keeps the last known set during an outage of the
//!   coordination service.
//! * [`ServiceProvider`] picks one of them, with one of the six algorithms of [`balance`](crate::balance), and stops
//!   using those with errors for a while.
//!
//! Least connections are counted over all clients: each publishes what it has in flight. Since Curator takes every
//! child of `<base>` for a service, these counts are stored beside it, in `<base>-loads/<name>/<client>`.
//! Alternatively, the instances publish their own counts, in `<base>-connections/<name>/<id>`; see
//! [`Registration::connection_count`].

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
