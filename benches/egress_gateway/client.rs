//! A client that opens TLS as far as a middleman looks, and then says bytes of its own.

use crate::middle::Middle;
use crate::world::{ASK, HOST, PUSH};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, LazyLock};

/// A ClientHello with the server's name, as rustls sends it.
static HELLO: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let config = ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(HOST).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    hello
});

/// A connection by way of a middleman.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(crate) fn open(middle: &Middle) -> Self {
        let mut stream = TcpStream::connect(middle.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(&HELLO).unwrap();
        Self { stream }
    }

    /// Sends so many bytes, and waits until the server has them all.
    pub(crate) fn push(mut self, bytes: usize) {
        let chunk = vec![PUSH; 64 << 10];
        for _ in 0..bytes / chunk.len() {
            self.stream.write_all(&chunk).unwrap();
        }
        self.stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).unwrap();
        let bytes = u64::try_from(bytes).unwrap().to_be_bytes();
        assert_eq!(answer, bytes, "the server has all of it");
    }

    /// Sends a request of one byte, and waits for the answer.
    pub(crate) fn ask(&mut self) {
        self.stream.write_all(&[ASK]).unwrap();
        let mut answer = [0];
        self.stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [ASK]);
    }
}
