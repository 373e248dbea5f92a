//! Path rules, against a second telling of them that walks UTF-16 units as Apache does.

use herdsman_proto::path;

/// In: any bytes, read as text the way a request's path is.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(path::is_valid(&text), apache_takes(&text), "{text:?}");
    if let Some((parent, name)) = path::split(&text) {
        assert_eq!(format!("{parent}/{name}"), text);
        assert!(path::is_prefix(parent, &text) && !name.contains('/'));
    }
    assert!(path::is_prefix(&text, &text));
}

/// A second implementation of Apache's `PathUtils.validatePath`.
fn apache_takes(path: &str) -> bool {
    let units: Vec<u16> = path.encode_utf16().collect();
    let slash = u16::from(b'/');
    let dot = u16::from(b'.');
    if units.first() != Some(&slash) {
        return false;
    }
    if units.len() == 1 {
        return true;
    }
    if units.last() == Some(&slash) {
        return false;
    }
    let mut previous = slash;
    for (index, &unit) in units.iter().enumerate().skip(1) {
        let ends_component = |at: usize| units.get(at).is_none_or(|&next| next == slash);
        let wrong = match unit {
            0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff => true,
            _ if unit == slash => previous == slash,
            _ if unit == dot && previous == slash => {
                let twice = units.get(index + 1) == Some(&dot);
                ends_component(index + 1) || (twice && ends_component(index + 2))
            }
            _ => false,
        };
        if wrong {
            return false;
        }
        previous = unit;
    }
    true
}
