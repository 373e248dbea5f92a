//! The other pages: recipes, sessions, server, ensemble; and dark colours.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Scene;

const SCROLL: &str = "document.querySelector(arguments[0]).scrollIntoView()";

pub async fn recipes_show_holders_and_waiters(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/recipes").await?;
    browser.wait_text(".deadlocks h2", "Deadlock").await?;
    browser.wait_text(".deadlock", "/locks/ledger").await?;
    browser.wait_text(".deadlock svg", "/locks/stock").await?;
    let lock = ".recipe[data-path='/locks/orders']";
    browser.wait_text(lock, "6 waiters").await?;
    browser.wait_text(&format!("{lock} > .person"), "worker-1").await?;
    browser.wait_text(&format!("{lock} > .person"), "holds it").await?;
    let waiter = browser.text(&format!("{lock} ol.line > li:first-child")).await?;
    ensure!(waiter.contains("worker-"), "the first waiter is {waiter}");
    browser.wait_text(".recipe[data-path='/election/scheduler']", "3 candidates").await?;
    browser.wait_text(".recipe[data-path='/services/web']", "10.0.0.1:8080").await?;
    browser.wait_text(".recipe[data-path='/barriers/start']", "2").await?;
    browser.wait_text("tr[data-path='/queues/mail'] .number", "12").await?;
    browser.picture("recipes").await?;
    browser.script(SCROLL, ".recipe[data-path='/election/scheduler']").await?;
    browser.picture("recipes-more").await
}

pub async fn sessions_show_what_they_hold(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/sessions").await?;
    browser.wait_text(".page-tools [role=status]", "sessions").await?;
    let session = scene.tree.0.connected_session().await?;
    let id = format!("0x{:x}", session.id().0);
    browser.fill(".page-tools input", &id).await?;
    browser.wait_count("tr[data-session]", 1).await?;
    browser.fill(".page-tools input", "no such session").await?;
    browser.wait_text(".empty", "No session matches").await?;
    browser.fill(".page-tools input", "").await?;
    browser.click(&format!("tr[data-session='{id}'] a")).await?;
    browser.wait_text(".session-detail h2", &id).await?;
    browser.wait_text(".session-detail .path-list", "/app/presence").await?;
    browser.picture("sessions").await?;
    browser.click(".session-detail .path-list a").await?;
    browser.wait_text(".node-name", "presence").await
}

pub async fn the_server_shows_its_state(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/server").await?;
    browser.wait_text(".facts", "follower").await?;
    browser.wait_text(".facts", "healthy").await?;
    browser.wait_text("[aria-label=Configuration] table", "tick").await?;
    browser.wait_text(".endpoints", "Metrics").await?;
    browser.picture("server").await?;
    browser.find("#log-level").await?.select_by_value("debug").await?;
    browser.click("#set-log-level").await?;
    browser.wait_text(".toast", "level debug").await?;
    browser.open("#/sessions").await?;
    browser.open("#/server").await?;
    browser
        .wait("the level that was set", "document.querySelector('#log-level')?.value === 'debug'")
        .await
}

pub async fn the_ensemble_shows_its_members_and_plots(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/ensemble").await?;
    browser.wait_count(".member", 3).await?;
    browser.wait_count(".member-leads", 1).await?;
    browser.wait_count(".member-down", 0).await?;
    browser.wait_text(".member", "this server").await?;
    browser.wait_text("#elections", "follow").await?;
    browser.wait_count(".chart-line", 9).await?;
    browser
        .wait(
            "a line with a course",
            "document.querySelector('.chart-line').getAttribute('d').includes('L')",
        )
        .await?;
    browser.picture("ensemble").await?;
    let script = "document.querySelector('.charts').scrollIntoView({block: 'center'}); \
                document.querySelector('.chart-svg').focus()";
    browser.script(script, Value::Null).await?;
    browser.press("\u{e012}").await?;
    browser.wait_for(".chart-cursor").await?;
    browser.picture("ensemble-plots").await
}

pub async fn dark_is_remembered(scene: &Scene<'_>) -> Result<()> {
    let browser = scene.browser;
    browser.open("#/browse/app/config").await?;
    browser.wait_text(".node-name", "config").await?;
    let paper = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.script(paper, Value::Null).await?;
    browser.click("#theme button").await?;
    let dark = browser.script(paper, Value::Null).await?;
    ensure!(light != dark, "the colours are the same");
    browser.reload().await?;
    browser.wait_text(".node-name", "config").await?;
    ensure!(browser.script(paper, Value::Null).await? == dark, "the dark theme was not stored");
    browser.click("#tab-data").await?;
    browser.picture("dark-browse").await?;
    for page in ["recipes", "ensemble", "sessions"] {
        browser.open(&format!("#/{page}")).await?;
        browser.find(".card, .table").await?;
        browser.picture(&format!("dark-{page}")).await?;
    }
    browser.click("#theme button").await?;
    ensure!(browser.script(paper, Value::Null).await? == light, "the light theme was not restored");
    Ok(())
}
