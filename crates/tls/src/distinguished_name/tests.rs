//! Expected values were checked with Java, `new X500Principal(bytes).getName()`. OpenJDK 25 produces all of
//! them; 17 does too, except for T61String and BMPString, which it misreads as UTF-8.

use super::*;

const CN: &str = "550403";
const C: &str = "550406";
const L: &str = "550407";
const ST: &str = "550408";
const STREET: &str = "550409";
const O: &str = "55040a";
const OU: &str = "55040b";
const TITLE: &str = "55040c";
const SERIAL: &str = "550405";
const SURNAME: &str = "550404";
const DC: &str = "0992268993f22c640119";
const UID: &str = "0992268993f22c640101";
const EMAIL: &str = "2a864886f70d010901";

const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const T61: u8 = 0x14;
const IA5: u8 = 0x16;
const UNIVERSAL: u8 = 0x1c;
const BMP: u8 = 0x1e;

/// A type, the tag of the value, and the value.
type Part<'a> = (&'a str, u8, &'a [u8]);

/// Encodes a name in DER.
fn name(parts: &[&[Part<'_>]]) -> Vec<u8> {
    let attribute = |(number, tag, value): &Part<'_>| {
        let number = der::encode(der::OBJECT_IDENTIFIER, &[&hex::decode(number).unwrap()]);
        der::encode(der::SEQUENCE, &[&number, &der::encode(*tag, &[value])])
    };
    let part = |part: &&[Part<'_>]| {
        let attributes: Vec<u8> = part.iter().flat_map(attribute).collect();
        der::encode(der::SET, &[&attributes])
    };
    let parts: Vec<u8> = parts.iter().flat_map(part).collect();
    der::encode(der::SEQUENCE, &[&parts])
}

fn check(parts: &[&[Part<'_>]], expected: &str) {
    let name = name(parts);
    let text = name_text(&name);
    assert_eq!(text.as_deref(), Some(expected), "{}", hex::encode(name));
}

#[test]
fn parts_come_in_reverse_order_with_their_keywords() {
    check(&[], "");
    check(
        &[
            &[(C, PRINTABLE, b"DE")],
            &[(ST, UTF8, b"Hessen")],
            &[(L, UTF8, b"Kassel")],
            &[(STREET, UTF8, b"Am Markt 1")],
            &[(DC, IA5, b"example")],
            &[(O, UTF8, b"Example")],
            &[(OU, UTF8, b"Herds")],
            &[(UID, UTF8, b"ann")],
            &[(CN, UTF8, b"Ann")],
        ],
        "CN=Ann,UID=ann,OU=Herds,O=Example,DC=example,STREET=Am Markt 1,L=Kassel,ST=Hessen,C=DE",
    );
}

#[test]
fn other_types_are_numbers_with_hex() {
    check(
        &[&[(O, UTF8, b"Example")], &[(EMAIL, IA5, b"a@b.c")], &[(CN, UTF8, b"Ann")]],
        "CN=Ann,1.2.840.113549.1.9.1=#16056140622e63,O=Example",
    );
    check(
        &[&[(SERIAL, PRINTABLE, b"7")], &[(TITLE, UTF8, b"Dr")], &[(SURNAME, UTF8, b"Lee")]],
        "2.5.4.4=#0c034c6565,2.5.4.12=#0c024472,2.5.4.5=#130137",
    );
    check(
        &[&[("2a03040506", UTF8, &[b'x'; 130])]],
        &format!("1.2.3.4.5.6=#0c8182{}", "78".repeat(130)),
    );
}

#[test]
fn attributes_of_one_part_are_joined_with_plus() {
    check(
        &[&[(O, UTF8, b"Example")], &[(CN, UTF8, b"Ann"), (UID, UTF8, b"7")]],
        "CN=Ann+UID=7,O=Example",
    );
    check(&[&[(UID, UTF8, b"7"), (CN, UTF8, b"Ann")]], "UID=7+CN=Ann");
}

#[test]
fn special_characters_are_escaped() {
    check(&[&[(CN, UTF8, b"a,b+c\"d\\e<f>g;h=i#j")]], r#"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j"#);
    check(&[&[(CN, UTF8, b"#1")]], r"CN=\#1");
    check(&[&[(CN, UTF8, b"  a b  ")]], r"CN=\ \ a b\ \ ");
    check(&[&[(CN, UTF8, b"   ")]], r"CN=\ \ \ ");
    check(&[&[(CN, UTF8, b"\ra\r")]], "CN=\\\ra\\\r");
    check(&[&[(CN, UTF8, b"a\0b")]], r"CN=a\00b");
    check(&[&[(CN, UTF8, b"a\tb\nc*@_|'")]], "CN=a\tb\nc*@_|'");
    check(&[&[(CN, UTF8, b"")]], "CN=");
}

#[test]
fn every_string_type_is_read_as_java_reads_it() {
    check(&[&[(CN, UTF8, "Jürgen 東".as_bytes())]], "CN=Jürgen 東");
    check(&[&[(CN, T61, b"J\xfcrgen")]], "CN=Jürgen");
    check(&[&[(CN, BMP, &[0, b'J', 0, 0xfc, 0x67, 0x71])]], "CN=Jü東");
    check(&[&[(CN, IA5, b"ann@example.com")]], "CN=ann@example.com");
    check(&[&[(CN, UNIVERSAL, &[0, 0, 0, b'A'])]], "CN=#1c0400000041");
    check(&[&[(CN, 0x02, &[5])]], "CN=#020105");
}

#[test]
fn the_last_common_name_counts() {
    let last = |parts: &[&[Part<'_>]]| last_common_name(&name(parts));
    assert_eq!(last(&[]), None);
    assert_eq!(last(&[&[(O, UTF8, b"Example")]]), None);
    assert_eq!(
        last(&[&[(CN, UTF8, b"first")], &[(CN, UTF8, b"a,b")], &[(O, UTF8, b"Example")]]),
        Some("a,b".to_owned())
    );
}

#[test]
fn bytes_that_are_not_a_name_are_rejected() {
    let whole = name(&[&[(CN, UTF8, b"Ann")], &[(O, UTF8, b"Example")]]);
    for end in 0..whole.len() {
        assert_eq!(name_text(&whole[..end]), None, "cut to {end}");
    }
    assert_eq!(subject_name(&CertificateDer::from(whole)), Err(MalformedCertificate));
}
