//! A client that keeps its connection: HTTP/1.1 over TLS, one request at a time, as an API server with little to do.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A connection to a webhook.
pub(crate) struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl Connection {
    /// Connects to `address`, whose certificate must be vouched for by `authority` (PEM).
    pub(crate) fn open(address: SocketAddr, authority: &str) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).map_err(io::Error::other)?;
        roots.add(authority).map_err(io::Error::other)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(StreamOwned::new(session, socket)),
        })
    }

    /// Sends `review` and returns the body of the answer, whose status must be 200.
    pub(crate) fn ask(&mut self, review: &[u8]) -> io::Result<Vec<u8>> {
        let head = format!(
            "POST / HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            review.len()
        );
        let request = [head.as_bytes(), review].concat();
        self.stream.get_mut().write_all(&request)?;
        let mut body = vec![0; self.head()?];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// Reads the head of an answer, and returns the length of its body.
    fn head(&mut self) -> io::Result<usize> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 200 ") {
            return Err(io::Error::other(format!("the answer starts with {line:?}")));
        }
        let mut length = None;
        while line.trim_end() != "" {
            line.clear();
            self.stream.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        length.ok_or_else(|| io::Error::other("the answer has no content-length"))
    }
}
