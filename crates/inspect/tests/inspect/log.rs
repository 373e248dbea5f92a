//! `inspect log`.

use std::fs;

use crate::harness::{Copy, fixtures, run};

/// Session, cxid, zxid and type of each txn, from Apache's own rendering.
fn apaches(text: &str) -> Vec<(String, String, String, String)> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let at =
            words.windows(2).position(|pair| pair[0] == "session" && pair[1].starts_with("0x"))?;
        let rest = &words[at..];
        (rest.get(2) == Some(&"cxid") && rest.get(4) == Some(&"zxid")).then_some(())?;
        let word = |index: usize| rest.get(index).map(|word| (*word).to_owned());
        // Its toolkit and its other tools spell one of them differently.
        Some((word(1)?, word(3)?, word(5)?, word(6)?.replace("createTtl", "createTTL")))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn every_txn_is_printed_as_apache_prints_it() {
    for variant in fixtures() {
        let mut expected = apaches(&fs::read_to_string(variant.join("txns.txt")).unwrap());
        // A request that could not be decoded is not a txn.
        expected.dedup_by(|next, last| next.2 == last.2);
        let ran = run(&["inspect", "log", variant.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, 0, "{}", variant.display());
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let printed: Vec<_> = ran
            .json()
            .iter()
            .filter(|line| line.get("zxid").is_some())
            .map(|line| {
                let cxid = format!("{:#x}", line["cxid"].as_i64().unwrap());
                (text(&line["session"]), cxid, text(&line["zxid"]), text(&line["type"]))
            })
            .collect();
        assert!(expected.len() > 10, "{}", variant.display());
        assert_eq!(printed, expected, "{}", variant.display());
    }
}

/// Apache logs a request that it cannot decode with the zxid of the txn before: neither a gap nor a step back.
#[test]
fn undecodable_requests_are_mentioned() {
    let copy = Copy::of("apache-3.9.5/undecodable");
    run(&["inspect", "log", copy.text()])
        .expect(0, &["a request that could not be decoded, with the zxid of txn 0x4"]);
    run(&["inspect", "log", copy.text(), "--verify"])
        .expect(0, &["3 records with the zxid of the txn before", "Harmless"]);
    run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(0, &["as of txn 0xb", "sound"]);
}

#[test]
fn text_shows_binary_data_safely_and_the_parts_of_a_multi() {
    let copy = Copy::of("apache-3.9.5/plain");
    let ran = run(&["inspect", "log", copy.text()]).expect(
        0,
        &[
            "createSession timeout=40000ms",
            "create /app \"first life\" acl=world:anyone:cdrwa parent_cversion=1  digest=",
            "/app/größe-数据-ночь \"ünïcødé\"",
            "failed as a whole",
            "multi of 0",
            " - check /app",
            "ephemeral acl=",
            "xxx\"… (3000 bytes)",
        ],
    );
    let is_odd = |symbol: char| symbol.is_control() && symbol != '\n';
    assert!(!ran.out.contains(is_odd));
}

#[test]
fn filters_narrow_what_is_shown() {
    let copy = Copy::of("apache-3.9.5/plain");
    let count = |more: &[&str]| {
        let ran = run(&[&["inspect", "log", copy.text(), "--json"], more].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json().len()
    };
    assert_eq!(count(&["--from", "0x3", "--to", "0x7"]), 5);
    assert_eq!(count(&["--tail", "4"]), 4);
    assert_eq!(count(&["--from", "0x3", "--tail", "2", "--to", "5"]), 2);
    assert_eq!(count(&["--since", "2200-01-01"]), 0);
    assert_eq!(count(&["--until", "2000-01-01T00:00:00Z"]), 0);
    assert_eq!(count(&["--since", "2000-01-01"]), count(&[]));
    let (all, app, deep) =
        (count(&[]), count(&["--path", "/app"]), count(&["--path", "/app/deep"]));
    assert!(all > app && app > deep && deep > 0, "{all} {app} {deep}");
    assert_eq!(count(&["--path", "/ap"]), 0);
    let (creates, both) = (count(&["--type", "create2"]), count(&["--type", "create2,setdata"]));
    assert!(both > creates && creates > 0, "{creates} {both}");
    let first = run(&["inspect", "log", copy.text(), "--json", "--to", "1"]).json();
    let session = first[0]["session"].as_str().unwrap();
    assert!(count(&["--session", session]) > 10);
}

#[test]
fn whole_data_is_shown_when_asked_for() {
    let copy = Copy::of("apache-3.9.5/plain");
    let arguments = ["inspect", "log", copy.text(), "--json", "--path", "/app/large"];
    let preview = &run(&arguments).json()[0]["data"];
    assert_eq!((preview["bytes"].as_u64(), preview["cut"].as_bool()), (Some(3000), Some(true)));
    let whole = &run(&[&arguments[..], &["--data"]].concat()).json()[0]["data"];
    assert_eq!(whole["text"].as_str().map(str::len), Some(3000));
    assert_eq!(whole.get("cut"), None);
    let binary =
        &run(&["inspect", "log", copy.text(), "--json", "--path", "/app/binary"]).json()[0];
    assert!(binary["data"]["base64"].is_string(), "{binary}");
}

#[test]
fn reading_goes_on_behind_damage() {
    let copy = Copy::of("apache-3.9.5/plain");
    let offsets = copy.offsets("log.1");
    copy.flip("log.1", offsets[&0x10] + 40);
    let file = copy.file_text("log.1");
    let ran =
        run(&["inspect", "log", &file]).expect(1, &["checksum is wrong", "txn 0x11 at offset"]);
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("0x")).count(), offsets.len() - 1);
    let ran = run(&["inspect", "log", &file, "--json"]);
    assert!(ran.json().iter().any(|line| line.get("damage").is_some()));
    run(&["inspect", "log", &file, "--verify"]).expect(
        1,
        &[
            "PROBLEM  log.1: damaged at offset",
            "txns are missing between 0xf and 0x11",
            "2 problems found",
        ],
    );
}

#[test]
fn a_zeroed_hole_is_damage_and_a_torn_tail_is_not() {
    let copy = Copy::of("apache-3.9.5/plain");
    let offsets = copy.offsets("log.1");
    copy.write("log.1", offsets[&0x20], &vec![0; (offsets[&0x22] - offsets[&0x20]) as usize]);
    let file = copy.file_text("log.1");
    run(&["inspect", "log", &file, "--verify"])
        .expect(1, &["gap of zeros", "txns are missing between 0x1f and 0x22"]);
    let last = *copy.offsets("log.55").last_key_value().unwrap().1;
    copy.cut("log.55", last + 30);
    let file = copy.file_text("log.55");
    run(&["inspect", "log", &file]).expect(0, &["bytes of a write that was never completed"]);
    run(&["inspect", "log", &file, "--verify"]).expect(0, &["torn at offset", "sound"]);
}

#[test]
fn a_damaged_header_does_not_hide_the_txns() {
    let copy = Copy::of("apache-3.9.5/plain");
    let offsets = copy.offsets("log.1");
    copy.flip("log.1", 6);
    let ran = run(&["inspect", "log", &copy.file_text("log.1")])
        .expect(1, &["does not start with a txn log's header"]);
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("0x")).count(), offsets.len());
}

#[test]
fn a_misnamed_log_is_noticed() {
    let copy = Copy::of("apache-3.9.5/plain");
    fs::rename(copy.file("log.55"), copy.file("log.57")).unwrap();
    run(&["inspect", "log", &copy.file_text("log.57"), "--verify"])
        .expect(1, &["is named by 0x57, but its first txn is 0x55"]);
}

#[test]
fn what_cannot_be_read_is_said_in_a_line() {
    let copy = Copy::of("apache-3.9.5/plain");
    let check = |arguments: &[&str], piece: &str| {
        let ran = run(arguments).expect(2, &[piece]);
        assert!(ran.out.is_empty() || ran.out.starts_with("zxid"), "{ran:?}");
    };
    check(&["inspect", "log", "/nowhere/log.1"], "/nowhere/log.1");
    check(&["inspect", "log", &copy.file_text("snapshot.54")], "is not a txn log");
    fs::write(copy.file("text"), "a text file that is long enough to be looked at\n").unwrap();
    check(&["inspect", "log", &copy.file_text("text")], "is not a txn log");
    fs::create_dir(copy.path().join("empty")).unwrap();
    check(&["inspect", "log", copy.path().join("empty").to_str().unwrap()], "has no txn logs");
    check(&["inspect", "log"], "required");
    check(&["inspect", "log", copy.text(), "--from", "x"], "a zxid such as");
    check(&["inspect", "log", copy.text(), "--since", "x"], "a time such as");
    check(&["inspect", "log", copy.text(), "--type", "x"], "one of create");
    check(&["inspect", "log", copy.text(), "--verify", "--tail", "3"], "cannot be used with");
}

#[test]
fn no_bit_that_turns_over_goes_unseen() {
    let copy = Copy::of("apache-3.9.5/plain");
    let file = copy.file_text("log.55");
    let whole = fs::read(copy.file("log.55")).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for offset in (0..8).chain(16..=used) {
        let mut flipped = whole.clone();
        flipped[offset] ^= 1 << (offset % 8);
        fs::write(copy.file("log.55"), flipped).unwrap();
        let ran = run(&["inspect", "log", &file, "--verify"]);
        assert_ne!(ran.code, 0, "offset {offset}: {ran:?}");
    }
}

/// Apache reads on silently after a file that ends too early, or a record whose length or end mark is zero.
#[test]
fn holes_that_apache_passes_over_are_reported() {
    // The last records of a file are gone, and the next file begins after them.
    let between = Copy::of("apache-3.9.5/plain");
    between.cut("log.1", between.offsets("log.1")[&0x50]);
    // A length field of zeros inside of a file, and an end mark.
    let length = Copy::of("apache-3.9.5/plain");
    length.write("log.55", length.offsets("log.55")[&0x60] + 8, &[0; 4]);
    let mark = Copy::of("apache-3.9.5/plain");
    mark.write("log.55", mark.offsets("log.55")[&0x61] - 1, &[0]);
    for (copy, gap) in
        [(&between, "0x4f and 0x55"), (&length, "0x5f and 0x61"), (&mark, "0x5f and 0x61")]
    {
        let missing = format!("txns are missing between {gap}");
        let dir = copy.text();
        run(&["inspect", "log", dir]).expect(1, &[&missing]);
        run(&["inspect", "log", dir, "--json"]).expect(1, &[&missing, "\"gap\""]);
        run(&["inspect", "log", dir, "--verify"]).expect(1, &["PROBLEM"]);
    }
    // Snapshot 0x54 covers the first one.
    run(&["inspect", "data-dir", between.text(), "--verify"]).expect(
        0,
        &["note     replay: txns are missing between 0x4f and 0x55; snapshot 0x54 covers"],
    );
    run(&["inspect", "data-dir", length.text(), "--verify"])
        .expect(1, &["PROBLEM", "txns are missing between 0x5f and 0x61"]);
    run(&["inspect", "log", Copy::of("apache-3.9.5/plain").text()]).expect(0, &[]);
}

/// Zxids do not show what is missing right before a new epoch; digests do.
#[test]
fn new_epochs_are_pointed_out() {
    let copy = Copy::of("apache-3.9.5/plain");
    run(&["inspect", "log", copy.text(), "--verify"]).expect(0, &["digests"]);
    let bytes = fs::read(copy.file("log.55")).unwrap();
    // The last txn again, as the first one of epoch 1.
    let last = usize::try_from(copy.offsets("log.55")[&0x71]).unwrap();
    let mut payload = bytes[last + 12..].to_vec();
    let length =
        u32::from_be_bytes([bytes[last + 8], bytes[last + 9], bytes[last + 10], bytes[last + 11]]);
    payload.truncate(length as usize);
    payload[12..20].copy_from_slice(&(1i64 << 32 | 1).to_be_bytes());
    let mut log = herdsman_store::log::HEADER.to_vec();
    herdsman_store::log::encode_record(&payload, &mut log);
    fs::write(copy.file("log.100000001"), log).unwrap();
    run(&["inspect", "log", copy.text(), "--verify"])
        .expect(0, &["note     epochs: zxids do not show whether txns are missing"]);
}
