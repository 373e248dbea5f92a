//! The echo server of `--echo`: this program started again as a separate process, so that it competes for the cores
//! like a real server.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::target::Target;

/// A running echo server. It ends when this is dropped, and also when this process dies, because its standard input
/// then ends.
pub(crate) struct SpawnedEcho {
    child: Child,
    address: SocketAddr,
}

impl SpawnedEcho {
    pub(crate) fn start(value_bytes: usize, children: u32) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program for --echo")?;
        let mut child = Command::new(program)
            .args(["bench", "echo-server", "--port", "0"])
            .args(["--value-bytes", &value_bytes.to_string()])
            .args(["--children", &children.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C at the terminal must reach only this process, which stops the other one.
            .process_group(0)
            .spawn()
            .context("starting the echo server")?;
        let port = read_port(&mut child);
        let mut echo = SpawnedEcho { child, address: (Ipv4Addr::LOCALHOST, 0).into() };
        echo.address.set_port(port?);
        Ok(echo)
    }

    pub(crate) fn target(&self) -> Target {
        Target::echo(self.address)
    }
}

fn read_port(child: &mut Child) -> Result<u16> {
    let output = child.stdout.take().context("the echo server has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("reading the echo server's port")?;
    line.trim()
        .strip_prefix("port ")
        .and_then(|port| port.parse().ok())
        .with_context(|| format!("the echo server did not start: it printed {line:?}"))
}

impl Drop for SpawnedEcho {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It may have ended already; in any case it must be waited for, so that it does not remain a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
