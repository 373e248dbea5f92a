//! `du`: counts znodes and bytes by subtree.

use clap::{ArgAction, Args};

use super::Run;
use super::subtree_failure::SystemFlag;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::du::SubtreeSizes;
use crate::subtree::{Fetch, Visit, Walk, WalkOptions, human};

/// Count znodes and bytes of each subtree, the largest first.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  du /app              /app and each of its children
  du / -d 3 --top 10   the ten largest subtrees of the upper three levels
Only data counts as bytes, not paths, ACLs and stats."
)]
pub(crate) struct Du {
    /// The root of the subtree.
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// List this many levels below the root; all levels are counted.
    #[arg(short = 'd', long, value_name = "LEVELS", default_value_t = 1)]
    depth: usize,
    /// List only this many, the largest.
    #[arg(long, value_name = "COUNT")]
    top: Option<usize>,
    /// Print sizes with units, as 1.5 KiB.
    #[arg(short = 'h', long)]
    human_readable: bool,
    #[command(flatten)]
    system: SystemFlag,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl Run for Du {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let system = self.system.system();
        let options = WalkOptions { fetch: Fetch::Stat, depth_max: None, system };
        let mut walk = Walk::new(shell.client()?, &self.path, options);
        let mut subtree_sizes = SubtreeSizes::new(self.depth, self.top);
        let mut unreadable = 0_u64;
        while let Some(visit) = walk.next().await? {
            match visit {
                Visit::Znode(znode) => {
                    let bytes = u64::try_from(znode.stat.data_length).unwrap_or(0);
                    subtree_sizes.add(&znode.position, bytes);
                }
                Visit::Unreadable(position) => {
                    unreadable += 1;
                    subtree_sizes.add(&position, 0);
                }
            }
        }
        let sizes = subtree_sizes.finish();
        for size in &sizes {
            if shell.output.is_json() {
                shell.output.json(size)?;
                continue;
            }
            let bytes = match self.human_readable {
                true => human::size(size.bytes),
                false => size.bytes.to_string(),
            };
            let path = printable(&size.path);
            shell.output.say(format!("{bytes:>12} {:>10}  {path}", size.znodes))?;
        }
        if unreadable > 0 {
            let unreadable = human::count(unreadable, "znode");
            shell.output.note(format!("{unreadable} could not be read and count without data"));
        }
        Ok(())
    }
}
