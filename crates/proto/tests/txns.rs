//! Txn payloads, byte by byte as the record classes of Apache ZooKeeper 3.9.5 write them.

use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Data, Entry};
use herdsman_proto::{Acl, DecodeError, Perms, SessionId, Txn, TxnDigest, TxnHeader, Zxid};

/// Session 0x1234, cxid 7, zxid 0x500000009, time 1700000000000; the type follows.
const HEADER: &str = "0000000000001234 00000007 0000000500000009 0000018bcfe56800";
const DIGEST: &str = "00000002 0000001122334455";
/// `/a`
const PATH: &str = "00000002 2f61";
/// `xy`
const DATA: &str = "00000002 7879";
/// world:anyone:31, once
const ACL: &str = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65";

fn hex(pieces: &[&str]) -> Vec<u8> {
    let digits: String = pieces.concat().chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn entry(txn: Txn, with_digest: bool) -> Entry {
    let digest = TxnDigest { version: 2, tree_digest: 0x11_2233_4455 };
    Entry {
        header: TxnHeader {
            session: SessionId(0x1234),
            cxid: 7,
            zxid: Zxid(0x5_0000_0009),
            time_ms: 1_700_000_000_000,
        },
        txn,
        digest: with_digest.then_some(digest),
    }
}

/// Both ways, with the digest behind it and without.
fn check(txn: &Txn, op: &str, body: &[&str]) {
    for (with_digest, digest) in [(true, DIGEST), (false, "")] {
        let entry = entry(txn.clone(), with_digest);
        let bytes = hex(&[HEADER, op, &body.concat(), digest]);
        let mut encoded = Vec::new();
        entry.encode(&mut encoded);
        assert_eq!(encoded, bytes, "{txn:?}");
        assert_eq!(Entry::decode(&bytes), Ok(entry));
    }
}

fn data() -> Data {
    Some(Arc::from(*b"xy"))
}

fn create(kind: CreateKind, data: Data, parent_cversion: i32) -> Txn {
    let acl = vec![Acl::world(Perms::ALL)];
    Txn::Create(CreateTxn { kind, path: "/a".into(), data, acl, parent_cversion })
}

#[test]
fn creates() {
    let plain = |ephemeral, with_stat| CreateKind::Plain { ephemeral, with_stat };
    check(&create(plain(true, false), data(), 5), "00000001", &[PATH, DATA, ACL, "01 00000005"]);
    check(
        &create(plain(false, true), None, 5),
        "0000000f",
        &[PATH, "ffffffff", ACL, "00 00000005"],
    );
    check(&create(CreateKind::Container, data(), 5), "00000013", &[PATH, DATA, ACL, "00000005"]);
    let ttl = create(CreateKind::Ttl(77), data(), 5);
    check(&ttl, "00000015", &[PATH, DATA, ACL, "00000005 000000000000004d"]);
}

/// Servers before 3.4 did not write the parent's cversion.
#[test]
fn a_create_of_an_old_server_has_no_parent_cversion() {
    let bytes = hex(&[HEADER, "00000001", PATH, DATA, ACL, "00"]);
    let kind = CreateKind::Plain { ephemeral: false, with_stat: false };
    assert_eq!(Entry::decode(&bytes), Ok(entry(create(kind, data(), -1), false)));
}

#[test]
fn changes() {
    let path: Box<str> = "/a".into();
    let delete = |container| Txn::Delete { path: path.clone(), container };
    check(&delete(false), "00000002", &[PATH]);
    check(&delete(true), "00000014", &[PATH]);
    let set = Txn::SetData { path: path.clone(), data: data(), version: 3, reconfig: false };
    check(&set, "00000005", &[PATH, DATA, "00000003"]);
    let reconfig = Txn::SetData {
        path: "/zookeeper/config".into(),
        data: data(),
        version: -1,
        reconfig: true,
    };
    let config = "00000011 2f7a6f6f6b65657065722f636f6e666967";
    check(&reconfig, "00000010", &[config, DATA, "ffffffff"]);
    let set_acl = Txn::SetAcl { path, acl: vec![Acl::world(Perms::ALL)], version: 3 };
    check(&set_acl, "00000007", &[PATH, ACL, "00000003"]);
}

#[test]
fn sessions_and_errors() {
    check(&Txn::CreateSession { timeout_ms: 4000 }, "fffffff6", &["00000fa0"]);
    let close = |paths: &[&str]| Txn::CloseSession {
        ephemerals: Some(paths.iter().map(|&path| path.into()).collect()),
    };
    check(&close(&["/a", "/b"]), "fffffff5", &["00000002", PATH, "00000002 2f62"]);
    check(&close(&[]), "fffffff5", &["00000000"]);
    check(&Txn::Error(-101), "ffffffff", &["ffffff9b"]);
}

/// Servers before 3.6 wrote nothing, so a digest may stand where the list would be.
#[test]
fn a_close_of_an_old_server_has_no_list() {
    check(&Txn::CloseSession { ephemerals: None }, "fffffff5", &[]);
}

#[test]
fn multis() {
    let multi = Txn::Multi(vec![
        Txn::Delete { path: "/a".into(), container: false },
        Txn::Check { path: "/b".into(), version: 4 },
        Txn::Error(-2),
    ]);
    let delete = ["00000002 00000006", PATH].concat();
    let check_version = "0000000d 0000000a 00000002 2f62 00000004";
    let error = "ffffffff 00000004 fffffffe";
    check(&multi, "0000000e", &["00000003", &delete, check_version, error]);
    check(&Txn::Multi(Vec::new()), "0000000e", &["00000000"]);
}

#[test]
fn what_is_no_txn_is_refused() {
    let decode = |pieces: &[&str]| Entry::decode(&hex(&[&[HEADER], pieces].concat()));
    let undefined = |what, value| Err(DecodeError::Undefined { what, value });
    assert_eq!(decode(&["00000004", PATH, "00"]), undefined("txn type", 4));
    assert_eq!(decode(&["00000063"]), undefined("txn type", 99));
    assert_eq!(decode(&["00000002", PATH, "00"]), Err(DecodeError::Trailing(1)));
    assert_eq!(decode(&["00000002", PATH, DIGEST, "00"]), Err(DecodeError::Trailing(13)));
    let inner = "00000001 0000000e 00000004 00000000";
    assert_eq!(decode(&["0000000e", inner]), undefined("multi txn type", 14));
    assert!(decode(&["0000000e", "7fffffff"]).is_err());
    assert!(decode(&["00000002", "7fffffff"]).is_err());
}
