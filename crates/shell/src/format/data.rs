//! A znode's data: as text that is safe to print, in base64, as a hexdump, and in JSON.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::printable_lines;

/// The data as text. Escapes, as `\x1b`, bytes that are not text or would affect a terminal.
pub(crate) fn text_of(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len());
    for chunk in data.utf8_chunks() {
        text.push_str(&printable_lines(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a String does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

pub(crate) fn base64_of(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// Puts data into a JSON object: as text if it is UTF-8 and text is wanted, else in base64. The member
/// `encoding` says which.
pub(crate) fn data_json(object: &mut Map<String, Value>, data: &[u8], wanted: Encoding) {
    let text = match wanted {
        Encoding::Text => std::str::from_utf8(data).ok(),
        Encoding::Base64 => None,
    };
    let (data, encoding) = match text {
        Some(text) => (text.to_owned(), "utf8"),
        None => (base64_of(data), "base64"),
    };
    object.insert("data".to_owned(), Value::from(data));
    object.insert("encoding".to_owned(), Value::from(encoding));
}

/// How data goes into JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As text if it is UTF-8, else in base64.
    Text,
    Base64,
}

const HEXDUMP_FRAME: &str =
    "+--------+-------------------------------------------------+----------------+";

/// Sixteen bytes a line, in the frame that zkCli (Netty's `prettyHexDump`) draws. Empty for no data.
pub(crate) fn hexdump(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let mut dump = String::with_capacity((data.len() / 16 + 5) * (HEXDUMP_FRAME.len() + 1));
    dump.push_str("         +-------------------------------------------------+\n");
    dump.push_str("         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n");
    dump.push_str(HEXDUMP_FRAME);
    for (row, bytes) in data.chunks(16).enumerate() {
        let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        let text: String = bytes.iter().map(|byte| shown(*byte)).collect();
        // Writing to a String does not fail.
        let _ = write!(dump, "\n|{:08x}|{hex:<48} |{text:<16}|", row * 16);
    }
    dump.push('\n');
    dump.push_str(HEXDUMP_FRAME);
    dump
}

fn shown(byte: u8) -> char {
    match byte {
        0x20..=0x7e => char::from(byte),
        _ => '.',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_text_as_far_as_it_is_safe() {
        assert_eq!(text_of(b"a\nb\tc"), "a\nb\tc");
        assert_eq!(text_of("zürich".as_bytes()), "zürich");
        assert_eq!(text_of(b"\x1b[2J\x00\xffz"), "\\x1b[2J\\x00\\xffz");
        assert_eq!(base64_of(b"\x00\xff"), "AP8=");
    }

    #[test]
    fn a_hexdump_has_sixteen_bytes_a_line() {
        let expected = "         \
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 68 65 6c 6c 6f 20 77 6f 72 6c 64 20 31 32 33 34 |hello world 1234|
|00000010| 00 ff                                           |..              |
+--------+-------------------------------------------------+----------------+";
        assert_eq!(hexdump(b"hello world 1234\x00\xff"), expected);
        assert_eq!(hexdump(b""), "");
    }

    #[test]
    fn json_says_how_data_is_encoded() {
        let mut object = Map::new();
        data_json(&mut object, b"\xff", Encoding::Text);
        assert_eq!(Value::from(object).to_string(), r#"{"data":"/w==","encoding":"base64"}"#);
    }
}
