//! Servers on loopback, with what they need.

use super::process;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take until it listens, and a webhook until it knows its cluster.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks: little against a start.
const PAUSE: Duration = Duration::from_millis(1);

/// The files of a server: certificate, key and values document.
pub(crate) struct Files {
    scratch: TempDir,
    /// The certificate that vouches for itself, PEM.
    pub(crate) authority: String,
}

/// A running server; dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    started: Instant,
    /// How long a webhook took from its start until it was ready.
    pub(crate) ready_after: Option<Duration>,
}

impl Files {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let certified = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
        let files = Self {
            scratch: TempDir::new()?,
            authority: certified.cert.pem(),
        };
        fs::write(files.path("tls.crt"), &files.authority)?;
        fs::write(files.path("tls.key"), certified.signing_key.serialize_pem())?;
        fs::write(files.path("values"), "linkerdVersion: v1\n")?;
        Ok(files)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// The program that is measured: the image's, which is static and has no gateway, where `OUTRIGGER_PROGRAMS` names a folder that
/// `image/programs` has filled.
fn program() -> PathBuf {
    env::var_os("OUTRIGGER_PROGRAMS").map_or_else(
        || env!("CARGO_BIN_EXE_outrigger").into(),
        |folder| Path::new(&folder).join("outrigger"),
    )
}

impl Server {
    /// Starts what `command` says for an address, and waits until somebody listens there.
    pub(crate) fn start(command: impl FnOnce(SocketAddr) -> io::Result<Command>) -> Result<Self, Box<dyn Error>> {
        let address = free_address()?;
        let mut command = command(address)?;
        let started = Instant::now();
        let server = Self {
            child: command.stdin(Stdio::null()).spawn()?,
            address,
            started,
            ready_after: None,
        };
        server.wait(|| TcpStream::connect(address).is_ok())?;
        Ok(server)
    }

    /// Starts the webhook with `flags` beside those for its files, and waits until it is ready.
    pub(crate) fn webhook(files: &Files, flags: impl FnOnce(&mut Command)) -> Result<Self, Box<dyn Error>> {
        let admin = free_address()?;
        let mut server = Self::start(|address| {
            let mut command = Command::new(program());
            command.args(["webhook", "--listen", &address.to_string()]);
            command.args(["--admin-listen", &admin.to_string()]);
            command.arg("--tls-dir").arg(files.scratch.path());
            command.arg("--values").arg(files.path("values"));
            command.arg("--trust-anchors").arg(files.path("tls.crt"));
            flags(&mut command);
            // The line of each request is written as a container's is: not to a terminal.
            command.stderr(File::create(files.path("log"))?);
            Ok(command)
        })?;
        server.wait(|| is_ready(admin).unwrap_or(false))?;
        server.ready_after = Some(server.started.elapsed());
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn wait(&self, mut condition: impl FnMut() -> bool) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + LIMIT;
        while !condition() {
            // A process that has ended has no CPU time any more.
            process::cpu_seconds(self.id())?;
            if Instant::now() > deadline {
                return Err(format!("the server at {} is not ready after {LIMIT:?}", self.address).into());
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Whether the webhook whose port for the operator is `admin` says that it is ready.
fn is_ready(admin: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(admin)?;
    stream.write_all(b"GET /ready HTTP/1.1\r\nhost: webhook\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200 "))
}
