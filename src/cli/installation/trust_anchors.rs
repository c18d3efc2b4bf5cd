//! What trust anchors must be: the proxy that gets something else has no identity, and says so only in its log.

use anyhow::{Result, anyhow, bail, ensure};
use rustls::RootCertStore;
use rustls::pki_types::pem::{PemObject, SectionKind};

/// What nobody may see.
const SECRET: [SectionKind; 3] = [
    SectionKind::PrivateKey,
    SectionKind::RsaPrivateKey,
    SectionKind::EcPrivateKey,
];

/// Checks that `pem` are certificates in PEM, one at least, and nothing that is to stay secret; says which is wrong.
pub(super) fn check(pem: &str) -> Result<()> {
    let mut certificates = 0;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes()) {
        let (kind, der) = section.map_err(|error| anyhow!("is no PEM after certificate {certificates}: {error}"))?;
        if kind == SectionKind::Certificate {
            certificates += 1;
            let read = RootCertStore::empty().add(der.into());
            read.map_err(|error| anyhow!("certificate {certificates} cannot be read: {error}"))?;
        }
        if SECRET.contains(&kind) {
            bail!("holds a private key, which every pod would show: expected certificates alone");
        }
    }
    ensure!(
        certificates > 0,
        "holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(pem: &str) -> String {
        check(pem).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_trust_anchor_is_told() {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(["root.linkerd.cluster.local".to_owned()]).unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        check(&pem).unwrap();
        check(&format!("# old\n{pem}\n# new\n{pem}")).unwrap();
        for none in ["", "anchors", "# nothing\n", &key.public_key_pem()] {
            assert!(fault(none).starts_with("holds no certificate in PEM"), "{none}");
        }
        assert!(fault(&format!("{pem}{}", key.serialize_pem())).starts_with("holds a private key"));
        let cut = pem.replace("-----END CERTIFICATE-----", "");
        assert!(
            fault(&cut).starts_with("is no PEM after certificate 0: "),
            "{}",
            fault(&cut)
        );
        let other = "-----BEGIN CERTIFICATE-----\nYW5jaG9ycw==\n-----END CERTIFICATE-----\n";
        let second = fault(&format!("{pem}{other}"));
        assert!(second.starts_with("certificate 2 cannot be read: "), "{second}");
    }
}
