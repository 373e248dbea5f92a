//! What stands in for the library where it is not built: types that nothing can be made of.

use crate::{
    AcceptingContext, AcceptorKeys, GssapiError, InitiatorKeys, Progress, SecurityContext,
};

/// One who is logged in to.
#[derive(Debug)]
pub enum Acceptor {}

impl Acceptor {
    /// Says that there is none.
    pub fn new(_: &AcceptorKeys) -> Result<Self, GssapiError> {
        Err(GssapiError::NotBuilt)
    }
}

/// One who logs in.
#[derive(Debug)]
pub enum Initiator {}

impl Initiator {
    /// Says that there is none.
    pub fn new(_: &InitiatorKeys, _service: &str) -> Result<Self, GssapiError> {
        Err(GssapiError::NotBuilt)
    }
}

/// Says that there is none.
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
    fn who_wants_kerberos_is_told_how_to_get_it() {
        let keys = AcceptorKeys { principal: "zk/a@HERD".to_owned(), key_table: None };
        let error = Acceptor::new(&keys).unwrap_err().to_string();
        assert!(error.ends_with("build it with `cargo build --features kerberos`"), "{error}");
    }
}
