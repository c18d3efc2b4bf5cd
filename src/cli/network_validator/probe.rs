//! One family tried: connect, and see who answers.

use super::{Outcome, route};
use crate::redirect::Family;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Between two attempts: the rules may still come, when an agent repairs the pod.
const PAUSE: Duration = Duration::from_millis(100);

/// For one attempt: within a pod an answer takes no time at all.
const ANSWER: Duration = Duration::from_secs(1);

/// Listens where the proxy will, and answers with what nobody else can know.
#[derive(Debug)]
pub(super) struct Listener {
    token: String,
}

impl Listener {
    /// Listens at `address`, for both families where it is `[::]`.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, String> {
        let token = token();
        let listener = TcpListener::bind(address).or_else(|error| {
            // A kernel without IPv6 has nothing to prove for it.
            let no_ipv6 = address.is_ipv6() && address.ip().is_unspecified() && error.kind() != ErrorKind::AddrInUse;
            if no_ipv6 {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
            } else {
                Err(error)
            }
        });
        let listener = listener.map_err(|error| {
            let what = if error.kind() == ErrorKind::AddrInUse {
                "the port is in use by another program"
            } else {
                "that failed"
            };
            format!("cannot listen at {address}: {what}: {error}")
        })?;
        let answer = token.clone();
        // It ends with the process.
        let _answering = thread::spawn(move || answer_all(&listener, &answer));
        Ok(Self { token })
    }
}

fn answer_all(listener: &TcpListener, answer: &str) {
    for stream in listener.incoming().flatten() {
        let _gone = (&stream).write_all(answer.as_bytes());
    }
}

/// Random enough that no server sends it by chance; each hasher of the standard library has keys of its own.
fn token() -> String {
    let parts = [0_u8, 1, 2, 3].map(|part| format!("{:016x}", RandomState::new().hash_one(part)));
    parts.concat()
}

/// What is tried, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe<'a> {
    pub(super) listener: &'a Listener,
    pub(super) family: Family,
    pub(super) connect: SocketAddr,
    pub(super) deadline: Instant,
}

impl Probe<'_> {
    /// Tries until the listener answers or the time is up.
    pub(super) fn run(&self) -> Outcome {
        self.until(|| self.attempt(|address| self.connect(address)))
    }

    /// Tries until a datagram is refused or the time is up. Were it not, it would lead nowhere.
    pub(super) fn fence(&self) -> Outcome {
        self.until(|| self.attempt(send))
    }

    fn until(&self, attempt: impl Fn() -> Outcome) -> Outcome {
        loop {
            let outcome = attempt();
            let left = self.deadline.saturating_duration_since(Instant::now());
            if !matches!(outcome, Outcome::NotRedirected(_)) || left.is_zero() {
                return outcome;
            }
            #[expect(clippy::disallowed_methods, reason = "nothing tells when rules come")]
            thread::sleep(PAUSE.min(left));
        }
    }

    /// One attempt, with the first address that a route leads to.
    fn attempt(&self, work: impl FnOnce(SocketAddr) -> Outcome) -> Outcome {
        let given = Some(self.connect.ip()).filter(|address| family(*address) == self.family);
        match given
            .into_iter()
            .chain(route::candidates(self.family))
            .find(|address| route::is_elsewhere(*address))
        {
            Some(address) => work(SocketAddr::new(address, self.connect.port())),
            None => Outcome::NotTested(format!("no {} route leads out of this pod", self.family)),
        }
    }

    fn connect(&self, address: SocketAddr) -> Outcome {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let answered =
            TcpStream::connect_timeout(&address, left.clamp(Duration::from_millis(1), ANSWER)).and_then(read);
        match answered {
            Ok(answer) if answer == self.listener.token.as_bytes() => Outcome::Redirected,
            Ok(_) => Outcome::NotRedirected(format!("{address} answered itself")),
            Err(error) => Outcome::NotRedirected(format!(
                "a connection to {address} did not reach the proxy's port: {error}"
            )),
        }
    }
}

/// The kernel tells whoever sends what a rule drops.
fn send(address: SocketAddr) -> Outcome {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    match UdpSocket::bind((any, 0)).and_then(|socket| socket.send_to(&[0], address)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Outcome::Redirected,
        Ok(_) => Outcome::NotRedirected(format!("no fence: a datagram to {address} leaves the pod")),
        Err(error) => Outcome::NotTested(format!(
            "a datagram to {address} does not get as far as a fence: {error}"
        )),
    }
}

fn read(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER))?;
    let mut answer = Vec::new();
    // One byte more than a token tells a longer answer.
    io::Read::by_ref(&mut stream).take(65).read_to_end(&mut answer)?;
    Ok(answer)
}

const fn family(address: IpAddr) -> Family {
    match address {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}
