//! Tests the console of a running ensemble in a real browser; see README.md.
//!
//! In: the path of Chromium's driver and the directory for screenshots. Out: one line for each check, exit code 0
//! if all of them passed. The ensemble, the driver and the browser end with this process.

mod browser;
mod checks;
mod driver;
mod population;
mod test_servers;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

use crate::test_servers::TestServers;

#[derive(Parser)]
struct Arguments {
    /// The driver of the browser.
    #[arg(long, default_value = "chromedriver")]
    driver: PathBuf,
    /// The directory for screenshots.
    #[arg(long, default_value = "target/console-screenshots")]
    screenshots: PathBuf,
    /// Run only checks whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.screenshots)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Servers are started and stopped outside of the runtime: that blocks.
    let mut test_servers = TestServers::start()?;
    let driver = runtime.block_on(driver::Driver::start(&arguments.driver))?;
    let result =
        checks::run(&runtime, &mut test_servers, &driver, &arguments.screenshots, &arguments.only);
    runtime.block_on(driver.stop());
    result
}
