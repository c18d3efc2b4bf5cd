//! The program `outrigger-cni-api`, which asks the API server with the credentials on the node: see `program` for what it
//! is told and answers. Proxies that the environment names are not looked at.

use super::deadline;
use super::program::{Answer, Question, Refusal};
use crate::cni::credentials::{Credentials, Material, Server};
use crate::cni::http::{self, Response};
use crate::pod::text;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server that is there answers a connection within a round trip; SYNs are repeated after 1 and 3 s.
const CONNECT: Duration = Duration::from_secs(3);

/// How long past its time a connection may take to say that its time is over.
const GRACE: Duration = Duration::from_millis(300);

/// More than any pod has.
const RESPONSE_LIMIT: u64 = 8 << 20;

/// Answers the question on standard input.
pub fn main() -> ExitCode {
    let mut question = String::new();
    let answer = io::stdin()
        .read_to_string(&mut question)
        .map_err(|error| error.to_string());
    let answer = answer.and_then(|_| serde_json::from_str(&question).map_err(|error| error.to_string()));
    let answer = match answer {
        Ok(question) => ask(question),
        Err(why) => Err(Refusal { why, passing: false }),
    };
    let told = serde_json::to_writer(io::stdout(), &Answer::from(answer));
    if told.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn ask(question: Question) -> Result<Option<Value>, Refusal> {
    let end = Instant::now() + Duration::from_millis(question.milliseconds);
    let asked = deadline::within(end + GRACE, move || pod(&question, end));
    asked.unwrap_or_else(|why| {
        Err(Refusal {
            why: format!("API server: {why}"),
            passing: true,
        })
    })
}

/// The pod that is asked for; `None` where there is none.
fn pod(question: &Question, deadline: Instant) -> Result<Option<Value>, Refusal> {
    let Question {
        kubeconfig,
        namespace,
        name,
        ..
    } = question;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let (server, response) = get(kubeconfig, &path, deadline)?;
    let refusal = |passing, why: &str| Refusal {
        why: format!("API server {server}, with the credentials of {kubeconfig}: {why}"),
        passing,
    };
    match response.status {
        200 => object(&response.body, "Pod")
            .map(Some)
            .ok_or_else(|| refusal(true, "its answer is no pod")),
        // Without such a pod it says so in an object of its own; another 404 comes from something that is no API server.
        404 if object(&response.body, "Status").is_some() => Ok(None),
        401 => Err(refusal(
            false,
            "status 401: it does not accept the token, which may have expired",
        )),
        403 => Err(refusal(false, "status 403: the account may not get pods")),
        status => Err(refusal(status == 429 || status >= 500, &format!("status {status}"))),
    }
}

/// The object that a response holds, where it is of this kind.
fn object(body: &[u8], kind: &str) -> Option<Value> {
    let object: Value = serde_json::from_slice(body).ok()?;
    (text(&object, "kind") == Some(kind)).then_some(object)
}

fn get(kubeconfig: &str, path: &str, deadline: Instant) -> Result<(Server, Response), Refusal> {
    let unusable = |why: String| Refusal {
        why: format!("credentials {kubeconfig}: {why}"),
        passing: true,
    };
    let file = read(Path::new(kubeconfig)).map_err(&unusable)?;
    let credentials = Credentials::parse(&file).map_err(|error| unusable(error.to_string()))?;
    let beside = Path::new(kubeconfig).parent().unwrap_or_else(|| Path::new("/"));
    let content = |material: &Material| match material {
        Material::Inline(text) => Ok(text.clone()),
        Material::File(path) => read(&beside.join(path)),
    };
    let token = credentials
        .token
        .as_ref()
        .filter(|_| credentials.server.tls)
        .map(content)
        .transpose();
    let token = token.map_err(&unusable)?.map(|token| token.trim().to_owned());
    if token.as_ref().is_some_and(|token| !http::is_plain(token)) {
        return Err(unusable("the token is empty or holds blanks".to_owned()));
    }
    let authority = credentials
        .authority
        .as_ref()
        .map(content)
        .transpose()
        .map_err(&unusable)?;
    let server = credentials.server;
    let request = http::get(&server, path, token.as_deref());
    let answer = exchange(&server, authority.as_deref(), &request, deadline);
    match answer {
        Ok(response) => Ok((server, response)),
        Err(why) => Err(Refusal {
            why: format!("API server {server}: {why}"),
            passing: true,
        }),
    }
}

#[expect(clippy::disallowed_methods, reason = "credentials are files")]
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn exchange(server: &Server, authority: Option<&str>, request: &str, deadline: Instant) -> Result<Response, String> {
    let stream = Connection::open(server, deadline)?;
    let bytes = match authority {
        None => talk(stream, request),
        Some(authority) => {
            let name = ServerName::try_from(server.certificate_name.clone()).map_err(|error| error.to_string())?;
            let connection =
                ClientConnection::new(Arc::new(trust(authority)?), name).map_err(|error| error.to_string())?;
            talk(StreamOwned::new(connection, stream), request)
        }
    };
    let late = |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    let said = |error: io::Error| {
        if late(&error) {
            "no answer in time".to_owned()
        } else {
            error.to_string()
        }
    };
    let bytes = bytes.map_err(said)?;
    Response::parse(&bytes).map_err(|error| error.to_string())
}

/// A connection on which nothing lasts longer than until `end`.
struct Connection {
    stream: TcpStream,
    end: Instant,
}

impl Connection {
    fn open(server: &Server, end: Instant) -> Result<Self, String> {
        let addresses = (server.host.as_str(), server.port).to_socket_addrs();
        let mut failed = "its name has no address".to_owned();
        for address in addresses.map_err(|error| error.to_string())? {
            match TcpStream::connect_timeout(&address, left(end).min(CONNECT)) {
                Ok(stream) => return Ok(Self { stream, end }),
                Err(error) => failed = error.to_string(),
            }
        }
        Err(failed)
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.end)))?;
        self.stream.read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.end)))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What is left until `end`; a limit of nothing would be none.
fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1))
}

/// Trusts the certificates of `authority` and no others.
fn trust(authority: &str) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()));
        added.map_err(|error| format!("its authority in the credentials cannot be used: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(versions
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

fn talk(mut stream: impl Read + Write, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut bytes = Vec::new();
    match stream.take(RESPONSE_LIMIT).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        // A server may close without the alert that TLS asks for; whether everything came is told by the lengths.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(bytes),
        Err(error) => Err(error),
    }
}
