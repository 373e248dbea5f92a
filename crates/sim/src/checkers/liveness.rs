//! Liveness: when faults have stopped, there is a leader before long, every server serves, every client
//! gets a write done, sessions of live clients stay, those of dead clients end. Source: this project's
//! design (docs/architecture.md); bounds in ticks, generous, because what is looked for is "never".

/// Ticks until requests that were on their way when the faults stopped are decided.
pub const IN_FLIGHT_TICKS: u64 = 40;
/// Ticks until every server serves, beyond what catching up may take.
pub const SETTLE_TICKS: u64 = 60;
/// Ticks until every client has got a write done.
pub const PROGRESS_TICKS: u64 = 300;
/// Ticks in which a server steps down at most once because of what is said in a voter's name.
pub const INTRUDER_TICKS: u64 = 55;
/// Ticks until nothing moves any more once clients ask for nothing.
pub const REST_TICKS: u64 = 60;
