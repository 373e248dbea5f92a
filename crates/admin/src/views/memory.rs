//! The data that the views keep between requests: cached responses and the history.

use super::ensemble::EnsembleCache;
use super::history::History;
use super::recipes::RecipesCache;

/// The cached data of all views.
#[derive(Debug, Default)]
pub struct ViewCaches {
    /// Samples of the last half hour.
    pub history: History,
    /// The last replies of the other members.
    pub(super) ensemble: EnsembleCache,
    /// Recent recipes.
    pub(super) recipes: RecipesCache,
}
