//! Whole ensembles in a simulated world.
//!
//! In: a seed, or a script. Out: a hash of everything that happened, or the first property that did not
//! hold, with the way to see it again. The servers are the real ones: `node`, `zab`, `tree` and `store`
//! run as they do in the server; what is simulated is all that they ask of the world: time, network,
//! disks ([`herdsman_store::MemoryDisk`]), and clients.
//!
//! A seed decides everything ([`random`]): the ensemble and its speeds ([`plan`]), who is late, what
//! breaks and when ([`world`]), what clients ask ([`client`]). The same seed gives the same run, bit for
//! bit, because nothing here reads a clock or a randomly seeded map, and events of one moment have an
//! order.
//!
//! A run ([`run`]) has two phases. First everything goes wrong that may go wrong, and what must never
//! happen is looked for ([`checkers`]). Then the faults stop, and what must happen is asked for: a
//! leader, progress for every client, and equal trees.

pub mod checkers;
pub mod chronicle;
pub mod client;
pub mod matrix;
pub mod mistakes;
pub mod plan;
pub mod random;
pub mod run;
pub mod storage;
pub mod world;

pub use plan::{FaultKinds, Plan};
pub use random::Random;
pub use run::{Verdict, run_plan, run_seed};
pub use world::World;
