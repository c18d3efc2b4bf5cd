//! Whom a certificate is of: its common name, by which Kubernetes knows its users.

use super::validity::{SEQUENCE, take};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Tags of ASN.1 DER.
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `UTF8String`, `PrintableString`, `IA5String`: in these a common name is written.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];

/// `id-at-commonName` (RFC 5280, appendix A.1): 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The common name of a certificate's subject, the last where there are several, as in Go; nothing where there is none.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let (mut rest, mut name) = (certificate.subject(), None);
    while let Some((set, next)) = take(rest, SET) {
        rest = next;
        let (attribute, _) = take(set, SEQUENCE)?;
        let (kind, value) = take(attribute, OBJECT_IDENTIFIER)?;
        if kind == COMMON_NAME {
            let (text, _) = STRINGS.iter().find_map(|tag| take(value, *tag))?;
            name = Some(String::from_utf8(text.to_vec()).ok()?);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn of(names: &[(DnType, &str)]) -> Option<String> {
        let mut params = CertificateParams::new(["a".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        common_name(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    #[test]
    fn the_common_name_is_found_among_others() {
        let organization = (DnType::OrganizationName, "system:masters");
        let common = (DnType::CommonName, "kube-apiserver");
        assert_eq!(
            of(&[organization.clone(), common.clone()]).as_deref(),
            Some("kube-apiserver")
        );
        assert_eq!(of(&[common, organization.clone()]).as_deref(), Some("kube-apiserver"));
        assert_eq!(of(&[(DnType::CommonName, "Käthe")]).as_deref(), Some("Käthe"));
        assert_eq!((of(&[organization]), of(&[])), (None, None));
        assert_eq!(common_name(&CertificateDer::from(vec![0x30, 0x03])), None);
    }
}
