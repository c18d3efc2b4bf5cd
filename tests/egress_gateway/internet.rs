//! A stand-in for the internet: name servers, and servers that say who they are and what they were asked.

use crate::authority::Authority;
use crate::netns::Netns;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// The name server's address.
pub(crate) const DNS: &str = "203.0.113.53";

/// Hosts with servers, and the last byte of their address in 203.0.113.0/24.
pub(crate) const HOSTS: [(&str, u8); 10] = [
    ("api.github.com", 10),
    ("www.example.com", 11),
    ("www.example.net", 12),
    ("example.com.evil.test", 13),
    ("xn--bcher-kva.example", 14),
    ("expired.test", 15),
    ("misnamed.test", 16),
    ("untrusted.test", 17),
    ("db.example.com", 18),
    ("example.com", 19),
];

/// Names that lead elsewhere.
const TRAPS: [(&str, &[[u8; 4]]); 6] = [
    ("loopback.example.com", &[[127, 0, 0, 1]]),
    ("metadata.example.com", &[[169, 254, 169, 254]]),
    ("cluster.example.com", &[[10, 96, 0, 1]]),
    // The first answers nobody; the second is that of api.github.com.
    ("half-dead.example.com", &[[203, 0, 113, 53], [203, 0, 113, 10]]),
    ("closed.example.com", &[[203, 0, 113, 53]]),
    // What search domains would make of a foreign name.
    ("api.github.com.shop.svc.cluster.local", &[[10, 96, 0, 1]]),
];

/// All servers. They run until the test ends.
pub(crate) struct Internet {
    pub(crate) authority: Authority,
    /// How often each host was connected to.
    visits: Arc<Mutex<HashMap<String, usize>>>,
}

impl Internet {
    /// Starts them in `namespace`, which has their addresses.
    pub(crate) fn start(namespace: &Netns) -> Self {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let visits = Arc::new(Mutex::new(HashMap::new()));
        serve_names(namespace);
        for (name, last) in HOSTS {
            let config = match name {
                "expired.test" => authority.server(name, true),
                "misnamed.test" => authority.server("other.test", false),
                "untrusted.test" => stranger.server(name, false),
                _ => authority.server(name, false),
            };
            let tls = TlsAcceptor::from(config);
            let address = Ipv4Addr::new(203, 0, 113, last);
            for (port, tls) in [(80, None), (8080, None), (443, Some(tls))] {
                let listener = listen(namespace, address, port);
                let visits = Arc::clone(&visits);
                thread::spawn(move || serve_http(name, listener, tls.as_ref(), &visits));
            }
        }
        let db = Ipv4Addr::new(203, 0, 113, 18);
        let listener = listen(namespace, db, 5432);
        thread::spawn(move || greet(&listener));
        let socket = namespace.inside(|| UdpSocket::bind((db, 5353))).unwrap();
        thread::spawn(move || echo(&socket));
        Self { authority, visits }
    }

    /// How often the servers of `host` were connected to.
    pub(crate) fn visits(&self, host: &str) -> usize {
        self.visits.lock().unwrap().get(host).copied().unwrap_or_default()
    }
}

fn listen(namespace: &Netns, address: Ipv4Addr, port: u16) -> TcpListener {
    namespace.inside(|| TcpListener::bind((address, port))).unwrap()
}

/// A server that speaks first, and then echoes lines.
fn greet(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            let mut greeted = stream.write_all(b"welcome\n");
            while greeted.is_ok() {
                match stream.read(&mut buffer) {
                    Ok(1..) => greeted = stream.write_all(b"heard\n"),
                    _ => return,
                }
            }
        });
    }
}

fn echo(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
        let _lost = socket.send_to(&buffer[..length], peer);
    }
}

fn serve_http(
    name: &'static str,
    listener: TcpListener,
    tls: Option<&TlsAcceptor>,
    visits: &Mutex<HashMap<String, usize>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            *visits.lock().unwrap().entry(name.to_owned()).or_default() += 1;
            let tls = tls.cloned();
            tokio::spawn(async move {
                match tls {
                    None => converse(name, stream, "none".to_owned()).await,
                    Some(tls) => {
                        let Ok(stream) = tls.accept(stream).await else { return };
                        let sni = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                        converse(name, stream, sni).await;
                    }
                }
            });
        }
    });
}

async fn converse(name: &'static str, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, sni: String) {
    let service = service_fn(move |request| answer(name, sni.clone(), request));
    let builder = auto::Builder::new(TokioExecutor::new());
    let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// Says who this is, and how it was asked: a line each, headers last.
async fn answer(name: &str, sni: String, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let authority = head
        .uri
        .authority()
        .map_or_else(|| "none".to_owned(), ToString::to_string);
    let mut text = format!(
        "server {name}\nversion {:?}\nsni {sni}\nmethod {}\npath {}\nauthority {authority}\nbytes {}\n",
        head.version,
        head.method,
        head.uri.path(),
        body.len(),
    );
    for (name, value) in &head.headers {
        text.extend([name.as_str(), ": ", &String::from_utf8_lossy(value.as_bytes()), "\n"]);
    }
    let is_grpc = head
        .headers
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if !is_grpc {
        return Ok(Response::new(Full::new(text.into()).boxed()));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Frame::data(Bytes::from(text)), Frame::trailers(trailers)];
    let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)));
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(BodyExt::boxed(body)).unwrap())
}

/// Answers for all names, and that there is none of any other.
fn serve_names(namespace: &Netns) {
    let socket = namespace
        .inside(|| UdpSocket::bind((DNS.parse::<IpAddr>().unwrap(), 53)))
        .unwrap();
    let mut zone: HashMap<String, Vec<[u8; 4]>> = HashMap::new();
    for (name, last) in HOSTS {
        zone.insert(name.to_owned(), vec![[203, 0, 113, last]]);
    }
    for (name, addresses) in TRAPS {
        zone.insert(name.to_owned(), addresses.to_vec());
    }
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut query) {
            if let Some(answer) = resolve(&query[..length], &zone) {
                let _lost = socket.send_to(&answer, peer);
            }
        }
    });
}

/// RFC 1035, section 4.1: one question, addresses of IPv4 for an answer.
fn resolve(query: &[u8], zone: &HashMap<String, Vec<[u8; 4]>>) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut place = 12;
    loop {
        let length = usize::from(*query.get(place)?);
        place += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(place..place + length)?).to_lowercase());
        place += length;
    }
    let question = query.get(12..place + 4)?;
    let is_a = query.get(place..place + 2)? == [0, 1];
    let found = zone.get(&labels.join("."));
    let addresses = found.filter(|_| is_a).cloned().unwrap_or_default();
    // An answer, recursion desired and available; no such name where there is none.
    let code = if found.is_some() { 0 } else { 3 };
    let mut answer = [
        &query[..2],
        &[
            0x81,
            0x80 | code,
            0,
            1,
            0,
            u8::try_from(addresses.len()).ok()?,
            0,
            0,
            0,
            0,
        ],
        question,
    ]
    .concat();
    for address in addresses {
        // The name of the question, type A, class IN, a minute.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address);
    }
    Some(answer)
}
