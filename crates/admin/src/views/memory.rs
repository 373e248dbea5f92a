//! What the views remember from one request to the next: answers that are still good, and the past.

use super::ensemble::Asked;
use super::history::History;
use super::recipes::Kept;

/// The memory of all views.
#[derive(Debug, Default)]
pub struct Memory {
    /// Samples of the last half hour.
    pub history: History,
    /// What the other members said last.
    pub(super) ensemble: Asked,
    /// Recipes as they were a moment ago.
    pub(super) recipes: Kept,
}
