//! What operators see: four-letter words, metrics and counters, the audit log, slow requests, and the log's level.

pub mod audit;
pub mod log_level;
pub mod metrics;
pub(crate) mod slow_requests;
pub mod stats;
pub mod words;
