//! A browser for the checks: every step waits until it can be done, and fails with a readable error.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};

const POLL_INTERVAL: Duration = Duration::from_millis(40);
/// Long enough for a busy machine; a check that exceeds it has failed.
const WAIT_MAX: Duration = Duration::from_secs(40);

/// The Control key, as WebDriver names it.
const CONTROL: char = '\u{e009}';

/// One open browser.
pub struct Browser {
    client: Client,
    base: String,
    screenshots: PathBuf,
}

impl Browser {
    /// `base` is the URL of the console.
    pub fn new(client: Client, base: String, screenshots: PathBuf) -> Self {
        Browser { client, base, screenshots }
    }

    /// Opens a page of the console, as `#/browse/app`.
    pub async fn open(&self, address: &str) -> Result<()> {
        self.client.goto(&format!("{}/{address}", self.base)).await?;
        Ok(())
    }

    /// Reloads the page.
    pub async fn reload(&self) -> Result<()> {
        Ok(self.client.refresh().await?)
    }

    /// Runs a script and returns its result. `argument` is `arguments[0]` there.
    pub async fn script(&self, script: &str, argument: impl Into<Value>) -> Result<Value> {
        Ok(self.client.execute(script, vec![argument.into()]).await?)
    }

    /// Waits until an expression is true in the page.
    pub async fn wait(&self, what: &str, expression: &str) -> Result<()> {
        let script = format!("return Boolean({expression})");
        let until = Instant::now() + WAIT_MAX;
        loop {
            // A page that is still loading has no result; try again.
            let now = self.client.execute(&script, vec![]).await;
            if matches!(now, Ok(Value::Bool(true))) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("timed out waiting for {what}: {expression} ({now:?})");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until an element shows a text somewhere in it.
    pub async fn wait_text(&self, selector: &str, text: &str) -> Result<()> {
        let expression = format!(
            "[...document.querySelectorAll({})].some((e) => e.checkVisibility() && e.textContent.includes({}))",
            json!(selector),
            json!(text)
        );
        self.wait(&format!("“{text}” in {selector}"), &expression).await
    }

    /// Waits until nothing matches.
    pub async fn wait_gone(&self, selector: &str) -> Result<()> {
        let expression = format!(
            "![...document.querySelectorAll({})].some((e) => e.checkVisibility())",
            json!(selector)
        );
        self.wait(&format!("{selector} to go"), &expression).await
    }

    /// The first visible element that matches, as soon as there is one.
    pub async fn find(&self, selector: &str) -> Result<Element> {
        let expression = format!(
            "[...document.querySelectorAll({})].some((e) => e.checkVisibility())",
            json!(selector)
        );
        self.wait(selector, &expression).await?;
        self.client.find(Locator::Css(selector)).await.with_context(|| selector.to_owned())
    }

    /// Clicks. The page may redraw the element at that moment, so it is searched again.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let mut last = None;
        for _ in 0..5 {
            match self.find(selector).await?.click().await {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(anyhow::anyhow!("{selector} cannot be clicked: {last:?}"))
    }

    /// Replaces the text of a field. It may be redrawn meanwhile, as with [`click`](Self::click).
    pub async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let mut last = None;
        for _ in 0..5 {
            let element = self.find(selector).await?;
            match element.clear().await {
                Ok(()) => match element.send_keys(text).await {
                    Ok(()) => return Ok(()),
                    Err(error) => last = Some(error),
                },
                Err(error) => last = Some(error),
            }
        }
        Err(anyhow::anyhow!("{selector} cannot be filled: {last:?}"))
    }

    /// Presses keys, wherever the focus is; Control is held down until the last of them. The keyboard needs
    /// no element, so it does not matter if the focused element is redrawn meanwhile.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for key in keys.chars() {
            actions = actions.then(KeyAction::Down { value: key });
            if key != CONTROL {
                actions = actions.then(KeyAction::Up { value: key });
            }
        }
        if keys.contains(CONTROL) {
            actions = actions.then(KeyAction::Up { value: CONTROL });
        }
        Ok(self.client.perform_actions(actions).await?)
    }

    /// The text of an element.
    pub async fn text(&self, selector: &str) -> Result<String> {
        self.find(selector).await?;
        let script = "return document.querySelector(arguments[0]).textContent";
        Ok(self.script(script, selector).await?.as_str().unwrap_or_default().to_owned())
    }

    /// The text in the editor.
    pub async fn editor(&self) -> Result<String> {
        self.find(".editor-area").await?;
        let script = "return document.querySelector('.editor-area').value";
        Ok(self.script(script, Value::Null).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the text in the editor begins with this.
    pub async fn wait_editor(&self, start: &str) -> Result<()> {
        let begins =
            format!("document.querySelector('.editor-area')?.value.startsWith({})", json!(start));
        self.wait(&format!("“{start}” in the editor"), &begins).await
    }

    /// Waits until an element matches, visible or not.
    pub async fn wait_for(&self, selector: &str) -> Result<()> {
        let there = format!("document.querySelector({})", json!(selector));
        self.wait(selector, &there).await
    }

    /// Waits until this many elements match.
    pub async fn wait_count(&self, selector: &str, count: usize) -> Result<()> {
        let counted = format!("document.querySelectorAll({}).length === {count}", json!(selector));
        self.wait(&format!("{count} of {selector}"), &counted).await
    }

    /// Clicks an element if it exists.
    pub async fn click_if_there(&self, selector: &str) -> Result<()> {
        self.script("document.querySelector(arguments[0])?.click()", selector).await?;
        Ok(())
    }

    /// Focuses an element.
    pub async fn focus(&self, selector: &str) -> Result<()> {
        self.wait_for(selector).await?;
        self.script("document.querySelector(arguments[0]).focus()", selector).await?;
        Ok(())
    }

    /// Takes a screenshot when animations have ended.
    pub async fn picture(&self, name: &str) -> Result<()> {
        // Colours are animated when the theme or a state changes; a screenshot in between would be useless.
        let settled = "document.getAnimations().every((a) => a.playState !== 'running' \
                       || a.effect.getComputedTiming().iterations === Infinity)";
        self.wait("animations to end", settled).await?;
        let image = self.client.screenshot().await?;
        std::fs::write(self.screenshots.join(format!("{name}.png")), image)?;
        Ok(())
    }

    /// Takes a screenshot at once.
    pub async fn picture_now(&self, name: &str) -> Result<()> {
        let image = self.client.screenshot().await?;
        std::fs::write(self.screenshots.join(format!("{name}.png")), image)?;
        Ok(())
    }

    /// Closes the browser.
    pub async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }
}
