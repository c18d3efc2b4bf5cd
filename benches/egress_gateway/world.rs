//! A pod's namespace, one for the middlemen, and one with a server and a name server.

use crate::netns::Netns;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::env;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Addresses of the pod and of the middlemen on its side.
pub(crate) const POD: &str = "10.88.0.2";
pub(crate) const INSIDE: &str = "10.88.0.1";

/// The server and its name.
pub(crate) const SERVER: &str = "203.0.113.10:443";
pub(crate) const HOST: &str = "api.example.com";
/// A `resolv.conf` with the name server.
pub(crate) const NAME_SERVER: &str = "nameserver 203.0.113.10\n";
const ADDRESS: [u8; 4] = [203, 0, 113, 10];

/// What a client says after its hello: bytes to be counted, or a request.
pub(crate) const PUSH: u8 = b'p';
pub(crate) const ASK: u8 = b'a';

/// The variable that makes this program another one, and what it says for the server.
pub(crate) const ROLE: &str = "OUTRIGGER_BENCH_ROLE";
pub(crate) const SERVES: &str = "server";

pub(crate) struct World {
    pub(crate) pod: Netns,
    pub(crate) inside: Netns,
    server: Child,
    _outside: Netns,
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let (pod, inside, outside) = (Netns::new(), Netns::new(), Netns::new());
        for (end, address, near, name) in [
            (&pod, POD, INSIDE, "pod"),
            (&outside, "203.0.113.10", "203.0.113.1", "net"),
        ] {
            end.ip(&[
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                name,
                "netns",
                inside.name(),
            ]);
            end.ip(&["addr", "add", &format!("{address}/24"), "dev", "eth0"]);
            end.ip(&["link", "set", "eth0", "up"]);
            inside.ip(&["addr", "add", &format!("{near}/24"), "dev", name]);
            inside.ip(&["link", "set", name, "up"]);
        }
        let names = outside
            .inside(|| UdpSocket::bind(SocketAddr::from((ADDRESS, 53))))
            .unwrap();
        thread::spawn(move || answer_names(&names));
        let mut server = Command::new(env::current_exe().unwrap());
        let server = outside.inside(|| server.env(ROLE, SERVES).spawn()).unwrap();
        Self {
            pod,
            inside,
            server,
            _outside: outside,
            folder: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _gone = self.server.kill();
        let _ended = self.server.wait();
    }
}

/// Lets this process and those that it starts have as many files open as it may, and says how many.
pub(crate) fn allow_files() -> u64 {
    let allowed = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: allowed,
        maximum: allowed,
    };
    setrlimit(Resource::Nofile, limit).expect("anybody may go up to the limit");
    allowed.unwrap_or(u64::MAX)
}

/// Serves until the process ends.
pub(crate) fn serve() -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(SERVER).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(stream));
        }
    })
}

/// Passes over the hello; then counts what is pushed, or answers what is asked.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    let [_, _, _, high, low] = head;
    let mut hello = vec![0; u16::from_be_bytes([high, low]).into()];
    stream.read_exact(&mut hello).await?;
    let first = stream.read_u8().await?;
    if first == ASK {
        stream.write_u8(ASK).await?;
        while stream.read_u8().await? == ASK {
            stream.write_u8(ASK).await?;
        }
        return Ok(());
    }
    let mut buffer = vec![0; 256 << 10];
    let mut count = 1;
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            more => count += u64::try_from(more).unwrap_or_default(),
        }
    }
    stream.write_u64(count).await
}

/// Answers every question for an IPv4 address with the server's, and every other with that there is none, which may be
/// remembered for an hour as well (RFC 1035, 2308).
fn answer_names(socket: &UdpSocket) {
    let mut question = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut question) {
        let Some(name) = question[12..length].iter().position(|&byte| byte == 0) else {
            continue;
        };
        let end = 12 + name + 5;
        let is_ipv4 = question[end - 4..end - 2] == [0, 1];
        let (answers, authorities) = (u8::from(is_ipv4), u8::from(!is_ipv4));
        let head = [0x81, 0x80, 0, 1, 0, answers, 0, authorities, 0, 0];
        let mut reply = [&question[..2], &head, &question[12..end]].concat();
        let record = |kind, length| [0xc0, 12, 0, kind, 0, 1, 0, 0, 0x0e, 0x10, 0, length];
        if is_ipv4 {
            reply.extend(record(1, 4));
            reply.extend(ADDRESS);
        } else {
            reply.extend(record(6, 22));
            reply.extend([0; 20]);
            reply.extend([0x0e, 0x10]);
        }
        let _gone = socket.send_to(&reply, from);
    }
}
