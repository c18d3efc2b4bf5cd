//! The agent on its Unix socket: see `facts` for what is said there.

use crate::cni::facts::{LINE_LIMIT, Reply, Request};
use std::fmt::Display;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// An agent answers from memory; one that takes longer is stuck, and time must be left for the API server.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the agent that listens at `path`.
pub(super) fn ask(path: &str, request: &Request) -> Result<Reply, String> {
    let said = |error: &dyn Display| format!("agent at {path}: {error}");
    let exchange = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut reply = Vec::new();
        BufReader::new(stream.take(LINE_LIMIT)).read_until(b'\n', &mut reply)?;
        Ok(reply)
    };
    let reply = exchange().map_err(|error| {
        if error.kind() == ErrorKind::WouldBlock {
            said(&"no answer within 3 s")
        } else {
            said(&error)
        }
    })?;
    serde_json::from_slice(&reply).map_err(|_not_ours| said(&"its answer is none of the protocol's"))
}
