//! The ensemble's members: `config` and `reconfig`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use herdsman_client::Node;
use herdsman_proto::membership::{Member, TEXT_BYTES_MAX};
use herdsman_proto::path::CONFIG;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::{printable_lines, stat_json, stat_lines};
use crate::shell::Shell;
use crate::watches::WatchKind;

/// Print the members of the ensemble.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  config        a line for each server, and the version
  config -c     the version and the connect string for clients
  config -w     also report the next change")]
pub(crate) struct Config {
    /// Print a connect string for clients instead.
    #[arg(short = 'c')]
    clients: bool,
    /// Watch the members: report their next change.
    #[arg(short = 'w')]
    watch: bool,
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
}

impl Run for Config {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let root = shell.connection()?.root().clone();
        let node = match self.watch {
            true => {
                let (node, watch) = root.get(CONFIG).watch().await?;
                shell.watches.keep(CONFIG, WatchKind::Data, watch)?;
                node
            }
            false => root.config().await?,
        };
        let text = String::from_utf8_lossy(&node.data);
        let text = match self.clients {
            true => client_string(&text),
            false => text.into_owned(),
        };
        say(shell, "config", &text, &node, self.stat)
    }
}

/// Change the members of the ensemble.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  reconfig -add server.4=zk4:2888:3888;2181     add server 4, or change it
  reconfig -remove 3,4                          remove servers
  reconfig -file members.cfg                    a complete new list, as `server.N=…` lines
  reconfig -members server.1=…,server.2=…       the same, on the command line
  reconfig -v 100000005 -remove 3               only if the configuration has this version
Needs `reconfigEnabled=true` on the servers, and the right to write /zookeeper/config.")]
#[command(group = ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct Reconfig {
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
    /// Change it only if the configuration has this version, in hexadecimal.
    #[arg(short = 'v', value_name = "VERSION", value_parser = hexadecimal)]
    version: Option<i64>,
    /// A file with the complete new list.
    #[arg(long, group = "change", value_name = "FILE", conflicts_with_all = ["members", "add", "remove"])]
    file: Option<PathBuf>,
    /// The complete new list: `server.1=host:port1:port2;port3,…`.
    #[arg(long, group = "change", value_name = "MEMBERS", conflicts_with_all = ["add", "remove"])]
    members: Option<String>,
    /// Servers to add or change: `server.4=host:port1:port2;port3,…`.
    #[arg(long, group = "change", value_name = "SERVERS")]
    add: Vec<String>,
    /// Ids of servers to remove: `3,4`.
    #[arg(long, group = "change", value_name = "IDS", value_delimiter = ',')]
    remove: Vec<i64>,
}

impl Run for Reconfig {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let members = match &self.file {
            Some(file) => Some(members_of_file(file)?),
            None => self.members,
        };
        let mut call = shell.connection()?.root().reconfig().members(members);
        for server in self.add {
            call = call.join(server);
        }
        for id in self.remove {
            call = call.leave(id);
        }
        if let Some(version) = self.version {
            call = call.from_version(version);
        }
        let node = call.await?;
        let text = String::from_utf8_lossy(&node.data).into_owned();
        if !shell.output.is_json() {
            shell.output.say("Committed new configuration:")?;
        }
        say(shell, "config", &text, &node, self.stat)
    }
}

fn say(
    shell: &mut Shell,
    name: &str,
    text: &str,
    node: &Node,
    with_stat: bool,
) -> Result<(), Failure> {
    if shell.output.is_json() {
        let mut answer = json!({});
        answer[name] = text.into();
        if with_stat {
            answer["stat"] = stat_json(&node.stat);
        }
        return shell.output.json(&answer);
    }
    shell.output.say(printable_lines(text))?;
    match with_stat {
        true => shell.output.say(stat_lines(&node.stat)),
        false => Ok(()),
    }
}

/// `version host:port,host:port`, as zkCli prints it. Apache: `ConfigUtils.getClientConfigStr`.
fn client_string(config: &str) -> String {
    let lines = config.lines().filter_map(|line| line.split_once('='));
    let mut version = "";
    let mut clients = Vec::new();
    for (key, value) in lines {
        match key.trim() {
            "version" => version = value.trim(),
            key if key.starts_with("server.") => {
                let client = Member::parse(value.trim()).ok().and_then(|member| member.client);
                clients.extend(client.map(|client| {
                    format!("{}:{}", client.host.as_deref().unwrap_or("0.0.0.0"), client.port)
                }));
            }
            _ => {}
        }
    }
    format!("{version} {}", clients.join(","))
}

/// Reads the `server.N`, `group.N` and `weight.N` lines of a file in the form of a request.
fn members_of_file(file: &PathBuf) -> Result<String, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::failed(format!("reading {shown}: {error}")))?;
    let is_member = |line: &&str| {
        ["server.", "group.", "weight."].iter().any(|prefix| line.starts_with(prefix))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_member).collect();
    if lines.is_empty() || text.len() > TEXT_BYTES_MAX {
        let text = format!("{shown} has no `server.N=…` lines, or is too large for a member list");
        return Err(Failure::failed(text));
    }
    Ok(lines.join(","))
}

fn hexadecimal(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    i64::from_str_radix(digits, 16)
        .map_err(|_| "a version in hexadecimal, as `config` prints it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connect_string_has_every_server_with_a_client_port() {
        let config = "server.1=a:1:2:participant;10.0.0.1:2181\nserver.2=b:1:2:observer\n\
                      server.3=c:1:2;2183\nversion=100000003";
        assert_eq!(client_string(config), "100000003 10.0.0.1:2181,0.0.0.0:2183");
        assert_eq!(client_string(""), " ");
    }

    #[test]
    fn versions_are_hexadecimal() {
        assert_eq!(hexadecimal("100000003"), Ok(0x1_0000_0003));
        assert_eq!(hexadecimal("0xa"), Ok(10));
        assert!(hexadecimal("x").is_err());
    }
}
