//! The purposes of a certificate.
//!
//! A certificate that lists purposes must list ours, or "any". webpki's own check does not know "any",
//! which Java accepts.

use webpki::{
    Error, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage, RequiredEkuNotFoundContext,
};

const SERVER: [usize; 9] = [1, 3, 6, 1, 5, 5, 7, 3, 1];
const CLIENT: [usize; 9] = [1, 3, 6, 1, 5, 5, 7, 3, 2];
const ANY: [usize; 5] = [2, 5, 29, 37, 0];

/// The side of a connection that sent the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The side that accepted the connection.
    Server,
    /// The side that opened the connection.
    Client,
}

impl ExtendedKeyUsageValidator for Purpose {
    fn validate(&self, listed: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let (ours, required) = match self {
            Self::Server => (SERVER, KeyUsage::server_auth()),
            Self::Client => (CLIENT, KeyUsage::client_auth()),
        };
        let mut present = Vec::new();
        for purpose in listed {
            let purpose = purpose?.to_decoded_oid();
            if purpose == ours || purpose == ANY {
                return Ok(());
            }
            present.push(purpose);
        }
        if present.is_empty() {
            return Ok(()); // No purposes are listed: valid for all.
        }
        Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
    }
}
