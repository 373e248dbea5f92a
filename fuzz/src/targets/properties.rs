//! zoo.cfg: parsed settings are written with every character escaped, and parsed again.

use std::fmt::Write;

use herdsman_properties::Properties;

/// In: the bytes of a configuration file.
pub fn run(bytes: &[u8]) {
    let Ok(properties) = Properties::parse(bytes) else {
        return;
    };
    let mut text = String::new();
    for (key, entry) in properties.in_file_order() {
        assert!(entry.line > 0, "lines are counted from 1");
        escape(key, &mut text);
        text.push('=');
        escape(&entry.value, &mut text);
        text.push('\n');
    }
    let again = Properties::parse(text.as_bytes()).expect("our own escapes are well formed");
    assert!(again.overridden.is_empty(), "every key once");
    let pairs = |properties: &Properties| -> Vec<(String, String)> {
        let entries = properties.entries.iter();
        entries.map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
    };
    assert_eq!(pairs(&again), pairs(&properties));
}

fn escape(text: &str, out: &mut String) {
    for unit in text.encode_utf16() {
        write!(out, "\\u{unit:04x}").expect("text can always grow");
    }
}
