//! Kinds of create: ops and flags, what is stored, sequence numbers.

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{SessionId, StatPersisted, Txn, TxnHeader, Zxid};
use herdsman_tree::{Dump, Loader, Overlay, Tree, TreeOptions};

use crate::scripts::options;
use crate::words;
use crate::world::{USERS, World};

/// The kind of txn and the stored owner, or the error.
fn check(line: &str, kind: &str, owner: i64) {
    let mut world = World::new(options(true), &[]);
    let (entry, outcome) = world.write(USERS[0], line, &mut herdsman_tree::Events::new());
    let Txn::Create(CreateTxn { kind: found, path, .. }) = &entry.txn else {
        assert_eq!(crate::world::outcome(&outcome), kind, "{line}");
        return;
    };
    let text = match found {
        CreateKind::Plain { ephemeral, with_stat } => {
            format!("plain ephemeral={ephemeral} stat={with_stat}")
        }
        CreateKind::Container => "container".to_owned(),
        CreateKind::Ttl(ttl) => format!("ttl {ttl}"),
    };
    assert_eq!(text, kind, "{line}");
    let nodes = crate::properties::nodes(&world.tree);
    assert_eq!(nodes[&**path].stat.ephemeral_owner, owner, "{line}");
}

const NO_STAT: &str = "plain ephemeral=false stat=false";
const EPHEMERAL: &str = "plain ephemeral=true stat=false";
const WITH_STAT: &str = "plain ephemeral=false stat=true";
const CONTAINER: i64 = i64::MIN;

#[test]
fn the_op_decides_the_txn_and_the_flags_the_rest() {
    let me = USERS[0].session.0;
    check("create /a flags=0", NO_STAT, 0);
    check("create /a flags=1", EPHEMERAL, me);
    check("create /a flags=2", NO_STAT, 0);
    check("create /a flags=3", EPHEMERAL, me);
    check("create /a flags=4", NO_STAT, 0);
    check("create /a flags=5", "BadArguments", 0);
    check("create /a flags=7", "BadArguments", 0);
    check("create /a flags=-1", "BadArguments", 0);
    check("create2 /a flags=0", WITH_STAT, 0);
    check("create2 /a flags=1", "plain ephemeral=true stat=true", me);
    check("createContainer /a", "container", CONTAINER);
    check("createContainer /a flags=1", "container", CONTAINER);
    check("createContainer /a flags=5", "BadArguments", 0);
    let ttl = 0xff00_0000_0000_0000_u64 as i64 | 77;
    check("createTTL /a ttl=77", "ttl 77", ttl);
    check("createTTL /a flags=6 ttl=77", "ttl 77", ttl);
    check("createTTL /a flags=0 ttl=77", "BadArguments", 0);
    check("createTTL /a flags=0 ttl=-1", "BadArguments", 0);
}

/// Neither kind of owner is visible to clients, and both kinds of znodes may have children.
#[test]
fn containers_and_ttl_znodes_have_no_visible_owner() {
    let mut world = World::new(options(true), &["createContainer /c", "createTTL /t"]);
    assert_eq!(world.run("exists /c"), "c1 m1 p1 v0 cv0 av0 len0 kids0");
    assert_eq!(world.run("exists /t"), "c2 m2 p2 v0 cv0 av0 len0 kids0");
    assert_eq!(world.run("create /c/kid"), "/c/kid");
    assert_eq!(world.run("create /t/kid"), "/t/kid");
    assert_eq!(world.run("create2 /e '' flags=1"), "/e c5 m5 p5 v0 cv0 av0 len0 kids0 owner0x11");
}

/// The number is the parent's count of creations; deletions do not decrease it.
#[test]
fn sequence_numbers_count_creations() {
    let mut world = World::new(TreeOptions::default(), &["create /q", "create /q/x"]);
    assert_eq!(world.run("create /q/n- '' flags=2"), "/q/n-0000000001");
    assert_eq!(world.run("delete /q/n-0000000001"), "deleted");
    assert_eq!(world.run("create /q/n- '' flags=3"), "/q/n-0000000002");
    assert_eq!(world.run("create /q/x '' flags=2"), "/q/x0000000003");
    assert_eq!(world.run("exists /q"), "c1 m1 p6 v0 cv5 av0 len0 kids3");
}

/// Returns a tree with `/q`, whose count of creations is the given one.
fn tree_with_count(cversion: i32) -> Tree {
    let mut loader = Loader::new(TreeOptions::default());
    let stat = StatPersisted::default();
    loader.node("", Some(&[]), -1, stat).expect("the root comes first");
    loader.node("/q", None, -1, StatPersisted { cversion, ..stat }).expect("its parent exists");
    loader.finish(Zxid(1)).expect("a whole tree")
}

#[test]
fn sequence_numbers_continue_below_zero() {
    let check = |cversion, expected: &[&str]| {
        let mut tree = tree_with_count(cversion);
        let mut overlay = Overlay::new(0);
        let mut log: Vec<Entry> = Vec::new();
        for (i, path) in expected.iter().enumerate() {
            let zxid = Zxid(2 + i as i64);
            let header = TxnHeader { session: SessionId(1), cxid: 0, zxid, time_ms: 0 };
            let caller =
                herdsman_tree::Caller { ids: &[], refused: None, ephemerals_refused: None };
            let request = words::write("create /q/n flags=2");
            let entry = overlay.prepare(&tree, header, caller, &request);
            // The next one is prepared before this one is applied, and each is applied twice.
            if let Some(entry) = log.last() {
                tree.replay(entry);
                tree.replay(entry);
                overlay.applied(entry.header.zxid);
            }
            let Txn::Create(create) = &entry.txn else { panic!("{:?}", entry.txn) };
            assert_eq!(&*create.path, *path);
            log.push(entry);
        }
    };
    check(9_999_999, &["/q/n0009999999", "/q/n0010000000"]);
    check(
        i32::MAX - 1,
        &["/q/n2147483646", "/q/n2147483647", "/q/n-2147483648", "/q/n-2147483647"],
    );
    check(-11, &["/q/n-000000011", "/q/n-000000010", "/q/n-000000009"]);
}

/// The CRC of large data is kept, so it must be that of the data and path that a znode has now.
#[test]
fn the_digest_of_a_znode_with_large_data_is_that_of_a_new_tree() {
    let (large, larger) = ("x".repeat(4096), "y".repeat(10_000));
    let mut world = World::new(TreeOptions::default(), &[&format!("create /a {large}")]);
    let check = |world: &World| {
        let mut dump = Dump::start(&world.tree);
        let mut loader = Loader::new(TreeOptions::default());
        dump.acls().iter().for_each(|(key, acl)| loader.acl(*key, acl.to_vec()));
        dump.step(&world.tree, 100, &mut |path, data, acl, stat| {
            loader.node(path, data, acl, *stat).unwrap();
        });
        let digest = loader.finish(dump.zxid()).unwrap().digest();
        assert_eq!(world.tree.digest(), digest);
    };
    let small_again = format!("multi create /a/k ; set /a {large} ; set /a 12 ; delete /a/k");
    let lines = [
        "create /a/b 12".to_owned(),
        format!("set /a {larger}"),
        "create /a/c 12".to_owned(),
        format!("multi create /a/d 1 ; set /a {large} ; delete /a/b ; create /a/e {larger}"),
        "create /a/e/f".to_owned(),
        format!("multi set /a {larger} ; create /a/g ; delete /a/none"),
        "delete /a/e/f".to_owned(),
        small_again,
        "create /a/h".to_owned(),
        format!("set / {large}"),
        "delete /a/h".to_owned(),
        "create /i".to_owned(),
    ];
    for line in &lines {
        world.run(line);
        check(&world);
    }
}
