//! The version that the server reports.

/// The release of Apache ZooKeeper that this server is compatible with: clients choose by it which requests they
/// may send.
const COMPATIBLE_WITH: &str = "3.9.5";
/// When this release was made. Not the time of the build, so that builds are reproducible.
const RELEASED: &str = "2026-11-15 00:00 UTC";

/// Apache's form, `<release>-<revision>, built on <time>`; our name and version are the revision.
pub(crate) fn full_version() -> String {
    format!("{COMPATIBLE_WITH}-herdsman-{}, built on {RELEASED}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_begins_with_that_of_apache() {
        let version = full_version();
        let digits: String =
            version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        assert_eq!(digits, "3.9.5");
        let (revision, built) = version.split_once(", built on ").expect("it says when");
        assert!(revision.starts_with("3.9.5-herdsman-") && built.ends_with(" UTC"), "{version}");
    }
}
