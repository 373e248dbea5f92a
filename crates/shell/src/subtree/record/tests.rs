//! Tests of records as lines and back.

use proptest::prelude::*;

use super::*;

fn record(data: Vec<u8>) -> Record {
    Record {
        path: "a/b".to_owned(),
        data: Bytes::from(data),
        acl: vec![Acl::world(Perms::ALL)],
        lifetime: Lifetime::Persistent,
        stat: None,
    }
}

fn any_lifetime() -> impl Strategy<Value = Lifetime> {
    prop_oneof![
        Just(Lifetime::Persistent),
        Just(Lifetime::Ephemeral),
        Just(Lifetime::Container),
        (1..=TTL_MS_MAX).prop_map(|ms| Lifetime::Ttl(Duration::from_millis(ms))),
    ]
}

fn any_acl() -> impl Strategy<Value = Vec<Acl>> {
    let entry = (any::<i32>(), ".*", ".*")
        .prop_map(|(perms, scheme, id)| Acl { perms: Perms(perms), id: Id { scheme, id } });
    prop::collection::vec(entry, 1..4)
}

proptest! {
    #[test]
    fn any_record_survives_a_round_trip(
        data: Vec<u8>,
        acl in any_acl(),
        lifetime in any_lifetime(),
        zxid: i64,
        version: i32,
    ) {
        let stat = Stat { czxid: Zxid(zxid), ephemeral_owner: !zxid, version, ..Stat::default() };
        let record = Record { acl, lifetime, stat: Some(stat), ..record(data) };
        let line = record.to_line();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(Record::from_line(&line), Ok(record));
    }

    #[test]
    fn text_survives_a_round_trip(text in ".{0,200}") {
        let record = record(text.into_bytes());
        prop_assert_eq!(Record::from_line(&record.to_line()), Ok(record));
    }

    #[test]
    fn no_line_makes_the_reader_panic(line in ".{0,200}") {
        let _ = Record::from_line(&line);
    }
}

#[test]
fn a_line_reads_as_it_is_documented() {
    let line = record(b"host=a\n".to_vec()).to_line();
    assert_eq!(
        line,
        concat!(
            r#"{"path":"a/b","data":"host=a\n","#,
            r#""acl":[{"scheme":"world","id":"anyone","perms":"cdrwa"}],"type":"persistent"}"#,
        )
    );
    assert!(record(vec![0, 255]).to_line().contains(r#""data_base64":"AP8=""#));
    assert!(record(b"\x1b[31m".to_vec()).to_line().contains("data_base64"));
}

#[test]
fn omitted_fields_have_defaults() {
    let expected = Record { path: ".".to_owned(), ..record(Vec::new()) };
    assert_eq!(Record::from_line(r#"{"path":"."}"#), Ok(expected));
}

#[test]
fn faults_are_described_in_a_few_words() {
    for (line, fault) in [
        ("", "EOF while parsing a value (column 0)"),
        ("{", "EOF while parsing an object (column 1)"),
        ("[1]", "invalid type"),
        (r#"{"data":""}"#, "missing field `path`"),
        (r#"{"path":"/a"}"#, "is not a relative path"),
        (r#"{"path":"a/../b"}"#, "is not a relative path"),
        (r#"{"path":"a","datta":""}"#, "unknown field `datta`"),
        (r#"{"path":"a","data":"","data_base64":""}"#, "both data and data_base64"),
        (r#"{"path":"a","data_base64":"!"}"#, "data_base64: "),
        (r#"{"path":"a","acl":[]}"#, "the acl is empty"),
        (r#"{"path":"a","acl":[{"scheme":"world","id":"anyone","perms":"rx"}]}"#, "letters cdrwa"),
        (r#"{"path":"a","type":"sequential"}"#, "unknown variant `sequential`"),
        (r#"{"path":"a","type":"ttl"}"#, "type ttl needs a ttl_ms"),
        (r#"{"path":"a","type":"ttl","ttl_ms":0}"#, "type ttl needs a ttl_ms"),
        (r#"{"path":"a","ttl_ms":5}"#, "ttl_ms is only valid with type ttl"),
    ] {
        let error = Record::from_line(line).unwrap_err();
        assert!(error.contains(fault) && !error.contains('\n'), "{line}: {error}");
    }
}

#[test]
fn hidden_digests_are_recognised() {
    let with = |scheme: &str, id: &str| vec![Acl { perms: Perms::ALL, id: Id::new(scheme, id) }];
    assert!(has_hidden_digest(&with("digest", "ann:x")));
    assert!(!has_hidden_digest(&with("digest", "ann:eJ+hash=")));
    assert!(!has_hidden_digest(&with("sasl", "ann:x")));
}
