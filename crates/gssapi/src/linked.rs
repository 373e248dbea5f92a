//! Both sides of a context, based on the crate `libgssapi`.

mod credentials;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext as GssContext, ServerCtx};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL};

use self::credentials::{Usage, acquire};
use crate::{
    AcceptingContext, AcceptorKeys, GssapiError, InitiatorKeys, Progress, SecurityContext,
};

/// MIT's code for "Cannot contact any KDC for realm".
const KDC_UNREACHABLE: i32 = -1_765_328_228;
/// Messages of the library whose second sentence, in brackets, is the useful one.
const EMPTY_PHRASES: [&str; 2] = [
    "Unspecified GSS failure.  Minor code may provide more information (",
    "No credentials were supplied, or the credentials were unavailable or inaccessible (",
];

/// Keys of MIT's credential store extension.
const KEY_TABLE: &CStr = c"keytab";
const CLIENT_KEY_TABLE: &CStr = c"client_keytab";
const TICKET_CACHE: &CStr = c"ccache";

/// The accepting side.
#[derive(Debug)]
pub struct Acceptor(ServerCtx);

impl Acceptor {
    /// Waits for a peer. Fails if the key table does not contain the principal's key.
    pub fn new(keys: &AcceptorKeys) -> Result<Self, GssapiError> {
        let mut store = Vec::new();
        if let Some(file) = &keys.key_table {
            store.push((KEY_TABLE, file_name("FILE:", file)?));
        }
        let credentials = acquire(Some(&keys.principal), Usage::Accept, &store)
            .map_err(|error| failed("cannot acquire the service's key", &error))?;
        Ok(Acceptor(ServerCtx::new(Some(credentials))))
    }
}

/// The initiating side.
#[derive(Debug)]
pub struct Initiator(ClientCtx);

impl Initiator {
    /// Prepares a login to a service, given as `name/host@REALM`. With nothing after the `@`, the realm is
    /// that of the host, as in `krb5.conf`, or else the initiator's own.
    ///
    /// If tickets have to be obtained, this and the first step block on servers of the realm.
    pub fn new(keys: &InitiatorKeys, service: &str) -> Result<Self, GssapiError> {
        let (principal, store, problem) = match keys {
            InitiatorKeys::KeyTable { principal, file } => {
                let mut store = vec![(TICKET_CACHE, own_cache(principal, file.as_deref())?)];
                if let Some(file) = file {
                    store.push((CLIENT_KEY_TABLE, file_name("FILE:", file)?));
                }
                (Some(principal), store, "cannot get a Kerberos ticket with a key")
            }
            InitiatorKeys::TicketCache { principal, file } => {
                let file = file.as_deref().map(|file| file_name("FILE:", file)).transpose()?;
                let store = file.map(|file| (TICKET_CACHE, file)).into_iter().collect();
                (principal.as_ref(), store, "no Kerberos ticket (get one with `kinit`)")
            }
        };
        let credentials = acquire(principal.map(String::as_str), Usage::Initiate, &store)
            .map_err(|error| failed(problem, &error))?;
        let target = Name::new(service.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))
            .map_err(|error| failed("invalid service name", &error))?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
        Ok(Initiator(ClientCtx::new(Some(credentials), target, flags, Some(GSS_MECH_KRB5))))
    }
}

/// Returns the realm of names without one, as set in `krb5.conf`.
pub fn default_realm() -> Result<String, GssapiError> {
    let name = Name::new(b"anybody", Some(GSS_NT_KRB5_PRINCIPAL))
        .and_then(|name| name.canonicalize(Some(GSS_MECH_KRB5)))
        .and_then(|name| name.display_name())
        .map_err(|error| failed("cannot get the default realm", &error))?;
    let name = String::from_utf8_lossy(&name);
    Ok(name.rsplit_once('@').map_or(String::new(), |(_, realm)| realm.to_owned()))
}

/// Tickets obtained with a key table are kept in this process's memory, so that no other ticket cache is
/// changed. The library renews them when half of their lifetime has passed.
fn own_cache(principal: &str, file: Option<&Path>) -> Result<CString, GssapiError> {
    let file = file.map(Path::display).map_or_else(String::new, |file| file.to_string());
    file_name("MEMORY:", Path::new(&format!("herdsman {principal} {file}")))
}

fn file_name(kind: &str, file: &Path) -> Result<CString, GssapiError> {
    let name = [kind.as_bytes(), file.as_os_str().as_bytes()].concat();
    CString::new(name).map_err(|_| GssapiError::Failed {
        problem: "invalid name of a key or ticket file",
        reason: "the name contains a NUL byte".to_owned(),
    })
}

fn failed(problem: &'static str, error: &Error) -> GssapiError {
    let text = error.to_string();
    let second =
        EMPTY_PHRASES.iter().find_map(|phrase| text.strip_prefix(phrase)?.strip_suffix(')'));
    let reason = second.unwrap_or(&text).trim_end().to_owned();
    match error.minor.cast_signed() {
        KDC_UNREACHABLE => GssapiError::KdcUnreachable { problem, reason },
        _ => GssapiError::Failed { problem, reason },
    }
}

/// What both sides do alike, with either of the library's contexts.
trait BothSides: GssContext + Sized {
    fn progress(&self, token: Option<Vec<u8>>) -> Progress {
        match self.is_complete() {
            true => Progress::Established(token),
            false => Progress::Continue(token.unwrap_or_default()),
        }
    }

    fn wrapped(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError> {
        let wrapped = self.wrap(false, message);
        Ok(wrapped.map_err(|error| failed("cannot wrap a message", &error))?.to_vec())
    }

    fn unwrapped(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, GssapiError> {
        let message = self.unwrap(wrapped);
        Ok(message.map_err(|error| failed("cannot unwrap a message", &error))?.to_vec())
    }
}

impl BothSides for ServerCtx {}
impl BothSides for ClientCtx {}

impl SecurityContext for Acceptor {
    fn step(&mut self, token: &[u8]) -> Result<Progress, GssapiError> {
        let answer = self.0.step(token, None);
        let answer = answer.map_err(|error| failed("cannot verify the peer's ticket", &error))?;
        Ok(self.0.progress(answer.map(|token| token.to_vec())))
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError> {
        self.0.wrapped(message)
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, GssapiError> {
        self.0.unwrapped(wrapped)
    }
}

impl AcceptingContext for Acceptor {
    fn initiator(&mut self) -> Result<String, GssapiError> {
        const PROBLEM: &str = "cannot get the peer's name";
        let name = self.0.source_name().and_then(|name| name.display_name());
        let name = name.map_err(|error| failed(PROBLEM, &error))?;
        // A lossy conversion could give the name of another principal.
        String::from_utf8(name.to_vec()).map_err(|_| GssapiError::Failed {
            problem: PROBLEM,
            reason: "the name is not UTF-8 text".to_owned(),
        })
    }
}

impl SecurityContext for Initiator {
    fn step(&mut self, token: &[u8]) -> Result<Progress, GssapiError> {
        let answer = self.0.step((!token.is_empty()).then_some(token), None);
        let answer = answer.map_err(|error| failed("the Kerberos login failed", &error))?;
        Ok(self.0.progress(answer.map(|token| token.to_vec())))
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError> {
        self.0.wrapped(message)
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, GssapiError> {
        self.0.unwrapped(wrapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_table_is_named() {
        let (principal, key_table) = ("zk/a@HERD".to_owned(), Some("/nowhere/zk.keytab".into()));
        let error = Acceptor::new(&AcceptorKeys { principal, key_table }).unwrap_err().to_string();
        let expected = "cannot acquire the service's key: ";
        assert!(error.starts_with(expected) && error.contains("/nowhere/zk.keytab"), "{error}");
    }

    #[test]
    fn a_missing_ticket_names_kinit() {
        let file = Some("/nowhere/tickets".into());
        let keys = InitiatorKeys::TicketCache { principal: None, file };
        let error = Initiator::new(&keys, "zk/a@HERD").unwrap_err().to_string();
        assert!(error.starts_with("no Kerberos ticket (get one with `kinit`): "), "{error}");
        assert!(!EMPTY_PHRASES.iter().any(|phrase| error.contains(phrase)), "{error}");
    }

    #[test]
    fn a_name_with_a_nul_byte_is_rejected() {
        let keys = AcceptorKeys { principal: "zk/a@HERD".to_owned(), key_table: Some("\0".into()) };
        assert!(matches!(Acceptor::new(&keys), Err(GssapiError::Failed { .. })));
    }
}
