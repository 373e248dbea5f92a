//! `herdsman recipe watch-config` and `publish-config`: a JSON value in a node.

use anyhow::Result;
use clap::Args;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::config::{Config, ConfigUpdate, Publisher};
use serde_json::Value;

use super::outcome::{Interrupted, Outcome};
use super::output::print_line;

pub(super) const WATCH_EXAMPLES: &str = "\
  herdsman recipe watch-config /config/app
  herdsman recipe watch-config /config/app --once";

pub(super) const PUBLISH_EXAMPLES: &str = "\
  herdsman recipe publish-config /config/app '{\"limit\": 3}'
  herdsman recipe publish-config /config/app '{\"limit\": 4}' --if-version 0";

/// Follow a configuration node and print each JSON value, until Ctrl-C.
#[derive(Args)]
pub(super) struct WatchArguments {
    /// The node's path.
    path: String,
    /// End after the first value.
    #[arg(long)]
    once: bool,
}

/// Publish a JSON value to a configuration node.
#[derive(Args)]
pub(super) struct PublishArguments {
    /// The node's path.
    path: String,
    /// The value, as JSON.
    #[arg(value_name = "JSON", value_parser = json)]
    value: Value,
    /// Publish only if the current value has this version.
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<i32>,
}

pub(super) async fn watch(
    zk: &Client,
    arguments: &WatchArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let config = Config::<Value>::start(zk, &arguments.path).await?;
    let mut changes = config.changes();
    loop {
        let update = tokio::select! {
            update = changes.next() => update,
            () = interrupted.wait() => return Ok(arguments.when_interrupted()),
        };
        let Some(update) = update else {
            return Ok(Outcome::Lost);
        };
        let is_value = matches!(update, ConfigUpdate::Value(_));
        show(&update)?;
        if arguments.once && is_value {
            return Ok(Outcome::Done);
        }
    }
}

impl WatchArguments {
    /// With `--once` the command was still waiting for the first value; without it, Ctrl-C is the regular end.
    fn when_interrupted(&self) -> Outcome {
        if self.once { Outcome::Interrupted } else { Outcome::Done }
    }
}

fn show(update: &ConfigUpdate<Value>) -> Result<()> {
    match update {
        ConfigUpdate::Value(value) => match value.version() {
            Some(version) => print_line(format_args!("version {version}: {}", value.value)),
            None => print_line(&value.value),
        },
        ConfigUpdate::Deleted => {
            print_line("the node does not exist; the last value, if any, stays in effect")
        }
        ConfigUpdate::Invalid { reason, version, .. } => print_line(format_args!(
            "version {version} is not JSON ({reason}); the last value, if any, stays in effect"
        )),
        ConfigUpdate::Unreadable(error) => print_line(format_args!("cannot be read: {error}")),
        other => print_line(format_args!("{other:?}")),
    }
}

pub(super) async fn publish(zk: &Client, arguments: &PublishArguments) -> Result<Outcome> {
    let value = &arguments.value;
    let publisher = Publisher::new(zk, &arguments.path)?;
    let published = match arguments.if_version {
        Some(version) => publisher.compare_and_publish(version, value).await,
        None => publisher.publish(value).await,
    };
    match published {
        Ok(published) => {
            print_line(format_args!("published as version {}", published.version))?;
            Ok(Outcome::Done)
        }
        Err(error) if error.client_kind() == Some(&ErrorKind::BadVersion) => {
            eprintln!("herdsman: {} has another version", arguments.path);
            Ok(Outcome::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

/// Parses a JSON value from the command line.
pub(super) fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}
