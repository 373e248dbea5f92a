//! Rules for znode paths. Apache: `PathUtils.validatePath`.

/// The root znode.
pub const ROOT: &str = "/";
/// Parent of the service's own znodes.
pub const ZOOKEEPER: &str = "/zookeeper";
/// Root of the quota settings.
pub const QUOTA: &str = "/zookeeper/quota";
/// The ensemble's members.
pub const CONFIG: &str = "/zookeeper/config";

/// Znodes that belong to the service and cannot be deleted.
#[must_use]
pub fn is_special(path: &str) -> bool {
    matches!(path, ROOT | ZOOKEEPER | QUOTA | CONFIG)
}

/// Whether a path is valid: absolute, no empty, `.` or `..` component, no trailing slash, no
/// control characters, surrogates, private use or specials.
#[must_use]
pub fn is_valid(path: &str) -> bool {
    if path == ROOT {
        return true;
    }
    let Some(relative) = path.strip_prefix('/') else {
        return false;
    };
    // Without an early exit, so that many bytes are checked in one step.
    let is_plain = |all_plain, byte| all_plain & (0x20..0x7f).contains(&byte);
    let is_plain_ascii = relative.bytes().fold(true, is_plain);
    names(relative).all(|name| !matches!(name, b"" | b"." | b".."))
        && (is_plain_ascii || relative.chars().all(is_allowed))
}

/// The names in a path without its first slash. As bytes, which are faster to scan than
/// characters; a slash is never part of one.
pub fn names(relative: &str) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(relative.as_bytes());
    std::iter::from_fn(move || {
        let bytes = rest?;
        let end = memchr::memchr(b'/', bytes);
        rest = end.map(|end| &bytes[end + 1..]);
        Some(&bytes[..end.unwrap_or(bytes.len())])
    })
}

/// Java checks UTF-16 units, so a character that needs a surrogate pair is invalid as well.
fn is_allowed(c: char) -> bool {
    !matches!(
        c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}'
    ) && c <= '\u{ffff}'
}

/// Splits `/a/b` into (`/a`, `b`); the parent of a top-level znode is the empty path, which is the
/// root's own name in Apache's formats. `None` without a slash.
#[must_use]
pub fn split(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/')
}

/// Whether `prefix` is `path` or one of its ancestors.
#[must_use]
pub fn is_prefix(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_judged_as_apache_does() {
        for good in ["/", "/a", "/a/b", "/a.b/..c/...", "/zürich/東京", "/ space", "/a\u{ffef}"]
        {
            assert!(is_valid(good), "{good:?}");
        }
        for bad in [
            "",
            "a",
            "//",
            "/a/",
            "/a//b",
            "/.",
            "/a/../b",
            "/a/.",
            "/\0",
            "/a\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{f8ff}",
            "/\u{fff0}",
            "/\u{fffd}",
            "/\u{1f600}",
        ] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }

    #[test]
    fn prefixes_end_at_a_slash() {
        assert!(is_prefix("/a", "/a") && is_prefix("/a", "/a/b"));
        assert!(!is_prefix("/a", "/ab") && !is_prefix("/a/b", "/a"));
    }
}
