//! Servers fail while a page is open: the page says so, keeps unsaved text, and recovers by itself.

use anyhow::Result;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::writing::enter_user;
use crate::browser::Browser;
use crate::test_servers::TestServers;

/// Kills and restarts servers. `home` is the one whose console is open.
pub fn run(
    runtime: &Runtime,
    test_servers: &mut TestServers,
    browser: &Browser,
    home: usize,
) -> Result<()> {
    let follower = test_servers.other_follower(home)?;
    runtime.block_on(open_ensemble(browser))?;
    test_servers.kill(follower);
    runtime.block_on(see_one_down(browser, follower))?;

    let leader = (1..=3).find(|id| *id != home && *id != follower).unwrap_or(home);
    runtime.block_on(begin_to_type(browser))?;
    test_servers.kill(leader);
    runtime.block_on(see_not_serving(browser))?;
    test_servers.revive(follower);
    runtime.block_on(see_serving_again(browser))?;
    test_servers.revive(leader);

    test_servers.close_admin(home);
    runtime.block_on(see_no_answer(browser))?;
    test_servers.open_admin(home)?;
    runtime.block_on(see_serving_again(browser))?;
    runtime.block_on(see_elections(browser))
}

async fn open_ensemble(browser: &Browser) -> Result<()> {
    browser.open("#/ensemble").await?;
    browser.wait_count(".member", 3).await?;
    browser.wait_gone(".member-down").await
}

async fn see_one_down(browser: &Browser, id: usize) -> Result<()> {
    browser.wait_text(&format!(".member-down[data-member='{id}']"), "unreachable").await?;
    browser.wait_text(".notice-warn", "1 member of 3 cannot be reached").await?;
    browser.picture("ensemble-member-down").await
}

async fn begin_to_type(browser: &Browser) -> Result<()> {
    browser.open("#/browse/app/motd").await?;
    enter_user(browser).await?;
    browser.click("dialog button[type=submit]").await?;
    browser.click("#tab-data").await?;
    browser.wait_for(".editor-area:not([readonly])").await?;
    browser.fill(".editor-area", "typed during a failure").await
}

async fn see_not_serving(browser: &Browser) -> Result<()> {
    browser.wait_text("#banner", "no leader").await?;
    browser.picture("not-serving").await?;
    expect_typed(browser).await
}

async fn see_serving_again(browser: &Browser) -> Result<()> {
    browser.wait_gone("#banner").await?;
    expect_typed(browser).await?;
    browser.wait_text("#live", "Live").await
}

async fn see_no_answer(browser: &Browser) -> Result<()> {
    browser.wait_text("#banner", "does not respond").await?;
    browser.picture("no-answer").await?;
    expect_typed(browser).await
}

async fn see_elections(browser: &Browser) -> Result<()> {
    browser.click("#revert").await?;
    browser.open("#/ensemble").await?;
    browser
        .wait(
            "more than one election",
            "document.querySelectorAll('#elections tbody tr').length > 1",
        )
        .await?;
    browser.script("document.querySelector('#elections').scrollIntoView()", Value::Null).await?;
    browser.picture("elections").await
}

async fn expect_typed(browser: &Browser) -> Result<()> {
    browser.wait_editor("typed during a failure").await
}
