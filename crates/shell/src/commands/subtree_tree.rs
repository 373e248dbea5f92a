//! `tree`: draws a subtree.

use clap::Args;
use serde_json::{Map, Value, json};

use super::Run;
use super::subtree_failure::SystemFlag;
use crate::failure::Failure;
use crate::format::{Encoding, data_json, printable};
use crate::output::Tint;
use crate::shell::Shell;
use crate::subtree::lifetime::NodeType;
use crate::subtree::tree::Branches;
use crate::subtree::walk::Position;
use crate::subtree::watch::preview;
use crate::subtree::{Fetch, Visit, Walk, WalkOptions, Znode, human, path};

/// Draw a subtree.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tree                     everything except /zookeeper
  tree /app -d 2 -s        two levels, with sizes
  tree /app --data         with the beginning of the data
Ephemerals are shown with their session. Servers do not tell clients which znodes are containers or \
have a time to live.")]
pub(crate) struct Tree {
    /// The root of the subtree.
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// Draw this many levels below the root.
    #[arg(short = 'd', long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Show the size of the data.
    #[arg(short = 's', long)]
    sizes: bool,
    /// Show the beginning of the data.
    #[arg(long)]
    data: bool,
    /// Draw at most this many lines; 0 for all.
    #[arg(long, value_name = "LINES", default_value_t = 1000)]
    max: u64,
    #[command(flatten)]
    system: SystemFlag,
}

#[derive(Default)]
struct Totals {
    znodes: u64,
    bytes: u64,
    ephemerals: u64,
    unreadable: u64,
}

impl Run for Tree {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let options = WalkOptions {
            fetch: if self.data { Fetch::Data } else { Fetch::Stat },
            depth_max: self.depth,
            system: self.system.system(),
        };
        let mut walk = Walk::new(shell.client()?, &self.path, options);
        let mut branches = Branches::default();
        let mut totals = Totals::default();
        let mut is_cut = false;
        while let Some(visit) = walk.next().await? {
            if self.max > 0 && totals.znodes + totals.unreadable >= self.max {
                is_cut = true;
                break;
            }
            self.show(shell, &visit, &mut branches)?;
            totals.add(&visit);
        }
        self.show_end(shell, &totals, is_cut)
    }
}

impl Tree {
    fn show(
        &self,
        shell: &mut Shell,
        visit: &Visit,
        branches: &mut Branches,
    ) -> Result<(), Failure> {
        if shell.output.is_json() {
            return shell.output.json(&self.as_json(visit));
        }
        let style = shell.output.style();
        let line = match visit {
            Visit::Unreadable(position) => {
                let mark = style.paint(Tint::Bad, "(not readable)");
                format!("{}{} {mark}", branches.before(position), shown_name(position))
            }
            Visit::Znode(znode) => {
                let has_children = znode.stat.num_children > 0;
                let name = shown_name(&znode.position);
                let name = if has_children { style.paint(Tint::Name, name) } else { name };
                let marks = self.marks(znode);
                let marks = if marks.is_empty() { marks } else { style.paint(Tint::Faint, marks) };
                format!("{}{name}{marks}", branches.before(&znode.position))
            }
        };
        shell.output.say(line)
    }

    fn marks(&self, znode: &Znode) -> String {
        let mut marks = String::new();
        if NodeType::of(&znode.stat) == NodeType::Ephemeral {
            marks += &format!("  [ephemeral {}]", human::hex(znode.stat.ephemeral_owner));
        }
        if self.sizes {
            marks += &format!("  {}", human::size(bytes_of(znode)));
        }
        if self.depth == Some(znode.position.depth) && znode.stat.num_children > 0 {
            marks += &format!("  (+{} below)", znode.stat.num_children);
        }
        if self.data && !znode.data.is_empty() {
            marks += &format!("  {}", preview(&znode.data));
        }
        marks
    }

    fn as_json(&self, visit: &Visit) -> Value {
        match visit {
            Visit::Unreadable(Position { path, depth, .. }) => {
                json!({"path": path, "depth": depth, "readable": false})
            }
            Visit::Znode(znode) => {
                let mut object = Map::new();
                object.insert("path".to_owned(), znode.position.path.as_str().into());
                object.insert("depth".to_owned(), znode.position.depth.into());
                object.insert("type".to_owned(), NodeType::of(&znode.stat).name().into());
                object.insert("bytes".to_owned(), bytes_of(znode).into());
                object.insert("children".to_owned(), znode.stat.num_children.into());
                if self.data {
                    data_json(&mut object, &znode.data, Encoding::Text);
                }
                Value::Object(object)
            }
        }
    }

    fn show_end(&self, shell: &mut Shell, totals: &Totals, is_cut: bool) -> Result<(), Failure> {
        let Totals { znodes, bytes, ephemerals, unreadable } = totals;
        if shell.output.is_json() {
            let totals = json!({
                "znodes": znodes, "bytes": bytes, "ephemerals": ephemerals,
                "unreadable": unreadable, "cut": is_cut,
            });
            return shell.output.json(&json!({ "total": totals }));
        }
        if is_cut {
            let max = self.max;
            shell.output.say(format!("… truncated; --max {} shows more lines", max * 10))?;
        }
        let mut line = format!("{}, {}", human::count(*znodes, "znode"), human::size(*bytes));
        if *ephemerals > 0 {
            line += &format!(", {}", human::count(*ephemerals, "ephemeral"));
        }
        if *unreadable > 0 {
            line += &format!(", {unreadable} not readable");
        }
        shell.output.say("")?;
        shell.output.say(line)
    }
}

impl Totals {
    fn add(&mut self, visit: &Visit) {
        match visit {
            Visit::Unreadable(_) => self.unreadable += 1,
            Visit::Znode(znode) => {
                self.znodes += 1;
                self.bytes += bytes_of(znode);
                self.ephemerals += u64::from(znode.stat.ephemeral_owner != 0);
            }
        }
    }
}

fn bytes_of(znode: &Znode) -> u64 {
    u64::try_from(znode.stat.data_length).unwrap_or(0)
}

/// The full path of the root, the name of any other znode.
fn shown_name(position: &Position) -> String {
    let shown =
        if position.depth == 0 { position.path.as_str() } else { path::name(&position.path) };
    printable(shown).into_owned()
}
