//! Placeholders for builds without the GSSAPI library: types without values.

use crate::{
    AcceptingContext, AcceptorKeys, GssapiError, InitiatorKeys, Progress, SecurityContext,
};

/// The accepting side.
#[derive(Debug)]
pub enum Acceptor {}

impl Acceptor {
    /// Returns [`GssapiError::NotBuilt`].
    pub fn new(_: &AcceptorKeys) -> Result<Self, GssapiError> {
        Err(GssapiError::NotBuilt)
    }
}

/// The initiating side.
#[derive(Debug)]
pub enum Initiator {}

impl Initiator {
    /// Returns [`GssapiError::NotBuilt`].
    pub fn new(_: &InitiatorKeys, _service: &str) -> Result<Self, GssapiError> {
        Err(GssapiError::NotBuilt)
    }
}

/// Returns [`GssapiError::NotBuilt`].
pub fn default_realm() -> Result<String, GssapiError> {
    Err(GssapiError::NotBuilt)
}

impl SecurityContext for Acceptor {
    fn step(&mut self, _: &[u8]) -> Result<Progress, GssapiError> {
        match *self {}
    }

    fn wrap(&mut self, _: &[u8]) -> Result<Vec<u8>, GssapiError> {
        match *self {}
    }

    fn unwrap(&mut self, _: &[u8]) -> Result<Vec<u8>, GssapiError> {
        match *self {}
    }
}

impl AcceptingContext for Acceptor {
    fn initiator(&mut self) -> Result<String, GssapiError> {
        match *self {}
    }
}

impl SecurityContext for Initiator {
    fn step(&mut self, _: &[u8]) -> Result<Progress, GssapiError> {
        match *self {}
    }

    fn wrap(&mut self, _: &[u8]) -> Result<Vec<u8>, GssapiError> {
        match *self {}
    }

    fn unwrap(&mut self, _: &[u8]) -> Result<Vec<u8>, GssapiError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_feature_to_build_with() {
        let keys = AcceptorKeys { principal: "zk/a@HERD".to_owned(), key_table: None };
        let error = Acceptor::new(&keys).unwrap_err().to_string();
        assert!(error.ends_with("build it with `cargo build --features kerberos`"), "{error}");
    }
}
