//! `outrigger certs`: certificates for development, made on the spot.
//!
//! A CA that lives for this one certificate, whose key is never written, and a leaf for the webhook. See
//! `certs/README.md` for what to use in production.

use super::names::is_subdomain;
use super::print;
use crate::webhook::certificate::{Issued, issue};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// Arguments of `certs`.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Folder to write ca.crt, tls.crt and tls.key to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Name that the API server dials, SERVICE.NAMESPACE.svc; may be repeated
    #[arg(long, value_name = "NAME", required = true, value_parser = host)]
    dns: Vec<String>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

/// Writes the files, and prints the `caBundle` of the webhook's configuration.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let made = make(&arguments.dns)?;
    let files: [(_, &str, _); 3] = [
        ("ca.crt", &made.authority, 0o644),
        ("tls.crt", &made.certificate, 0o644),
        ("tls.key", &made.key, 0o600),
    ];
    let folder = &arguments.out;
    let taken = files
        .iter()
        .find(|(name, ..)| !arguments.force && folder.join(name).exists());
    if let Some((name, ..)) = taken {
        bail!("{} exists: give --force to replace it", folder.join(name).display());
    }
    create(folder).with_context(|| folder.display().to_string())?;
    let mut written = Vec::new();
    for (name, text, mode) in files {
        let path = folder.join(name);
        let file = write(folder, text, mode).with_context(|| path.display().to_string())?;
        written.push((path, file));
    }
    // Only what is whole takes its place, so that no certificate is left with another one's key.
    for (path, file) in written {
        file.persist(&path).with_context(|| path.display().to_string())?;
    }
    print(&format!("{}\n", STANDARD.encode(&made.authority)))
}

/// Reads the name or the address of a host.
fn host(text: &str) -> Result<String> {
    let valid = is_subdomain(text) || text.parse::<IpAddr>().is_ok();
    ensure!(valid, "expected a host's name in lower case, or its address");
    Ok(text.to_owned())
}

/// How long a certificate for development is good for.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn make(names: &[String]) -> Result<Issued> {
    let now = SystemTime::now();
    issue("Outrigger development CA", names, now, now + VALIDITY).context("--dns")
}

#[expect(clippy::disallowed_methods, reason = "writing files is what the command is for")]
fn create(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

/// Writes a file of another name into `folder`, so that no reader sees half of it; it goes where it is not kept.
fn write(folder: &Path, text: &str, mode: u32) -> std::io::Result<NamedTempFile> {
    let permissions = fs::Permissions::from_mode(mode);
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}
