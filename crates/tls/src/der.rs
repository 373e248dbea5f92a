//! The few DER operations needed where a parser does not expose the raw bytes.
//!
//! Certificates are parsed by webpki and x509-parser. This module splits off one item and puts a header
//! before some bytes. Multi-byte tags do not occur in what we read and are rejected.

/// `INTEGER`.
pub(crate) const INTEGER: u8 = 0x02;
/// `BIT STRING`.
pub(crate) const BIT_STRING: u8 = 0x03;
/// `OCTET STRING`.
pub(crate) const OCTET_STRING: u8 = 0x04;
/// `OBJECT IDENTIFIER`.
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
/// `SEQUENCE` and `SEQUENCE OF`.
pub(crate) const SEQUENCE: u8 = 0x30;
/// `SET` and `SET OF`.
pub(crate) const SET: u8 = 0x31;
/// `[0] EXPLICIT`.
pub(crate) const EXPLICIT_0: u8 = 0xa0;

/// One DER item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// Tag, length and content.
    pub(crate) whole: &'a [u8],
}

/// Splits off the first item. None if the bytes are not DER or end too early.
pub(crate) fn split(input: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (&tag, rest) = input.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        (long_length(bytes)?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    let whole = &input[..input.len() - rest.len()];
    Some((Item { tag, content, whole }, rest))
}

/// Reads a long-form length. More than four bytes is beyond any file that is read.
fn long_length(bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() || bytes.len() > 4 {
        return None;
    }
    Some(bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)))
}

/// Returns all items, or None if the bytes do not end with a complete item.
pub(crate) fn items(mut input: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut items = Vec::new();
    while !input.is_empty() {
        let (item, rest) = split(input)?;
        items.push(item);
        input = rest;
    }
    Some(items)
}

/// Returns the content of the item if the bytes are exactly one item with this tag.
pub(crate) fn only(tag: u8, input: &[u8]) -> Option<&[u8]> {
    match split(input)? {
        (item, []) if item.tag == tag => Some(item.content),
        _ => None,
    }
}

/// Encodes an item from these parts, concatenated.
pub(crate) fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut item = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => item.push(length),
        _ => {
            let length = content.len().to_be_bytes();
            let zeros = length.iter().take_while(|&&byte| byte == 0).count();
            let length = &length[zeros..];
            // At most 8 bytes of length, so the count fits in seven bits.
            item.push(0x80 | length.len() as u8);
            item.extend_from_slice(length);
        }
    }
    item.extend_from_slice(&content);
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_items_decode() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let item = encode(OCTET_STRING, &[&content]);
            assert_eq!(only(OCTET_STRING, &item), Some(content.as_slice()), "{length}");
            for end in 0..item.len().min(300) {
                assert_eq!(split(&item[..end]), None, "{length} cut to {end}");
            }
        }
    }

    #[test]
    fn several_items_are_separated() {
        let bytes = [encode(SEQUENCE, &[&[5, 0]]), encode(INTEGER, &[&[3]])].concat();
        let items = items(&bytes).unwrap();
        assert_eq!((items[0].tag, items[0].content), (SEQUENCE, &[5_u8, 0][..]));
        assert_eq!((items[1].tag, items[1].whole), (INTEGER, &[2_u8, 1, 3][..]));
        assert_eq!(only(SEQUENCE, &bytes), None, "more follows");
        assert_eq!(super::items(&bytes[..bytes.len() - 1]), None);
        assert_eq!(split(&[0x30, 0x80, 0, 0]), None, "an indefinite length is not DER");
        assert_eq!(split(&[0x1f, 0x20, 0]), None, "a long tag");
    }
}
