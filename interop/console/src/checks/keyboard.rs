//! Use without a mouse.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Scene;

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const TAB: &str = "\u{e004}";
const LEFT: &str = "\u{e012}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";
const CONTROL_K: &str = "\u{e009}k";
const CONTROL_S: &str = "\u{e009}s";
const FOCUSED: &str = "document.activeElement.dataset.key";

pub async fn shortcuts_are_listed_and_work(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse").await?;
    browser.wait_text(".tree-name", "app").await?;
    browser.press("?").await?;
    browser.wait_text("dialog .shortcuts", "Go to a path, or search").await?;
    browser.picture("keyboard").await?;
    browser.press(ESCAPE).await?;
    browser.wait_gone("dialog").await?;
    browser.press("ge").await?;
    browser.wait_text("h1", "Ensemble").await?;
    browser.press("gs").await?;
    browser.wait_text("h1", "Sessions").await?;
    browser.press(CONTROL_K).await?;
    browser.find("#palette-box").await?;
    browser.press("/app").await?;
    browser.wait_text(".result[aria-selected=true]", "/app").await?;
    browser.press(ENTER).await?;
    browser.wait_text(".node-name", "app").await
}

pub async fn the_tree_is_walked_with_arrows(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse").await?;
    browser.wait_text(".tree-name", "app").await?;
    browser
        .wait(
            "one row in the Tab order",
            "document.querySelectorAll('.tree-row[tabindex=\"0\"]').length === 1",
        )
        .await?;
    browser
        .script("document.querySelector('.tree-row[tabindex=\"0\"]').focus()", Value::Null)
        .await?;
    browser.press(DOWN).await?;
    browser.wait("the first child", &format!("{FOCUSED} === '/app'")).await?;
    browser
        .script(
            "document.querySelector('[data-key=\"/app\"][aria-expanded=\"true\"] .twist')?.click()",
            Value::Null,
        )
        .await?;
    browser.press(RIGHT).await?;
    browser.wait("it is open", "document.activeElement.ariaExpanded === 'true'").await?;
    browser.wait_for("[data-key='/app/bytes']").await?;
    browser.press(RIGHT).await?;
    browser.wait("a child", &format!("{FOCUSED} === '/app/bytes'")).await?;
    browser.press(ENTER).await?;
    browser.wait_text(".node-name", "bytes").await?;
    browser.press(LEFT).await?;
    browser.wait("the parent", &format!("{FOCUSED} === '/app'")).await?;
    browser.press(LEFT).await?;
    browser.wait("it is closed", "document.activeElement.ariaExpanded === 'false'").await
}

pub async fn a_znode_is_edited_without_a_mouse(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    scene.tree.0.create("/app/by-keyboard", "x").await?;
    browser.open("#/browse/app/by-keyboard").await?;
    browser.click("#tab-data").await?;
    browser.wait_editor("x").await?;
    browser.focus("#tab-data").await?;
    for _ in 0..8 {
        browser.press(TAB).await?;
        let inside =
            browser.script("return document.activeElement.matches('.editor-area')", Value::Null);
        if inside.await? == true {
            break;
        }
    }
    browser.press("yz").await?;
    browser
        .wait("it is typed", "document.querySelector('.editor-area').value.includes('yz')")
        .await?;
    browser.press(CONTROL_S).await?;
    browser.wait_text(".toast", "Saved as version 1").await?;
    let saved = scene.tree.text("/app/by-keyboard").await?;
    ensure!(saved.contains("yz"), "{saved}");
    Ok(())
}
