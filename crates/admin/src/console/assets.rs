//! The list of the console's files. A test compares it with the folder.

/// One file.
pub(super) struct Asset {
    /// Its path below `crates/admin/console`, and below `/console/` in the browser.
    pub(super) path: &'static str,
    /// Its contents.
    pub(super) bytes: &'static [u8],
}

impl Asset {
    /// Its content type; a header forbids browsers to guess it.
    pub(super) fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

macro_rules! asset {
    ($path:literal) => {
        Asset {
            path: $path,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/", $path)),
        }
    };
}

/// All files.
pub(super) const ASSETS: &[Asset] = &[
    asset!("css/base.css"),
    asset!("css/browse.css"),
    asset!("css/controls.css"),
    asset!("css/layout.css"),
    asset!("css/pages.css"),
    asset!("css/tokens.css"),
    asset!("img/icons.svg"),
    asset!("img/logo.svg"),
    asset!("index.html"),
    asset!("js/browse/acl-panel.js"),
    asset!("js/browse/children-panel.js"),
    asset!("js/browse/conflict-dialog.js"),
    asset!("js/browse/create-dialog.js"),
    asset!("js/browse/data-panel.js"),
    asset!("js/browse/delete-dialog.js"),
    asset!("js/browse/details.js"),
    asset!("js/browse/draft.js"),
    asset!("js/browse/editor.js"),
    asset!("js/browse/live.js"),
    asset!("js/browse/node-pane.js"),
    asset!("js/browse/tree-model.js"),
    asset!("js/browse/tree-view.js"),
    asset!("js/core/access.js"),
    asset!("js/core/api.js"),
    asset!("js/core/bytes.js"),
    asset!("js/core/credentials.js"),
    asset!("js/core/dom.js"),
    asset!("js/core/events.js"),
    asset!("js/core/format.js"),
    asset!("js/core/json.js"),
    asset!("js/core/observable.js"),
    asset!("js/core/paths.js"),
    asset!("js/core/router.js"),
    asset!("js/core/scope.js"),
    asset!("js/main.js"),
    asset!("js/pages/browse.js"),
    asset!("js/pages/ensemble.js"),
    asset!("js/pages/recipes.js"),
    asset!("js/pages/server.js"),
    asset!("js/pages/sessions.js"),
    asset!("js/recipes/cards.js"),
    asset!("js/recipes/deadlock.js"),
    asset!("js/ui/banner.js"),
    asset!("js/ui/chart.js"),
    asset!("js/ui/controls.js"),
    asset!("js/ui/dialog.js"),
    asset!("js/ui/diff.js"),
    asset!("js/ui/keyboard.js"),
    asset!("js/ui/login.js"),
    asset!("js/ui/page.js"),
    asset!("js/ui/palette.js"),
    asset!("js/ui/theme.js"),
    asset!("js/ui/toast.js"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    fn folder() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/console"))
    }

    fn collect(dir: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else {
                let name = path.strip_prefix(folder()).unwrap();
                found.insert(name.to_str().unwrap().to_owned());
            }
        }
    }

    fn text(asset: &Asset) -> &str {
        std::str::from_utf8(asset.bytes).unwrap()
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_list() {
        let mut found = BTreeSet::new();
        collect(folder(), &mut found);
        let listed: BTreeSet<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(found, listed);
    }

    /// Otherwise the browser finds each module only after it has read the one before.
    #[test]
    fn every_module_is_preloaded_by_the_page() {
        let page = ASSETS.iter().find(|asset| asset.path == "index.html").unwrap();
        for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".js")) {
            let announced = format!("=\"console/{}\"", asset.path);
            assert!(text(page).contains(&announced), "{}", asset.path);
        }
    }

    #[test]
    fn each_file_has_a_content_type() {
        for asset in ASSETS {
            assert_ne!(asset.content_type(), "application/octet-stream", "{}", asset.path);
        }
    }

    /// The console's content policy forbids these, and the last ones could let data in as markup.
    #[test]
    fn nothing_is_inline_and_nothing_parses_data_as_markup() {
        for asset in ASSETS {
            let forbidden: &[&str] = match asset.content_type().split(';').next() {
                Some("text/html") => {
                    &["<style", " style=", "onclick=", "<script>", "http://", "https://"]
                }
                Some("text/javascript") => {
                    &["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
                }
                Some("text/css") => &["@import", "url(", "http"],
                _ => &["<script"],
            };
            for word in forbidden {
                assert!(!text(asset).contains(word), "{} contains {word}", asset.path);
            }
        }
    }
}
