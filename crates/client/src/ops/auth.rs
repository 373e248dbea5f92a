//! Credentials sent on an established connection.

use bytes::Bytes;
use herdsman_proto::{OpCode, Request};

use crate::error::Result;
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError};
use crate::request_queue::Answer;

/// Sends credentials.
#[derive(Clone)]
pub struct AddCredentials {
    pub(crate) scheme: String,
    pub(crate) secret: Bytes,
}

impl std::fmt::Debug for AddCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddCredentials").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl Sealed for AddCredentials {
    type Output = ();

    fn op(&self) -> OpCode {
        OpCode::Auth
    }
    fn shown_path(&self) -> &str {
        &self.scheme
    }
    fn request(&self) -> Request<'_> {
        Request::Auth { scheme: self.scheme.as_str().into(), credentials: Some(&self.secret) }
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::Yes
    }
    fn decode(&self, _: Answer) -> std::result::Result<(), ReplyError> {
        Ok(())
    }
}
