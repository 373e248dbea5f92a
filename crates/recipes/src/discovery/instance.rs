//! An instance of a service, and its JSON.
//!
//! The JSON is byte for byte what Curator 5.9 writes by default: fields in this order, nulls
//! written. `enabled` is written only when it is false, which Curator's default form never is. When
//! reading, the order does not matter, unknown fields are ignored and missing ones get defaults.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::uri_spec::UriSpec;
use crate::error::{Error, Result};

/// How long an instance stays registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServiceType {
    /// As long as its program's session.
    #[default]
    Dynamic,
    /// Until it is unregistered.
    Static,
    /// Until it is unregistered. The same as static for this crate, and for Curator.
    Permanent,
    /// As long as the session; the node's name is the id and a number.
    DynamicSequential,
}

impl ServiceType {
    /// Returns whether the instance ends with its program's session.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        matches!(self, ServiceType::Dynamic | ServiceType::DynamicSequential)
    }

    fn lower_case(self) -> &'static str {
        match self {
            ServiceType::Dynamic => "dynamic",
            ServiceType::Static => "static",
            ServiceType::Permanent => "permanent",
            ServiceType::DynamicSequential => "dynamic_sequential",
        }
    }
}

/// An instance of a service, with a payload of any type that serde can write and read.
///
/// Payloads that Java programs read: a plain string is a `String` there. An object needs a field `@class` with the
/// name of the Java class, and is read as a map without it; `@class` is not passed to a payload type that does not
/// have such a field.
///
/// ```
/// use herdsman_recipes::discovery::ServiceInstance;
///
/// let instance: ServiceInstance<String> = ServiceInstance::new("web")
///     .with_id("web-1")
///     .with_address("10.0.0.1")
///     .with_port(8080)
///     .with_payload("zone-a".to_owned());
/// let json = serde_json::to_value(&instance)?;
/// assert_eq!(json["payload"], "zone-a");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "P: DeserializeOwned"))]
#[non_exhaustive]
pub struct ServiceInstance<P> {
    /// The name of the service.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// The id, unique within the service.
    #[serde(default, deserialize_with = "null_is_default")]
    pub id: String,
    /// Host name or address.
    #[serde(default)]
    pub address: Option<String>,
    /// Port.
    #[serde(default)]
    pub port: Option<u16>,
    /// Port for TLS.
    #[serde(default)]
    pub ssl_port: Option<u16>,
    /// Any other data.
    #[serde(default = "no_payload")]
    pub payload: Option<P>,
    /// When it was created: milliseconds since 1970.
    #[serde(default, rename = "registrationTimeUTC")]
    pub registration_time_utc: i64,
    /// How long it stays registered.
    #[serde(default, deserialize_with = "null_is_default")]
    pub service_type: ServiceType,
    /// The template of its URI.
    #[serde(default)]
    pub uri_spec: Option<UriSpec>,
    /// Whether it is enabled: providers pick only enabled instances.
    #[serde(default = "enabled", skip_serializing_if = "is_enabled")]
    pub enabled: bool,
}

fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn no_payload<P>() -> Option<P> {
    None
}

fn enabled() -> bool {
    true
}

// The signature is serde's.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_enabled(enabled: &bool) -> bool {
    *enabled
}

impl<P> ServiceInstance<P> {
    /// Creates an instance of the service `name`, dynamic, enabled, with a random id.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ServiceInstance {
            name: name.into(),
            id: Uuid::new_v4().to_string(),
            address: None,
            port: None,
            ssl_port: None,
            payload: None,
            registration_time_utc: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX),
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the host.
    #[must_use]
    pub fn with_address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the port for TLS.
    #[must_use]
    pub fn with_ssl_port(mut self, port: u16) -> Self {
        self.ssl_port = Some(port);
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn with_payload(mut self, payload: P) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets the type.
    #[must_use]
    pub fn with_type(mut self, service_type: ServiceType) -> Self {
        self.service_type = service_type;
        self
    }

    /// Sets the template of its URI.
    #[must_use]
    pub fn with_uri_spec(mut self, uri_spec: UriSpec) -> Self {
        self.uri_spec = Some(uri_spec);
        self
    }

    /// Makes it disabled: registered, but not picked.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }

    /// Returns its URI, if it has a template.
    #[must_use]
    pub fn uri(&self) -> Option<String> {
        let variable = |name: &str| self.variable(name);
        self.uri_spec.as_ref().map(|spec| spec.build_with(variable))
    }

    /// Returns the value of a variable of Curator's `UriSpec`.
    fn variable(&self, name: &str) -> Option<String> {
        let port = |port: Option<u16>| port.map(|port| port.to_string());
        match name {
            "scheme" => Some(if self.ssl_port.is_some() { "https" } else { "http" }.to_owned()),
            "name" => Some(self.name.clone()),
            "id" => Some(self.id.clone()),
            "address" => self.address.clone(),
            "port" => port(self.port),
            "ssl-port" => port(self.ssl_port),
            "registration-time-utc" => Some(self.registration_time_utc.to_string()),
            "service-type" => Some(self.service_type.lower_case().to_owned()),
            "[" => Some("{".to_owned()),
            "]" => Some("}".to_owned()),
            _ => None,
        }
    }
}

impl<P: Serialize> ServiceInstance<P> {
    pub(super) fn encode(&self, path: &str) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| codec(path, &error))
    }
}

impl<P: DeserializeOwned> ServiceInstance<P> {
    pub(super) fn decode(path: &str, data: &[u8]) -> Result<Self> {
        // Serde would also accept a list of the fields' values, even an empty one.
        if data.trim_ascii_start().first() != Some(&b'{') {
            let reason = "it is not a JSON object".to_owned();
            return Err(Error::Codec { path: path.to_owned(), reason });
        }
        serde_json::from_slice(data).map_err(|error| codec(path, &error))
    }
}

fn codec(path: &str, error: &serde_json::Error) -> Error {
    Error::Codec { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn instance() -> ServiceInstance<String> {
        let instance = ServiceInstance::new("n").with_id("i").with_address("10.0.0.1");
        ServiceInstance { registration_time_utc: 1_700_000_000_000, ..instance.with_port(8080) }
    }

    fn written(instance: &ServiceInstance<String>) -> String {
        String::from_utf8(instance.encode("/s/n/i").unwrap()).unwrap()
    }

    #[test]
    fn the_json_is_what_curator_writes() {
        assert_eq!(
            written(&instance()),
            r#"{"name":"n","id":"i","address":"10.0.0.1","port":8080,"sslPort":null,"payload":null,"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}"#
        );
        let full = instance()
            .with_ssl_port(8443)
            .with_payload("pay".to_owned())
            .with_type(ServiceType::DynamicSequential)
            .with_uri_spec("{scheme}://{address}".parse().unwrap())
            .disabled();
        assert_eq!(
            written(&full),
            r#"{"name":"n","id":"i","address":"10.0.0.1","port":8080,"sslPort":8443,"payload":"pay","registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC_SEQUENTIAL","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true}]},"enabled":false}"#
        );
        assert_eq!(ServiceInstance::decode("", written(&full).as_bytes()), Ok(full));
    }

    #[test]
    fn any_order_missing_fields_and_unknown_fields_are_read() {
        let read =
            |json: Value| ServiceInstance::<Value>::decode("/p", json.to_string().as_bytes());
        let bare = read(json!({})).unwrap();
        assert_eq!((bare.name.as_str(), bare.enabled), ("", true));
        assert_eq!(bare.service_type, ServiceType::Dynamic);
        let nulls = json!({"name": null, "id": null, "serviceType": null, "enabled": true, "x": 1});
        assert_eq!(read(nulls).unwrap(), bare);
        let java = json!({"payload": {"@class": "com.acme.P", "version": "1"}, "id": "i"});
        assert_eq!(read(java).unwrap().payload.unwrap()["version"], "1");
        for wrong in [json!({"serviceType": "X"}), json!({"port": 70_000}), json!([]), json!("x")] {
            let error = read(wrong).unwrap_err();
            assert!(matches!(error, Error::Codec { path, .. } if path == "/p"));
        }
    }

    #[test]
    fn a_typed_payload_ignores_javas_class() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Meta {
            version: String,
        }
        let json = json!({"payload": {"@class": "com.acme.P", "version": "1"}}).to_string();
        let read = ServiceInstance::<Meta>::decode("", json.as_bytes()).unwrap();
        assert_eq!(read.payload, Some(Meta { version: "1".into() }));
    }

    #[test]
    fn uris_are_made_of_the_instance() {
        let spec =
            "{scheme}://{address}:{port}/{name}/{id}?{ssl-port}{unknown}{[}{service-type}{]}";
        let mut instance = instance().with_uri_spec(spec.parse().unwrap());
        assert_eq!(instance.uri().unwrap(), "http://10.0.0.1:8080/n/i?{dynamic}");
        instance.ssl_port = Some(8443);
        instance.port = None;
        assert_eq!(instance.uri().unwrap(), "https://10.0.0.1:/n/i?8443{dynamic}");
        instance.uri_spec = None;
        assert_eq!(instance.uri(), None);
    }
}
