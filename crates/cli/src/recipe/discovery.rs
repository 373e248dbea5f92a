//! `herdsman recipe register` and `discover`: services and their instances.

use anyhow::Result;
use clap::Args;
use herdsman_client::Client;
use herdsman_recipes::discovery::{Registry, ServiceEvent, ServiceInstance};
use serde_json::Value;

use super::config::json;
use super::outcome::{Interrupted, Outcome};
use super::output::print_line;
use super::release;

pub(super) const REGISTER_EXAMPLES: &str = "\
  herdsman recipe register web 10.0.0.5:8080
  herdsman recipe register web '[::1]:8080' --id web-1 --payload '{\"zone\": 1}'";

pub(super) const DISCOVER_EXAMPLES: &str = "\
  herdsman recipe discover                 # the names of all services
  herdsman recipe discover web
  herdsman recipe discover web --watch     # + added, ~ changed, - removed";

/// Register an instance of a service, and keep it registered until Ctrl-C.
#[derive(Args)]
pub(super) struct RegisterArguments {
    /// Name of the service.
    name: String,
    /// Address of the instance: `host:port` or `[IPv6 address]:port`.
    #[arg(value_name = "HOST:PORT", value_parser = address)]
    address: Address,
    /// Id of the instance; by default a random one.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Additional data, as JSON.
    #[arg(long, value_name = "JSON", value_parser = json)]
    payload: Option<Value>,
    #[command(flatten)]
    services: BaseArguments,
}

/// Show the instances of a service, or the services.
#[derive(Args)]
pub(super) struct DiscoverArguments {
    /// Name of the service; without it, the names of all services are printed.
    name: Option<String>,
    /// Keep printing instances that are added, changed or removed, until Ctrl-C.
    #[arg(long, requires = "name")]
    watch: bool,
    #[command(flatten)]
    services: BaseArguments,
}

#[derive(Args)]
struct BaseArguments {
    /// Path below which the services are.
    #[arg(long, default_value = "/services", value_name = "PATH")]
    base: String,
}

pub(super) async fn register(
    zk: &Client,
    arguments: &RegisterArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let registry: Registry<Value> = Registry::new(zk, &arguments.services.base)?;
    let registration = registry.register(arguments.instance()).await?;
    let id = registration.instance().id.clone();
    print_line(format_args!("registered {} {id}; press Ctrl-C to unregister", arguments.name))?;
    interrupted.wait().await;
    if let Some(unregistered) = release(registration.unregister()).await {
        unregistered?;
        print_line(format_args!("unregistered {} {id}", arguments.name))?;
    }
    Ok(Outcome::Done)
}

impl RegisterArguments {
    fn instance(&self) -> ServiceInstance<Value> {
        let Address { host, port } = &self.address;
        let mut instance = ServiceInstance::new(&self.name).with_address(host).with_port(*port);
        if let Some(id) = &self.id {
            instance = instance.with_id(id);
        }
        if let Some(payload) = &self.payload {
            instance = instance.with_payload(payload.clone());
        }
        instance
    }
}

#[derive(Clone)]
struct Address {
    host: String,
    port: u16,
}

fn address(text: &str) -> Result<Address, String> {
    let (host, port) = text.rsplit_once(':').ok_or("no port; expected host:port")?;
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if host.is_empty() || (in_brackets.is_none() && host.contains(':')) {
        return Err("expected host:port or [IPv6 address]:port".to_owned());
    }
    let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
    Ok(Address { host: in_brackets.unwrap_or(host).to_owned(), port })
}

pub(super) async fn discover(
    zk: &Client,
    arguments: &DiscoverArguments,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let registry: Registry<Value> = Registry::new(zk, &arguments.services.base)?;
    let Some(name) = &arguments.name else {
        return interrupted.or(list_services(&registry)).await;
    };
    if arguments.watch {
        return watch(&registry, name, interrupted).await;
    }
    interrupted.or(list_instances(&registry, name)).await
}

async fn list_instances(registry: &Registry<Value>, name: &str) -> Result<Outcome> {
    let found = registry.instances(name).await?;
    for error in &found.unreadable {
        eprintln!("herdsman: {error}");
    }
    for instance in &found.instances {
        print_line(describe(instance))?;
    }
    if found.instances.is_empty() {
        eprintln!("herdsman: no instances of {name}");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Done)
}

async fn list_services(registry: &Registry<Value>) -> Result<Outcome> {
    for name in registry.names().await? {
        print_line(name)?;
    }
    Ok(Outcome::Done)
}

async fn watch(
    registry: &Registry<Value>,
    name: &str,
    interrupted: &mut Interrupted,
) -> Result<Outcome> {
    let cache = registry.cache(name).open().await?;
    let mut events = cache.events();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = interrupted.wait() => return Ok(Outcome::Done),
        };
        match event {
            Some(ServiceEvent::Added(instance)) => {
                print_line(format_args!("+ {}", describe(&instance)))?;
            }
            Some(ServiceEvent::Changed(instance)) => {
                print_line(format_args!("~ {}", describe(&instance)))?;
            }
            Some(ServiceEvent::Removed(instance)) => {
                print_line(format_args!("- {}", describe(&instance)))?;
            }
            Some(ServiceEvent::Unreadable(error)) => eprintln!("herdsman: {error}"),
            Some(other) => print_line(format_args!("{other:?}"))?,
            None => return Ok(Outcome::Lost),
        }
    }
}

fn describe(instance: &ServiceInstance<Value>) -> String {
    let address = instance.address.as_deref().unwrap_or("-");
    let port = instance.port.map(|port| format!(":{port}")).unwrap_or_default();
    let payload =
        instance.payload.as_ref().map(|payload| format!(" {payload}")).unwrap_or_default();
    let disabled = if instance.enabled { "" } else { " (disabled)" };
    format!("{} {address}{port}{payload}{disabled}", instance.id)
}
