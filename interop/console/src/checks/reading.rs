//! Browsing without logging in: the tree, a znode, searching.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Scene;
use crate::population::{HOSTILE_DATA, HOSTILE_NAME};

pub async fn the_root_lists_its_children(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("").await?;
    for name in ["app", "big", "locks", "services", "zookeeper"] {
        browser.wait_text(".tree-row .tree-name", name).await?;
        browser.wait_text(".children-panel tbody a", name).await?;
    }
    browser.wait_text("#server-state", "follower").await?;
    browser.wait_text("#live", "Live").await?;
    browser.picture("browse-root").await
}

pub async fn a_znode_shows_json_facts_and_owner(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse").await?;
    browser.click("[data-key='/app'] .tree-name").await?;
    browser.click(".children-panel tr[data-name='config'] a").await?;
    browser.wait_text(".node-name", "config").await?;
    browser
        .wait("JSON", "document.querySelector('.editor-area').value.includes('  \"replicas\": 3')")
        .await?;
    ensure!(browser.editor().await?.contains("12345678901234567890"), "a number was rounded");
    browser.wait_text(".details", "Modified").await?;
    browser.wait_text(".details", "world:anyone cdrwa").await?;
    browser
        .wait(
            "the row to be selected",
            "document.querySelector('[data-key=\"/app/config\"][aria-selected=\"true\"]')",
        )
        .await?;
    browser.picture("browse-json").await?;
    browser.open("#/browse/app/presence").await?;
    browser.wait_text(".node-name .chip", "ephemeral").await?;
    browser.click(".details a[href^='#/sessions/0x']").await?;
    browser.wait_text(".session-detail .path-list", "/app/presence").await
}

pub async fn data_is_shown_as_text_json_and_hex(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/bytes").await?;
    browser.wait_editor("00 01 02").await?;
    browser.wait_text(".editor-side", "000010").await?;
    browser.picture("browse-hex").await?;
    browser.click(".segments .segment:nth-child(1)").await?;
    browser.wait_text(".invalid", "only hex").await?;
    browser.open("#/browse/app/motd").await?;
    browser.wait_editor("Good morning").await?;
    browser.click(".segments .segment:nth-child(3)").await?;
    browser.wait_editor("47 6f 6f 64").await?;
    browser.click(".segments .segment:nth-child(1)").await?;
    browser.wait_editor("Good").await
}

pub async fn hostile_names_and_data_are_only_text(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/hostile").await?;
    browser.wait_text(".children-panel tbody a", HOSTILE_NAME).await?;
    browser.click(".children-panel tbody a").await?;
    browser.wait_text(".node-name", HOSTILE_NAME).await?;
    browser.wait_editor("<script>").await?;
    ensure!(browser.editor().await? == HOSTILE_DATA, "the data is not shown as it is");
    browser.wait_text(".tree-name", HOSTILE_NAME).await?;
    browser.picture("browse-hostile").await?;
    let hacked = browser.script("return window.hacked ?? null", Value::Null).await?;
    ensure!(hacked.is_null(), "a script from a znode ran");
    let count = "return document.querySelectorAll('img').length";
    ensure!(browser.script(count, Value::Null).await? == 1, "an element was created from a znode");
    Ok(())
}

pub async fn a_hundred_thousand_children_stay_quick(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/big").await?;
    browser.wait_text(".children-panel [role=status]", "100,000 children").await?;
    browser.click("[data-key='/big'] .twist").await?;
    browser.wait_text(".tree-name", "item-000010").await?;
    browser.fill("#filter", "099999").await?;
    browser.wait_text(".children-panel [role=status]", "1 of 100,000 children").await?;
    browser.picture("browse-big").await?;
    let rows = "return document.querySelectorAll('.tree-row').length";
    let drawn = browser.script(rows, Value::Null).await?.as_u64().unwrap_or(0);
    ensure!((10..200).contains(&drawn), "{drawn} rows of the tree are elements");
    let scroll = "document.querySelector('.tree').scrollTop = 1e7";
    browser.script(scroll, Value::Null).await?;
    browser.script("window.end = document.querySelector('.tree').scrollTop", Value::Null).await?;
    browser
        .wait("more rows", "document.querySelector('.tree').scrollHeight > window.end + 10000")
        .await?;
    browser.click(".children-panel tbody a").await?;
    browser.wait_text(".node-name", "item-099999").await?;
    browser.wait_text(".tree-row[aria-selected=true]", "item-099999").await
}

pub async fn search_finds_names_and_data(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse").await?;
    browser.click("#open-palette").await?;
    browser.fill("#palette-box", "gate is open").await?;
    browser.wait_text(".result", "/app/motd").await?;
    browser.wait_text(".palette-status", "znodes searched").await?;
    browser.picture("search").await?;
    browser.fill("#palette-box", "feature-fl").await?;
    browser.wait_text(".result", "/app/feature-flags").await?;
    browser.press("\u{e007}").await?;
    browser.wait_text(".node-name", "feature-flags").await?;
    browser.click("#open-palette").await?;
    browser.fill("#palette-box", "/app/mo").await?;
    browser.wait_text(".result[aria-selected=true]", "/app/motd").await?;
    browser.press("\u{e007}").await?;
    browser.wait_text(".node-name", "motd").await
}

pub async fn missing_znodes_and_sessions_are_reported(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/no/such/znode").await?;
    browser.wait_text(".node-state .empty", "This znode does not exist").await?;
    browser.wait_text(".node-state a", "Go to /no/such").await?;
    browser.open("#/sessions/0x1").await?;
    browser.wait_text(".session-detail", "This session has ended").await
}
