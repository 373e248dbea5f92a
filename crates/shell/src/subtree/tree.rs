//! Draws a tree with box characters.
//!
//! In: the position of each znode of a walk, in the walk's order. Out: what to print before its name. If the
//! last child of a znode vanishes during the walk, the branch above it is drawn as if more followed.

use super::walk::Position;

/// Draws the branches of one walk.
#[derive(Debug, Default)]
pub struct Branches {
    /// For each ancestor of the current znode, and itself: whether it is the last child.
    are_last: Vec<bool>,
}

impl Branches {
    /// The text before the name of the next znode.
    pub fn before(&mut self, position: &Position) -> String {
        self.are_last.truncate(position.depth);
        self.are_last.push(position.is_last);
        // The root itself has no branch.
        let Some((own, above)) = self.are_last.get(1..).and_then(<[bool]>::split_last) else {
            return String::new();
        };
        let mut drawn: String =
            above.iter().map(|is_last| if *is_last { "    " } else { "│   " }).collect();
        drawn.push_str(if *own { "└── " } else { "├── " });
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_meet_their_neighbours() {
        let walk = [
            ("/", 0, true),
            ("a", 1, false),
            ("b", 2, false),
            ("c", 2, true),
            ("d", 3, true),
            ("e", 1, true),
            ("f", 2, true),
        ];
        let mut branches = Branches::default();
        let drawn: Vec<String> = walk
            .into_iter()
            .map(|(name, depth, is_last)| {
                let position = Position { path: name.to_owned(), depth, is_last };
                format!("{}{name}", branches.before(&position))
            })
            .collect();
        let expected =
            ["/", "├── a", "│   ├── b", "│   └── c", "│       └── d", "└── e", "    └── f"];
        assert_eq!(drawn, expected);
    }
}
