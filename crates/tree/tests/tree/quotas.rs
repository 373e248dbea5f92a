//! Quotas: totals that are kept next to the limits, and hard limits that reject writes.

use herdsman_tree::{Dump, Loader, Tree, TreeOptions};

use crate::world::World;

fn enforcing() -> TreeOptions {
    TreeOptions { enforce_quota: true, ..TreeOptions::default() }
}

/// A tree with `/app` and one child, five bytes in total, under the given limits.
fn world(options: TreeOptions, limits: &str) -> World {
    let limits = format!("create /zookeeper/quota/app/zookeeper_limits {limits}");
    let setup = [
        "create /app 12",
        "create /app/kid 345",
        "create /zookeeper/quota/app",
        &limits,
        "create /zookeeper/quota/app/zookeeper_stats count=0,bytes=0",
    ];
    World::new(options, &setup)
}

fn totals(tree: &Tree, limited: &str) -> (i64, i64) {
    let (_, used) = tree.quota(limited).expect("it is limited");
    (used.count, used.bytes)
}

#[test]
fn totals_follow_every_change() {
    let mut world = world(TreeOptions::default(), "count=1,bytes=1");
    assert_eq!(totals(&world.tree, "/app"), (2, 5));
    let mut check = |line: &str, count, bytes| {
        world.run(line);
        assert_eq!(totals(&world.tree, "/app"), (count, bytes), "{line}");
    };
    check("create /app/new 6789", 3, 9);
    check("create /app/kid/deep '' flags=3", 4, 9);
    check("set /app/new -", 4, 5);
    check("set /app 123", 4, 6);
    check("create /apple 123", 4, 6);
    check("multi create /app/x 1 ; create /app/x", 4, 6);
    check("multi create /app/x 1 ; set /app/x 123", 5, 9);
    check("delete /app/x", 4, 6);
    check("close", 3, 6);
}

/// The reply to the create has the stat of the data that was sent; counting replaces it afterwards.
#[test]
fn the_stat_of_new_totals_is_from_before_the_count() {
    let setup = ["create /app 12", "create /zookeeper/quota/app"];
    let mut world = World::new(TreeOptions::default(), &setup);
    let made = world.run("create2 /zookeeper/quota/app/zookeeper_stats x");
    assert!(made.contains("len1 "), "{made}");
    let filled = world.run("get /zookeeper/quota/app/zookeeper_stats");
    assert!(filled.starts_with("count=1,bytes=2 "), "{filled}");
}

/// The text is Apache's, and changing it fires no watch and changes no version.
#[test]
fn totals_are_text_in_a_znode() {
    let mut world = world(TreeOptions::default(), "count=1,bytes=1");
    let stats = "/zookeeper/quota/app/zookeeper_stats";
    let digest = world.tree.digest();
    assert_eq!(
        world.run(&format!("get {stats} watch")),
        "count=2,bytes=5 c5 m5 p5 v0 cv0 av0 len15 kids0"
    );
    let (_, events) = world.run_watched("create /app/x 1");
    assert_eq!(events, Vec::<String>::new());
    assert_eq!(
        world.run(&format!("get {stats}")),
        "count=3,bytes=6 c5 m5 p5 v0 cv0 av0 len15 kids0"
    );
    assert_ne!(world.tree.digest(), digest);
    assert!(world.tree.limited_paths().eq(["/app"]));
}

#[test]
fn only_the_nearest_quota_counts() {
    let mut world = world(TreeOptions::default(), "count=1,bytes=1");
    for line in [
        "create /zookeeper/quota/app/kid",
        "create /zookeeper/quota/app/kid/zookeeper_limits count=1",
        "create /zookeeper/quota/app/kid/zookeeper_stats count=0",
        "create /app/kid/x 12345",
    ] {
        world.run(line);
    }
    assert_eq!(totals(&world.tree, "/app"), (2, 5));
    assert_eq!(totals(&world.tree, "/app/kid"), (2, 8));
    world.run("delete /zookeeper/quota/app/kid/zookeeper_limits");
    world.run("create /app/kid/y 1");
    assert_eq!(totals(&world.tree, "/app"), (3, 6));
}

fn check(options: TreeOptions, limits: &str, line: &str, expected: &str) {
    let answer = world(options, limits).run(line);
    assert_eq!(answer, expected, "{line} with {limits}");
}

#[test]
fn hard_limits_reject_writes_if_enforced() {
    let hard = "count=-1,bytes=-1=;byteHardLimit=7;countHardLimit=3";
    check(enforcing(), hard, "create /app/x 12", "/app/x");
    check(enforcing(), hard, "create /app/x 123", "QuotaExceeded");
    check(enforcing(), hard, "multi create /app/x ; delete /app/no", "[undone, NoNode]");
    check(enforcing(), hard, "set /app/kid 12345", "c2 m6 p2 v1 cv0 av0 len5 kids0");
    check(enforcing(), hard, "set /app/kid 123456", "QuotaExceeded");
    check(enforcing(), hard, "set /app/kid 123456 v=9", "QuotaExceeded");
    check(enforcing(), hard, "set /app/kid 1 v=9", "BadVersion");
    check(enforcing(), hard, "create /apple 123456789", "/apple");
    check(TreeOptions::default(), hard, "create /app/x 123456789", "/app/x");
    check(enforcing(), "countHardLimit=2", "create /app/x", "QuotaExceeded");
    check(enforcing(), "countHardLimit=2", "set /app 123456789", "c1 m6 p2 v1 cv1 av0 len9 kids1");
    // The whole new total is checked, so a write that frees too little is rejected as well.
    check(enforcing(), "byteHardLimit=0", "set /app -", "QuotaExceeded");
}

#[test]
fn soft_limits_reject_nothing() {
    check(enforcing(), "count=1,bytes=1", "create /app/x 123", "/app/x");
    check(enforcing(), "count=1,bytes=1,countHardLimit=9", "create /app/x 123", "/app/x");
}

/// After a snapshot is loaded, the totals are counted again.
#[test]
fn totals_are_counted_when_a_snapshot_is_loaded() {
    let source = world(TreeOptions::default(), "count=1,bytes=1").tree;
    let mut dump = Dump::start(&source);
    let mut loader = Loader::new(TreeOptions::default());
    dump.acls().iter().for_each(|(key, acl)| loader.acl(*key, acl.to_vec()));
    dump.step(&source, 100, &mut |path, data, acl, stat| {
        let data = if path.ends_with("_stats") { Some(&b"count=99,bytes=99"[..]) } else { data };
        loader.node(path, data, acl, *stat).unwrap();
    });
    let tree = loader.finish(dump.zxid()).unwrap();
    assert_eq!(totals(&tree, "/app"), (2, 5));
    assert!(tree.limited_paths().eq(["/app"]));
}
