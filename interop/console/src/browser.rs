//! A browser as the checks use it: every step waits until it can be done, and fails with a sentence.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};

const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Long enough for a busy machine; a check that runs into it has failed.
const PATIENCE: Duration = Duration::from_secs(40);

/// The Control key, as WebDriver names it.
const CONTROL: char = '\u{e009}';

/// One open browser.
pub struct Browser {
    client: Client,
    base: String,
    screenshots: PathBuf,
}

impl Browser {
    /// `base` is where the console is.
    pub fn new(client: Client, base: String, screenshots: PathBuf) -> Self {
        Browser { client, base, screenshots }
    }

    /// Opens a page of the console, as `#/browse/app`.
    pub async fn open(&self, address: &str) -> Result<()> {
        self.client.goto(&format!("{}/{address}", self.base)).await?;
        Ok(())
    }

    /// Loads the page anew.
    pub async fn reload(&self) -> Result<()> {
        Ok(self.client.refresh().await?)
    }

    /// Runs a script and gives what it returns. `argument` is `arguments[0]` there.
    pub async fn script(&self, script: &str, argument: impl Into<Value>) -> Result<Value> {
        Ok(self.client.execute(script, vec![argument.into()]).await?)
    }

    /// Waits until an expression is true in the page.
    pub async fn wait(&self, what: &str, expression: &str) -> Result<()> {
        let script = format!("return Boolean({expression})");
        let until = Instant::now() + PATIENCE;
        loop {
            // A page that loads just now has nothing to ask; the next look will tell.
            let now = self.client.execute(&script, vec![]).await;
            if matches!(now, Ok(Value::Bool(true))) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("waited for {what} in vain: {expression} ({now:?})");
            }
            tokio::time::sleep(LOOK_EVERY).await;
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

    /// Clicks. The page may draw the element anew in just that moment, so it is looked for again.
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

    /// Replaces the text of a field. It may be drawn anew meanwhile, as with [`click`](Self::click).
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
    /// no element, so it does not matter if the one that has the focus is drawn anew meanwhile.
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

    /// What is in the editor.
    pub async fn editor(&self) -> Result<String> {
        self.find(".editor-area").await?;
        let script = "return document.querySelector('.editor-area').value";
        Ok(self.script(script, Value::Null).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until what is in the editor begins so.
    pub async fn wait_editor(&self, start: &str) -> Result<()> {
        let begins =
            format!("document.querySelector('.editor-area')?.value.startsWith({})", json!(start));
        self.wait(&format!("“{start}” in the editor"), &begins).await
    }

    /// Waits until some element matches, seen or not.
    pub async fn wait_for(&self, selector: &str) -> Result<()> {
        let there = format!("document.querySelector({})", json!(selector));
        self.wait(selector, &there).await
    }

    /// Waits until so many elements match.
    pub async fn wait_count(&self, selector: &str, count: usize) -> Result<()> {
        let counted = format!("document.querySelectorAll({}).length === {count}", json!(selector));
        self.wait(&format!("{count} of {selector}"), &counted).await
    }

    /// Clicks if there is such an element.
    pub async fn click_if_there(&self, selector: &str) -> Result<()> {
        self.script("document.querySelector(arguments[0])?.click()", selector).await?;
        Ok(())
    }

    /// Puts the focus on an element.
    pub async fn focus(&self, selector: &str) -> Result<()> {
        self.wait_for(selector).await?;
        self.script("document.querySelector(arguments[0]).focus()", selector).await?;
        Ok(())
    }

    /// Keeps a picture.
    pub async fn picture(&self, name: &str) -> Result<()> {
        // Colours move over when the theme or a state changes; a picture of the way there says nothing.
        let settled = "document.getAnimations().every((a) => a.playState !== 'running' \
                       || a.effect.getComputedTiming().iterations === Infinity)";
        self.wait("animations to end", settled).await?;
        let image = self.client.screenshot().await?;
        std::fs::write(self.screenshots.join(format!("{name}.png")), image)?;
        Ok(())
    }

    /// Keeps a picture, whatever is going on.
    pub async fn picture_now(&self, name: &str) -> Result<()> {
        let image = self.client.screenshot().await?;
        std::fs::write(self.screenshots.join(format!("{name}.png")), image)?;
        Ok(())
    }

    /// Closes it.
    pub async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }
}
