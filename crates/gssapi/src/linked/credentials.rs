//! Credentials from files that are passed in the call: `gss_acquire_cred_from`, which `libgssapi` does not
//! wrap. Its own `Cred::acquire` uses the process's environment, which allows only one key table and must
//! not be changed while other threads run.

use std::ffi::{CStr, CString};
use std::ptr;

use libgssapi::credential::Cred;
use libgssapi::error::{Error, MajorFlags};
use libgssapi_sys::{
    _GSS_C_INDEFINITE, GSS_C_ACCEPT, GSS_C_INITIATE, GSS_S_COMPLETE, OM_uint32,
    gss_OID_desc_struct, gss_OID_set_desc_struct, gss_acquire_cred_from, gss_buffer_desc,
    gss_cred_id_t, gss_import_name, gss_key_value_element_desc, gss_key_value_set_desc, gss_name_t,
    gss_release_name,
};

/// The encoding of 1.2.840.113554.1.2.2, which is Kerberos 5, and of its names, 1.2.840.113554.1.2.2.1.
const KERBEROS: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
const KERBEROS_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01";

/// The use of credentials.
#[derive(Clone, Copy, Debug)]
pub(super) enum Usage {
    /// To accept logins.
    Accept,
    /// To log in.
    Initiate,
}

/// Acquires credentials for Kerberos alone from these locations. Without a name, the owner of the
/// credentials found there is used.
pub(super) fn acquire(
    principal: Option<&str>,
    usage: Usage,
    store: &[(&CStr, CString)],
) -> Result<Cred, Error> {
    let name = principal.map(ForeignName::import).transpose()?;
    let mut elements: Vec<_> = store
        .iter()
        .map(|(key, value)| gss_key_value_element_desc { key: key.as_ptr(), value: value.as_ptr() })
        .collect();
    // There are at most two locations.
    let count = u32::try_from(elements.len()).unwrap_or(u32::MAX);
    let store = gss_key_value_set_desc { count, elements: elements.as_mut_ptr() };
    let mut kerberos = oid(KERBEROS);
    let mut mechanisms = gss_OID_set_desc_struct { count: 1, elements: &raw mut kerberos };
    let usage = match usage {
        Usage::Accept => GSS_C_ACCEPT,
        Usage::Initiate => GSS_C_INITIATE,
    };
    let (mut minor, mut credentials): (OM_uint32, gss_cred_id_t) = (0, ptr::null_mut());
    // SAFETY: every pointer is to a value that outlives the call, the library copies what it keeps and
    // writes only to the output pointers; optional outputs may be null.
    #[expect(unsafe_code, reason = "a call of a C library")]
    let major = unsafe {
        gss_acquire_cred_from(
            &raw mut minor,
            name.as_ref().map_or(ptr::null_mut(), |name| name.0),
            _GSS_C_INDEFINITE,
            &raw mut mechanisms,
            usage.cast_signed(),
            &raw const store,
            &raw mut credentials,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    check(major, minor)?;
    // SAFETY: the call succeeded, so these are credentials, and nothing else holds them.
    #[expect(unsafe_code, reason = "ownership passes from C to Rust")]
    Ok(unsafe { Cred::from_c(credentials) })
}

/// A name owned by the library.
struct ForeignName(gss_name_t);

impl ForeignName {
    fn import(text: &str) -> Result<Self, Error> {
        let buffer = gss_buffer_desc { length: text.len(), value: text.as_ptr().cast_mut().cast() };
        let mut kind = oid(KERBEROS_NAME);
        let (mut minor, mut name): (OM_uint32, gss_name_t) = (0, ptr::null_mut());
        // SAFETY: the library only reads the text and the kind during the call, and copies them; it writes
        // the name to the output pointer.
        #[expect(unsafe_code, reason = "a call of a C library")]
        let major = unsafe {
            let text = (&raw const buffer).cast_mut();
            gss_import_name(&raw mut minor, text, &raw mut kind, &raw mut name)
        };
        check(major, minor)?;
        Ok(ForeignName(name))
    }
}

impl Drop for ForeignName {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name came from the library, is released only here and not used afterwards.
        #[expect(unsafe_code, reason = "a call of a C library")]
        unsafe {
            gss_release_name(&raw mut minor, &raw mut self.0);
        }
    }
}

/// The library never writes to the bytes.
fn oid(encoded: &'static [u8]) -> gss_OID_desc_struct {
    let length = u32::try_from(encoded.len()).unwrap_or_default();
    gss_OID_desc_struct { length, elements: encoded.as_ptr().cast_mut().cast() }
}

fn check(major: OM_uint32, minor: OM_uint32) -> Result<(), Error> {
    match major {
        GSS_S_COMPLETE => Ok(()),
        _ => Err(Error { major: MajorFlags::from_bits_retain(major), minor }),
    }
}
