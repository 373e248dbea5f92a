//! Changes by other clients appear without reloading, which a mark on the window proves.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Scene;
use crate::browser::Browser;

async fn mark(browser: &Browser) -> Result<()> {
    browser.wait_text("#live", "Live").await?;
    browser.script("window.marked = true", Value::Null).await?;
    Ok(())
}

async fn expect_mark(browser: &Browser) -> Result<()> {
    let marked = browser.script("return window.marked ?? false", Value::Null).await?;
    ensure!(marked == true, "the page was reloaded");
    Ok(())
}

pub async fn a_change_appears_without_reloading(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/live").await?;
    browser.click("#tab-data").await?;
    browser.wait_editor("before").await?;
    mark(browser).await?;
    scene.tree.0.set("/app/live", "after").await?;
    browser.wait_editor("after").await?;
    browser.wait_text(".fresh-mark", "changed just now").await?;
    browser.picture_now("live-change").await?;
    expect_mark(browser).await
}

pub async fn a_change_keeps_typed_text(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/live").await?;
    browser.wait_editor("after").await?;
    mark(browser).await?;
    browser.fill(".editor-area", "not yet saved").await?;
    scene.tree.0.set("/app/live", "by another client").await?;
    browser.wait_text(".notice-warn", "What you typed is kept").await?;
    ensure!(browser.editor().await? == "not yet saved", "the typed text is lost");
    browser.click("#revert").await?;
    browser.wait_editor("by another client").await?;
    expect_mark(browser).await
}

pub async fn children_appear_and_disappear_in_the_tree(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app").await?;
    browser.click("#tab-children").await?;
    browser.wait_for("[data-key='/app']").await?;
    browser.click_if_there("[data-key='/app'][aria-expanded=false] .twist").await?;
    browser.wait_text(".tree-name", "motd").await?;
    mark(browser).await?;
    scene.tree.0.create("/app/aaa-visitor", "hi").await?;
    browser.wait_text(".tree-name", "aaa-visitor").await?;
    browser.wait_text(".children-panel a", "aaa-visitor").await?;
    scene.tree.0.create("/app/aaa-visitor/child", "hi").await?;
    browser
        .wait(
            "it can be opened",
            "document.querySelector('[data-key=\"/app/aaa-visitor\"][aria-expanded]')",
        )
        .await?;
    scene.tree.0.delete("/app/aaa-visitor").recursive().await?;
    browser.wait_gone("[data-key='/app/aaa-visitor']").await?;
    browser.wait_gone(".children-panel tr[data-name='aaa-visitor']").await?;
    expect_mark(browser).await
}
