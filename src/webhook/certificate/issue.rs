//! Making certificates: an authority that signs a single certificate, and that certificate. The key of the authority is
//! thrown away at once, so that nobody can steal it.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::fmt;
use std::time::SystemTime;
use zeroize::{Zeroize, Zeroizing};

/// The longest common name (RFC 5280, `ub-common-name`).
const COMMON_NAME: usize = 64;

/// A certificate for a server, with its key and its authority, all PEM.
pub struct Issued {
    /// The certificate of the authority.
    pub authority: String,
    /// The certificate of the server.
    pub certificate: String,
    /// The server's key, in PKCS #8.
    pub key: Zeroizing<String>,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("authority", &self.authority)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Makes a certificate for a server that is called by `names`, good from `begin` to `end` like the authority called
/// `authority` that signs it.
///
/// # Errors
/// Where a name is no host's.
pub fn issue(authority: &str, names: &[String], begin: SystemTime, end: SystemTime) -> Result<Issued, Error> {
    let (mut authority_key, mut key) = (KeyPair::generate()?, KeyPair::generate()?);
    let issued = sign(
        &authority_params(authority, begin, end),
        &authority_key,
        &server(names, begin, end)?,
        &key,
    );
    authority_key.zeroize();
    key.zeroize();
    issued
}

fn sign(
    authority: &CertificateParams,
    authority_key: &KeyPair,
    server: &CertificateParams,
    key: &KeyPair,
) -> Result<Issued, Error> {
    let certificate = server.signed_by(key, &Issuer::from_params(authority, authority_key))?;
    Ok(Issued {
        authority: authority.self_signed(authority_key)?.pem(),
        certificate: certificate.pem(),
        key: Zeroizing::new(key.serialize_pem()),
    })
}

fn authority_params(name: &str, begin: SystemTime, end: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (begin.into(), end.into());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn server(names: &[String], begin: SystemTime, end: SystemTime) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(names)?;
    (params.not_before, params.not_after) = (begin.into(), end.into());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Else Go would try every authority of a bundle whose name fits, instead of the one.
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name = DistinguishedName::new();
    if let Some(name) = names.first().filter(|name| name.len() <= COMMON_NAME) {
        params.distinguished_name.push(DnType::CommonName, name.as_str());
    }
    Ok(params)
}
