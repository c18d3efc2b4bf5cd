//! When a certificate begins and ends, and who issued it: the two fields of X.509 (RFC 5280, section 4.1) that are read here.
//!
//! Nothing is verified: this feeds a metric and warnings.

use rustls::pki_types::CertificateDer;

/// Tags of ASN.1 DER.
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// How long a certificate is good for, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`
    pub not_before: i64,
    /// `notAfter`
    pub not_after: i64,
}

/// `notAfter` of a certificate, in seconds since 1970; nothing where the certificate cannot be read.
pub fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    validity(certificate).map(|validity| validity.not_after)
}

/// The validity of a certificate; nothing where the certificate cannot be read.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let (_issuer, rest) = from_issuer(certificate)?;
    let (validity, _) = take(rest, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(Validity { not_before, not_after })
}

/// The name of a certificate's issuer, the content of its DER; nothing where the certificate cannot be read.
pub(super) fn issuer<'c>(certificate: &'c CertificateDer<'_>) -> Option<&'c [u8]> {
    from_issuer(certificate).map(|(issuer, _)| issuer)
}

/// The issuer, and the fields behind it.
fn from_issuer<'c>(certificate: &'c CertificateDer<'_>) -> Option<(&'c [u8], &'c [u8])> {
    let (certificate, _) = take(certificate, SEQUENCE)?;
    let (fields, _) = take(certificate, SEQUENCE)?;
    let fields = take(fields, VERSION).map_or(fields, |(_, rest)| rest);
    let (_serial_number, rest) = take(fields, INTEGER)?;
    let (_signature, rest) = take(rest, SEQUENCE)?;
    take(rest, SEQUENCE)
}

/// The content of the first element, which has `tag`, and what follows it.
pub(super) fn take(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    // Lengths below 128 stand for themselves; of others the lower bits count the bytes that hold them.
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest
            .split_at_checked(usize::from(first & 0x7f))
            .filter(|(bytes, _)| bytes.len() <= 4)?;
        (
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            rest,
        )
    };
    let content = rest.split_at_checked(length)?;
    (found == tag).then_some(content)
}

/// The time at the start, in seconds since 1970, and what follows it.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let utc = take(der, UTC_TIME);
    let (text, rest) = utc.or_else(|| take(der, GENERALIZED_TIME))?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, text) = text.split_at_checked(if utc.is_some() { 2 } else { 4 })?;
    let year = match (utc, number(year)?) {
        // Two digits are a year from 1950 to 2049 (RFC 5280, section 4.1.2.5.1).
        (Some(_), year @ 50..) => 1900 + year,
        (Some(_), year) => 2000 + year,
        (None, year) => year,
    };
    let field = |at: usize| number(text.get(at..at + 2)?);
    let (month, day) = (field(0)?, field(2)?);
    let seconds = (field(4)? * 60 + field(6)?) * 60 + field(8)?;
    Some((days_since_1970(year, month, day) * 86_400 + seconds, rest))
}

fn number(text: &str) -> Option<i64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// Days of the Gregorian calendar, counted in years that begin in March so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 days lie between the first of March of the year 0 and 1970.
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> CertificateDer<'static> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, month, day);
        parameters.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let seconds = [
            (1999, 12, 31, 946_598_400),
            (2024, 2, 29, 1_709_164_800),
            (2038, 1, 19, 2_147_472_000),
            (2049, 12, 31, 2_524_521_600),
            (2050, 1, 1, 2_524_608_000),
            (4096, 1, 1, 67_090_118_400),
        ];
        for (year, month, day, expected) in seconds {
            assert_eq!(
                not_after(&certificate(year, month, day)),
                Some(expected),
                "{year}-{month}-{day}"
            );
        }
    }

    #[test]
    fn a_damaged_certificate_has_no_end() {
        let whole = certificate(2030, 1, 1);
        for end in 0..whole.len() {
            assert_eq!(
                not_after(&CertificateDer::from(whole[..end].to_vec())),
                None,
                "cut at {end}"
            );
        }
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] = 0xff;
            let _must_not_panic = not_after(&CertificateDer::from(damaged));
        }
    }
}
