//! Logging in, and everything that changes the tree. The page is compared with what an ordinary client
//! reads afterwards.

use anyhow::{Result, ensure};
use herdsman_client::{Acl, Perms};
use serde_json::Value;

use super::Scene;
use crate::browser::Browser;

pub async fn without_logging_in_nothing_can_be_changed(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/motd").await?;
    browser.wait_text(".node-state", "log in to make changes").await?;
    for control in ["#create-child", "#delete", "#save"] {
        let button = browser.find(control).await?;
        ensure!(button.attr("aria-disabled").await?.as_deref() == Some("true"), "{control}");
        ensure!(button.attr("title").await?.is_some_and(|t| t.contains("log in")), "{control}");
    }
    browser
        .wait("the editor to be locked", "document.querySelector('.editor-area').readOnly")
        .await?;
    browser.click("#create-child").await?;
    browser.wait_text(".toast", "log in").await?;
    browser.wait_gone("dialog").await
}

/// Fills the dialog in.
pub async fn enter_user(browser: &Browser) -> Result<()> {
    browser.click("#log-in").await?;
    browser.fill("input[name=user]", "alice").await?;
    browser.fill("input[name=password]", "wonderland").await
}

pub async fn log_in(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/motd").await?;
    enter_user(browser).await?;
    browser.picture("log-in").await?;
    browser.click("dialog button[type=submit]").await?;
    browser.wait_text("#login .who", "alice").await?;
    browser
        .wait(
            "controls to be free",
            "document.querySelector('#create-child').ariaDisabled === 'false'",
        )
        .await?;
    browser.reload().await?;
    browser.wait_text("#login .who", "alice").await
}

pub async fn an_edit_is_saved_in_its_original_form(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    scene.tree.0.create("/app/edited", r#"{"on":false,"n":1}"#).await?;
    browser.open("#/browse/app/edited").await?;
    browser
        .wait(
            "the editor",
            "document.querySelector('.editor-area')?.value.includes('\"on\": false')",
        )
        .await?;
    browser.fill(".editor-area", "{\n  \"on\": true,\n  \"n\": 2\n}").await?;
    browser.wait_text(".data-panel", "Will be saved in one line").await?;
    browser.picture("edit").await?;
    browser.click("#save").await?;
    browser.wait_text(".toast", "Saved as version 1").await?;
    browser.wait_for("#save:disabled").await?;
    scene.tree.expect("/app/edited", r#"{"on":true,"n":2}"#).await
}

pub async fn invalid_json_is_not_saved(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    scene.tree.0.create("/app/invalid", r#"{"a":1}"#).await?;
    browser.open("#/browse/app/invalid").await?;
    browser
        .wait("the editor", "document.querySelector('.editor-area')?.value.includes('\"a\": 1')")
        .await?;
    browser.fill(".editor-area", "{\"a\": }").await?;
    browser.wait_text(".invalid", "Not valid JSON").await?;
    browser.click("#save").await?;
    browser.wait_text(".data-panel .problem", "Switch to Text").await?;
    browser.click("#revert").await?;
    browser
        .wait("the old text", "document.querySelector('.editor-area').value.includes('\"a\": 1')")
        .await?;
    scene.tree.expect("/app/invalid", r#"{"a":1}"#).await
}

pub async fn a_conflict_shows_both_versions_and_offers_a_choice(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    scene.tree.0.create("/app/contested", "one\ntwo\nthree").await?;
    browser.open("#/browse/app/contested").await?;
    browser.wait_editor("one").await?;
    browser.fill(".editor-area", "one\ntwo\nmine").await?;
    scene.tree.0.set("/app/contested", "one\ntwo\ntheirs").await?;
    browser.wait_text(".notice-warn", "Changed on the server").await?;
    browser.click("#save").await?;
    browser.wait_text("dialog .diff-theirs", "theirs").await?;
    browser.wait_text("dialog .diff-mine", "mine").await?;
    browser.picture("conflict").await?;
    browser.click("#keep-mine").await?;
    browser.wait_text(".toast", "Saved as version 2").await?;
    scene.tree.expect("/app/contested", "one\ntwo\nmine").await?;
    browser.fill(".editor-area", "mine again").await?;
    scene.tree.0.set("/app/contested", "theirs again").await?;
    browser.click("#compare").await?;
    browser.click("#take-theirs").await?;
    browser.wait_editor("theirs again").await?;
    browser.wait_gone(".notice-warn").await?;
    scene.tree.expect("/app/contested", "theirs again").await
}

pub async fn a_child_is_created(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app").await?;
    browser.click("#create-child").await?;
    browser.click("#create").await?;
    browser.wait_text("dialog .problem", "Enter a name").await?;
    browser.fill("dialog input[name=name]", "motd").await?;
    browser.click("#create").await?;
    browser.wait_text("dialog .problem", "already").await?;
    browser.fill("dialog input[name=name]", "new/deeper").await?;
    browser.fill("dialog textarea[name=data]", "hello").await?;
    browser.picture("create").await?;
    browser.click("#create").await?;
    browser.wait_text(".node-name", "deeper").await?;
    browser.wait_text(".tree-name", "deeper").await?;
    scene.tree.expect("/app/new/deeper", "hello").await
}

pub async fn a_subtree_is_deleted_after_counting(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/doomed").await?;
    browser.click("#delete").await?;
    browser.wait_text("#delete-count", "This znode and 3 below it").await?;
    ensure!(
        !browser.find("#delete-now").await?.is_enabled().await?,
        "it can be deleted without confirmation"
    );
    browser.fill("dialog input[name=confirm]", "doomed").await?;
    browser.picture("delete").await?;
    browser.click("#delete-now").await?;
    browser.wait_text(".toast", "4 znodes deleted").await?;
    browser.wait_text(".node-name", "app").await?;
    browser.wait_gone("[data-key='/app/doomed']").await?;
    scene.tree.expect_none("/app/doomed").await
}

pub async fn an_acl_is_edited(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    scene.tree.0.create("/app/guarded", "x").await?;
    browser.open("#/browse/app/guarded").await?;
    browser.click("#tab-acl").await?;
    browser.click(".acl-table input[data-perm=w]").await?;
    browser.click("#save-acl").await?;
    browser.wait_text(".toast", "ACL saved").await?;
    let (acl, _) = scene.tree.0.acl("/app/guarded").await?;
    let without_write = Perms(Perms::ALL.0 & !Perms::WRITE.0);
    ensure!(acl == [Acl::world(without_write)], "the ACL is {acl:?}");
    browser.click("#add-entry").await?;
    browser.fill(".acl-table tr:nth-child(2) input[aria-label=Scheme]", "nonesuch").await?;
    browser.fill(".acl-table tr:nth-child(2) input[aria-label=Id]", "someone").await?;
    browser.picture("acl").await?;
    browser.click("#save-acl").await?;
    browser.wait_text(".acl-panel .problem", "ACL").await?;
    browser.click(".acl-table tr:nth-child(2) button").await?;
    browser.wait_for("#save-acl:disabled").await
}

pub async fn leaving_unsaved_text_needs_confirmation(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    scene.tree.0.create("/app/typed", "old").await?;
    browser.open("#/browse/app/typed").await?;
    browser.click("#tab-data").await?;
    browser.wait_editor("old").await?;
    browser.fill(".editor-area", "half a thought").await?;
    browser.click("[data-key='/app/motd'] .tree-name").await?;
    browser.wait_text("dialog", "Leave without saving?").await?;
    browser.click("dialog .dialog-footer button:first-child").await?;
    browser.wait_gone("dialog").await?;
    ensure!(browser.editor().await? == "half a thought", "the typed text is lost");
    browser.wait_text(".node-name", "typed").await?;
    browser.click("[data-key='/app/motd'] .tree-name").await?;
    browser.click("dialog button[type=submit]").await?;
    browser.wait_text(".node-name", "motd").await?;
    scene.tree.expect("/app/typed", "old").await
}

pub async fn log_out(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/motd").await?;
    browser.click("#log-out").await?;
    browser.find("#log-in").await?;
    browser
        .wait("controls to be locked", "document.querySelector('#delete').ariaDisabled === 'true'")
        .await?;
    let kept = browser.script("return sessionStorage.length", Value::Null).await?;
    ensure!(kept == 0, "data of the user is still stored");
    Ok(())
}
