//! `du`: where the znodes and the bytes are.

use clap::{ArgAction, Args};

use super::Run;
use super::subtree_failure::SystemFlag;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::du::Scales;
use crate::subtree::{Fetch, Visit, Walk, WalkOptions, human};

/// Count znodes and bytes of each subtree, the heaviest first.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  du /app              /app and each of its children
  du / -d 3 --top 10   the ten heaviest subtrees of the upper three levels
Bytes are those of the data, without paths, ACLs and stats."
)]
pub(crate) struct Du {
    /// The root of the subtree.
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// Levels below the root to list; all are counted.
    #[arg(short = 'd', long, value_name = "LEVELS", default_value_t = 1)]
    depth: usize,
    /// Only the heaviest.
    #[arg(long, value_name = "COUNT")]
    top: Option<usize>,
    /// Sizes as 1.5 KiB.
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
        let mut scales = Scales::new(self.depth, self.top);
        let mut unreadable = 0_u64;
        while let Some(visit) = walk.next().await? {
            match visit {
                Visit::Znode(znode) => {
                    let bytes = u64::try_from(znode.stat.data_length).unwrap_or(0);
                    scales.add(&znode.place, bytes);
                }
                Visit::Unreadable(place) => {
                    unreadable += 1;
                    scales.add(&place, 0);
                }
            }
        }
        let weights = scales.finish();
        for weight in &weights {
            if shell.output.is_json() {
                shell.output.json(weight)?;
                continue;
            }
            let bytes = match self.human_readable {
                true => human::size(weight.bytes),
                false => weight.bytes.to_string(),
            };
            let path = printable(&weight.path);
            shell.output.say(format!("{bytes:>12} {:>10}  {path}", weight.znodes))?;
        }
        if unreadable > 0 {
            let unreadable = human::count(unreadable, "znode");
            shell.output.note(format!("{unreadable} could not be read, and count without data"));
        }
        Ok(())
    }
}
