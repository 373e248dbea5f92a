//! `herdsman inspect compare`: what differs between two snapshots, or two data directories.
//!
//! In: two files or directories; of a directory, the state that a server would start with. Out:
//! znodes that only one side has, znodes whose data, stat or ACL differ, and counts. Apache:
//! `SnapshotComparer`, which compares sizes of subtrees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use herdsman_proto::{Acl, StatPersisted, Zxid, path};
use herdsman_store::RealDisk;
use herdsman_store::recover::load;
use herdsman_tree::{Dump, Tree};
use serde::Serialize;
use serde_json::json;

use super::snapshot_view::stat_json;
use crate::console::{Console, Outcome};
use crate::counts::shown_path;
use crate::location::Location;
use crate::show::{DataShown, acl_texts, clean, data_text, time_text};
use crate::snapshot_file::LoadedSnapshot;
use crate::verify::data_dir::load_options;

const STEP_NODES: usize = 4096;

/// Compare two snapshots, or two data directories, znode by znode.
#[derive(Args, Debug)]
pub(super) struct CompareArguments {
    /// A snapshot, or a data directory.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another one.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Only this znode and its descendants.
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Only print the counts.
    #[arg(long)]
    brief: bool,
    /// Print one JSON object per line; the last one has the counts.
    #[arg(long)]
    json: bool,
}

/// The compared parts of a znode.
struct ZnodeContent {
    data: Option<Box<[u8]>>,
    stat: StatPersisted,
    acl: Arc<Vec<String>>,
}

/// One of the two sides.
struct Side {
    name: String,
    zxid: Zxid,
    digest: i64,
    nodes: BTreeMap<String, ZnodeContent>,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    equal: u64,
    only_in_a: u64,
    only_in_b: u64,
    data_differs: u64,
    stat_differs: u64,
    acl_differs: u64,
}

impl Counts {
    fn is_equal(&self) -> bool {
        self.only_in_a + self.only_in_b + self.data_differs + self.stat_differs + self.acl_differs
            == 0
    }
}

pub(super) fn execute(arguments: &CompareArguments, console: &mut Console<'_>) -> Result<Outcome> {
    let a = Side::read(&arguments.a, arguments.path.as_deref(), console)?;
    let b = Side::read(&arguments.b, arguments.path.as_deref(), console)?;
    if !arguments.json {
        for (mark, side) in [("a", &a), ("b", &b)] {
            let Side { name, zxid, digest, nodes } = side;
            let nodes = nodes.len();
            console.print(format_args!(
                "{mark}: {name}, txn {zxid}, {nodes} znodes, digest {digest}"
            ))?;
        }
    }
    let mut counts = Counts::default();
    let paths: BTreeSet<&String> = a.nodes.keys().chain(b.nodes.keys()).collect();
    for path in paths {
        let difference = Difference::between(path, a.nodes.get(path), b.nodes.get(path));
        difference.count(&mut counts);
        if !arguments.brief && !difference.is_none() {
            difference.print(arguments.json, console)?;
        }
    }
    print_counts(&counts, arguments.json, console)?;
    Ok(if counts.is_equal() { Outcome::Sound } else { Outcome::Problems })
}

fn print_counts(counts: &Counts, json: bool, console: &mut Console<'_>) -> Result<()> {
    if json {
        return console.print_json(&json!({ "equal": counts.is_equal(), "counts": counts }));
    }
    if counts.is_equal() {
        return console.print(format_args!("equal: {} znodes", counts.equal));
    }
    console.print(format_args!(
        "{} equal, {} only in a, {} only in b; {} differ in data, {} in stat, {} in ACL",
        counts.equal,
        counts.only_in_a,
        counts.only_in_b,
        counts.data_differs,
        counts.stat_differs,
        counts.acl_differs
    ))
}

impl Side {
    fn read(path: &Path, prefix: Option<&str>, console: &mut Console<'_>) -> Result<Self> {
        let name = path.display().to_string();
        let tree = if path.is_dir() {
            let location = Location::find(path)?;
            if location.missing_log()?.is_some() {
                console.note(format_args!(
                    "{}: the txn log is missing or ends before the newest snapshot, so this may be an old state. If the server has a dataLogDir, compare a file written by herdsman backup",
                    path.display()
                ));
            }
            load(&RealDisk, &location.dirs, &load_options(), &mut |_| {})
                .with_context(|| format!("cannot load {name}"))?
                .0
                .tree
        } else {
            LoadedSnapshot::load(path, &mut |_| {})?.tree
        };
        let nodes = collect(&tree, prefix);
        Ok(Side { name, zxid: tree.last_zxid(), digest: tree.digest(), nodes })
    }
}

fn collect(tree: &Tree, prefix: Option<&str>) -> BTreeMap<String, ZnodeContent> {
    let mut dump = Dump::start(tree);
    let text = |acl: &Arc<[Acl]>| Arc::new(acl_texts(acl));
    let acls: HashMap<i64, Arc<Vec<String>>> =
        dump.acls().iter().map(|(key, acl)| (*key, text(acl))).collect();
    let open = Arc::new(vec!["world:anyone:cdrwa".to_owned()]);
    let is_wanted = |path: &str| {
        prefix.is_none_or(|prefix| prefix == path::ROOT || path::is_prefix(prefix, path))
    };
    let mut nodes = BTreeMap::new();
    while dump.step(tree, STEP_NODES, &mut |path, data, acl_key, stat| {
        if is_wanted(path) {
            let acl = acls.get(&acl_key).unwrap_or(&open).clone();
            let held = ZnodeContent { data: data.map(Box::from), stat: *stat, acl };
            nodes.insert(shown_path(path), held);
        }
    }) {}
    nodes
}

/// The difference of a znode between the sides.
enum Difference<'a> {
    None,
    OnlyInA(&'a str),
    OnlyInB(&'a str),
    Both {
        path: &'a str,
        a: &'a ZnodeContent,
        b: &'a ZnodeContent,
        data: bool,
        stat: bool,
        acl: bool,
    },
}

impl<'a> Difference<'a> {
    fn between(path: &'a str, a: Option<&'a ZnodeContent>, b: Option<&'a ZnodeContent>) -> Self {
        match (a, b) {
            (Some(a), Some(b)) => {
                let (data, stat, acl) = (a.data != b.data, a.stat != b.stat, a.acl != b.acl);
                if data || stat || acl {
                    Difference::Both { path, a, b, data, stat, acl }
                } else {
                    Difference::None
                }
            }
            (Some(_), None) => Difference::OnlyInA(path),
            _ => Difference::OnlyInB(path),
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Difference::None)
    }

    fn count(&self, counts: &mut Counts) {
        match self {
            Difference::None => counts.equal += 1,
            Difference::OnlyInA(_) => counts.only_in_a += 1,
            Difference::OnlyInB(_) => counts.only_in_b += 1,
            Difference::Both { data, stat, acl, .. } => {
                counts.data_differs += u64::from(*data);
                counts.stat_differs += u64::from(*stat);
                counts.acl_differs += u64::from(*acl);
            }
        }
    }

    fn print(&self, json: bool, console: &mut Console<'_>) -> Result<()> {
        match self {
            Difference::None => Ok(()),
            Difference::OnlyInA(path) if json => {
                console.print_json(&json!({"path": path, "only_in": "a"}))
            }
            Difference::OnlyInB(path) if json => {
                console.print_json(&json!({"path": path, "only_in": "b"}))
            }
            Difference::OnlyInA(path) => console.print(format_args!("only in a  {}", clean(path))),
            Difference::OnlyInB(path) => console.print(format_args!("only in b  {}", clean(path))),
            Difference::Both { path, a, b, data, stat, acl } if json => {
                let kinds = [("data", data), ("stat", stat), ("acl", acl)];
                let differs: Vec<&str> =
                    kinds.iter().filter(|(_, is)| **is).map(|(name, _)| *name).collect();
                console.print_json(&json!({
                    "path": path, "differs": differs, "a": held_json(a), "b": held_json(b),
                }))
            }
            Difference::Both { path, a, b, data, stat, acl } => {
                console.print(format_args!("differs    {}", clean(path)))?;
                let mut lines = Vec::new();
                if *data {
                    let [a, b] =
                        [a, b].map(|held| data_text(held.data.as_deref(), DataShown::Preview));
                    lines.push(format!("data {a} -> {b}"));
                }
                if *stat {
                    lines.extend(stat_differences(&a.stat, &b.stat));
                }
                if *acl {
                    lines.push(format!("acl {} -> {}", a.acl.join(","), b.acl.join(",")));
                }
                lines.iter().try_for_each(|line| console.print(format_args!("             {line}")))
            }
        }
    }
}

fn held_json(held: &ZnodeContent) -> serde_json::Value {
    json!({
        "data": crate::show::DataJson::of(held.data.as_deref(), DataShown::Preview),
        "stat": stat_json(&held.stat),
        "acl": *held.acl,
    })
}

/// The fields of two stats that differ.
fn stat_differences(a: &StatPersisted, b: &StatPersisted) -> Vec<String> {
    let fields = |stat: &StatPersisted| {
        [
            ("czxid", stat.czxid.to_string()),
            ("mzxid", stat.mzxid.to_string()),
            ("pzxid", stat.pzxid.to_string()),
            ("ctime", time_text(stat.ctime)),
            ("mtime", time_text(stat.mtime)),
            ("version", stat.version.to_string()),
            ("cversion", stat.cversion.to_string()),
            ("aversion", stat.aversion.to_string()),
            ("owner", format!("{:#x}", stat.ephemeral_owner)),
        ]
    };
    let pairs = fields(a).into_iter().zip(fields(b));
    pairs
        .filter(|((_, a), (_, b))| a != b)
        .map(|((name, a), (_, b))| format!("{name} {a} -> {b}"))
        .collect()
}
