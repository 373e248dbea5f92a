//! Clicks through the console of a live ensemble in a real browser; see README.md.
//!
//! In: where Chromium's driver is and where to keep pictures. Out: one line for each check, exit code 0
//! if all of them passed. The ensemble, the driver and the browser end with this process.

mod browser;
mod checks;
mod driver;
mod people;
mod stage;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

use crate::stage::Stage;

#[derive(Parser)]
struct Arguments {
    /// The driver of the browser.
    #[arg(long, default_value = "chromedriver")]
    driver: PathBuf,
    /// Where pictures are kept.
    #[arg(long, default_value = "target/console-screenshots")]
    screenshots: PathBuf,
    /// Only checks whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.screenshots)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Servers are started and stopped outside of the runtime: that blocks.
    let mut stage = Stage::start()?;
    let driver = runtime.block_on(driver::Driver::start(&arguments.driver))?;
    let result =
        checks::run(&runtime, &mut stage, &driver, &arguments.screenshots, &arguments.only);
    runtime.block_on(driver.stop());
    result
}
