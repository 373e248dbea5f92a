//! On a screen 390 pixels wide every page fits, and everything can be reached.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::browser::Browser;

const PAGES: [(&str, &str, &str); 7] = [
    ("#/browse", ".children-panel tbody a", "phone-root"),
    ("#/browse/app/config", ".editor", "phone-znode"),
    ("#/browse/app/bytes", ".editor", "phone-hex"),
    ("#/recipes", ".recipe", "phone-recipes"),
    ("#/sessions", "tr[data-session]", "phone-sessions"),
    ("#/ensemble", ".chart-line", "phone-ensemble"),
    ("#/server", ".facts", "phone-server"),
];

pub async fn every_page_fits_a_phone(browser: &Browser) -> Result<()> {
    for (address, content, name) in PAGES {
        browser.open(address).await?;
        browser.find(content).await?;
        browser.picture(name).await?;
        let width =
            "return Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)";
        let width = browser.script(width, Value::Null).await?.as_u64().unwrap_or(u64::MAX);
        ensure!(width <= 390, "{name} is {width} pixels wide");
    }
    browser.click("nav.pages a[data-page=sessions]").await?;
    browser.click("tr[data-session] a").await?;
    browser.find(".session-detail h2").await?;
    browser.wait_gone("tr[data-session]").await?;
    browser.click(".back-link").await?;
    browser.find("tr[data-session]").await?;
    browser.click("#open-palette").await?;
    browser.fill("#palette-box", "/app/mo").await?;
    browser.wait_text(".result", "/app/motd").await?;
    browser.picture("phone-search").await?;
    browser.click(".result").await?;
    browser.wait_text(".node-name", "motd").await
}
