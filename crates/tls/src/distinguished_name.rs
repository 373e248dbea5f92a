//! Formats a certificate's subject exactly as Java does.
//!
//! The text is the id of an `x509:` ACL, so a single differing character locks a user out. The format is
//! RFC 2253 with Java's conventions: the last part of the name comes first; nine attribute types have a
//! keyword, all others are written as an OID and the value's DER in hex; `=` and `#` are escaped
//! everywhere. Java: `X500Principal.getName()`. Apache: `X509AuthenticationProvider.getClientId`.

use std::fmt::Write;

use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::Oid;

use crate::certificate::{self, MalformedCertificate};
use crate::der::{self, Item};

/// The attribute types that RFC 2253 has a keyword for.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// The characters that Java escapes with a backslash.
const ESCAPED: &str = ",=+<>#;\"\\";

/// Returns the subject as Java's `X500Principal.getName()` writes it, such as `CN=ann,OU=staff,O=Example`.
///
/// # Errors
/// The bytes are not a certificate.
pub fn subject_name(certificate: &CertificateDer<'_>) -> Result<String, MalformedCertificate> {
    let certificate = certificate::parse(certificate)?;
    name_text(certificate.subject().as_raw()).ok_or(MalformedCertificate)
}

/// Returns the last common name of a subject, unescaped: the one that Java lists first.
pub(crate) fn last_common_name(subject: &[u8]) -> Option<String> {
    let parts = attributes(subject)?;
    let mut latest_first = parts.into_iter().flatten().rev();
    latest_first.find(|attribute| attribute.keyword() == Some("CN"))?.text()
}

/// Returns None if the bytes are not a name.
fn name_text(name: &[u8]) -> Option<String> {
    let parts = attributes(name)?;
    let texts = parts.iter().rev().map(|part| {
        let attributes: Vec<String> = part.iter().map(Attribute::to_rfc2253).collect();
        attributes.join("+")
    });
    Some(texts.collect::<Vec<_>>().join(","))
}

/// One attribute of a name.
struct Attribute<'a> {
    /// The type's OID in dotted form.
    number: String,
    value: Item<'a>,
}

/// Returns the attributes of each part of a name; most parts have one.
fn attributes(name: &[u8]) -> Option<Vec<Vec<Attribute<'_>>>> {
    let parts = der::items(der::only(der::SEQUENCE, name)?)?;
    parts.into_iter().map(part_attributes).collect()
}

fn part_attributes(part: Item<'_>) -> Option<Vec<Attribute<'_>>> {
    if part.tag != der::SET {
        return None;
    }
    der::items(part.content)?.into_iter().map(attribute).collect()
}

fn attribute(pair: Item<'_>) -> Option<Attribute<'_>> {
    let [number, value] = der::items(pair.content)?.try_into().ok()?;
    if pair.tag != der::SEQUENCE || number.tag != der::OBJECT_IDENTIFIER {
        return None;
    }
    Some(Attribute { number: Oid::new(number.content.into()).to_id_string(), value })
}

impl Attribute<'_> {
    fn keyword(&self) -> Option<&'static str> {
        KEYWORDS.iter().find(|(number, _)| *number == self.number).map(|(_, keyword)| *keyword)
    }

    /// Returns the value if its string type is one that Java reads as text.
    fn text(&self) -> Option<String> {
        let bytes = self.value.content;
        match self.value.tag {
            // UTF8String.
            0x0c => Some(String::from_utf8_lossy(bytes).into_owned()),
            // PrintableString, T61String, IA5String, GeneralString: read as Latin-1.
            0x13 | 0x14 | 0x16 | 0x1b => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
            // BMPString.
            0x1e => {
                let units = bytes.chunks(2).map(|unit| match *unit {
                    [high, low] => u16::from_be_bytes([high, low]),
                    _ => 0xfffd,
                });
                Some(String::from_utf16_lossy(&units.collect::<Vec<_>>()))
            }
            _ => None,
        }
    }

    fn to_rfc2253(&self) -> String {
        match (self.keyword(), self.text()) {
            (Some(keyword), Some(text)) => format!("{keyword}={}", escape(&text)),
            (keyword, _) => {
                let mut text = format!("{}=#", keyword.unwrap_or(&self.number));
                for byte in self.value.whole {
                    write!(text, "{byte:02x}").expect("writing to a String cannot fail");
                }
                text
            }
        }
    }
}

/// Java also treats a carriage return as a space.
fn is_blank(c: char) -> bool {
    c == ' ' || c == '\r'
}

fn escape(text: &str) -> String {
    let leading = text.chars().take_while(|&c| is_blank(c)).count();
    let blank_from = text.trim_end_matches(is_blank).chars().count();
    let mut escaped = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        if c == '\0' {
            escaped.push_str("\\00");
            continue;
        }
        if ESCAPED.contains(c) || i < leading || i >= blank_from {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests;
