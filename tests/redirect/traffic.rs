//! Who answers: listeners that say who they are and where a connection was bound for, and clients of any UID.

use crate::netns::Netns;
use rustix::io::Errno;
use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Longer than any answer within one machine takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A pod and its peer, joined by one cable, with addresses of both families.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) pod: Netns,
    pub(crate) peer: Netns,
}

pub(crate) const POD_V4: &str = "10.77.0.2";
pub(crate) const PEER_V4: &str = "10.77.0.1";
pub(crate) const POD_V6: &str = "fd77::2";
pub(crate) const PEER_V6: &str = "fd77::1";

impl Pair {
    pub(crate) fn new() -> Self {
        Self::of(Netns::new(), Netns::new())
    }

    pub(crate) fn of(pod: Netns, peer: Netns) -> Self {
        let pair = Self { pod, peer };
        pair.pod.ip(&[
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            pair.peer.name(),
        ]);
        for (end, v4, v6) in [(&pair.pod, POD_V4, POD_V6), (&pair.peer, PEER_V4, PEER_V6)] {
            end.ip(&["addr", "add", &format!("{v4}/24"), "dev", "eth0"]);
            end.ip(&["addr", "add", &format!("{v6}/64"), "dev", "eth0", "nodad"]);
            end.ip(&["link", "set", "eth0", "up"]);
        }
        pair.pod.ip(&["route", "add", "default", "via", PEER_V4]);
        pair.pod.ip(&["-6", "route", "add", "default", "via", PEER_V6]);
        pair
    }
}

/// Listens in a namespace and answers every connection with `answer`, until the test ends.
pub(crate) fn listen(namespace: &Netns, address: &str, answer: impl Fn(&TcpStream) -> String + Send + 'static) {
    let listener = namespace
        .inside(|| TcpListener::bind(address))
        .unwrap_or_else(|error| panic!("{address}: {error}"));
    // The socket stays where it was made; the thread ends with the test.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _gone = (&stream).write_all(answer(&stream).as_bytes());
        }
    });
}

/// Who it is, where the connection was bound for, where it arrived, and whence.
pub(crate) fn introduction(name: &str, stream: &TcpStream) -> String {
    let ends = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
    let (peer, local) = ends.expect("the connection stands");
    let original = match local.ip().to_canonical() {
        IpAddr::V4(_) => ip_original_dst(stream).map(SocketAddr::V4),
        IpAddr::V6(_) => ipv6_original_dst(stream).map(SocketAddr::V6),
    };
    let original = original.map_or_else(
        |error| format!("none({})", strerror(error)),
        |address| address.to_string(),
    );
    let (local_ip, from) = (local.ip().to_canonical(), peer.ip().to_canonical());
    format!("{name} orig={original} local={local_ip}:{} from={from}", local.port())
}

/// What a client of one UID gets from an address.
pub(crate) fn ask(namespace: &Netns, uid: u32, address: SocketAddr) -> String {
    namespace.inside(|| {
        become_user(uid).expect("root may become anybody");
        said(connect(address))
    })
}

/// What a datagram to an address gets.
pub(crate) fn ask_udp(namespace: &Netns, uid: u32, address: SocketAddr) -> String {
    namespace.inside(|| {
        become_user(uid).expect("root may become anybody");
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        said(UdpSocket::bind(any).and_then(|socket| {
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(address)?;
            socket.send(b"x")?;
            let mut answer = [0; 100];
            let length = socket.recv(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
        }))
    })
}

fn connect(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// An answer, or the error in the words of Python, in which the recorded probes are.
fn said(answer: io::Result<String>) -> String {
    answer.unwrap_or_else(|error| match Errno::from_io_error(&error) {
        Some(errno @ Errno::CONNREFUSED) => format!("ERR ConnectionRefusedError {}", strerror(errno)),
        Some(errno) => format!("ERR OSError {}", strerror(errno)),
        None => format!("ERR {error}"),
    })
}

fn strerror(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Of this thread alone.
pub(crate) fn become_user(id: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}
