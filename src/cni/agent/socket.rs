//! The socket on which the plugin asks: one line of JSON each way, see [`crate::cni::facts`].
//!
//! Only root reaches it. Whoever asks gets a limit on everything: connections, length of the question, time.

use super::metrics::Metrics;
use super::pods::Pods;
use crate::cni::call::PodName;
use crate::cni::facts::{Reply, Request};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// Questions that are answered at the same time; a node has at most a few hundred pods. More wait in the kernel's queue.
const CONNECTIONS: usize = 64;

/// Longest question; names and UIDs have a few hundred bytes.
const QUESTION: u64 = 16 << 10;

/// How long a question may take to arrive, and its answer to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a pod that is not known yet is waited for: less than the 3 s that the plugin waits.
const UNKNOWN: Duration = Duration::from_secs(2);

/// How long accepting pauses after an error that another attempt would meet again.
const PAUSE: Duration = Duration::from_millis(200);

/// The file that a socket is bound to.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }

    /// Removes the file, unless another agent listens there by now.
    pub(super) fn remove(&self) -> io::Result<()> {
        match identity(&self.path) {
            Ok(found) if found == self.identity =>
            {
                #[expect(clippy::disallowed_methods, reason = "a socket is a file")]
                std::fs::remove_file(&self.path)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Listens at `path`, in place of whoever did before: there is no moment without a socket.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let folder = path.parent().unwrap_or(path);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_ours(folder)? {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    #[expect(clippy::disallowed_methods, reason = "a socket is a file")]
    let discard = || std::fs::remove_file(&beside);
    // What an earlier process of that number left, if any did.
    discard().ok();
    let listener = UnixListener::bind(&beside)?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600))?;
    #[expect(clippy::disallowed_methods, reason = "a socket is a file")]
    std::fs::rename(&beside, path)?;
    Ok((listener, SocketFile::of(path)?))
}

/// Whether nothing is in `folder` but what the agent makes. The kubelet makes it for everybody to see; a folder that others
/// use, too, stays as it is.
fn is_ours(folder: &Path) -> io::Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "a folder is a file")]
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !["cni.", "kubeconfig", ".outrigger-"]
            .iter()
            .any(|ours| name.starts_with(ours))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Answers for as long as it is polled.
pub(super) async fn serve(listener: UnixListener, pods: Arc<Pods>, metrics: Arc<Metrics>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (pods, metrics) = (Arc::clone(&pods), Arc::clone(&metrics));
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, &pods, &metrics).await {
                        debug!(%error, "a question was not answered");
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "the socket accepts nothing");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, pods: &Pods, metrics: &Metrics) -> io::Result<()> {
    let mut stream = BufReader::new(stream.take(QUESTION));
    let mut line = Vec::new();
    timeout(PATIENCE, stream.read_until(b'\n', &mut line)).await??;
    let (reply, outcome) = reply(&line, pods).await;
    metrics.asked(outcome);
    let mut reply = serde_json::to_vec(&reply)?;
    reply.push(b'\n');
    let mut stream = stream.into_inner().into_inner();
    timeout(PATIENCE, stream.write_all(&reply)).await??;
    stream.shutdown().await
}

/// The answer to a line, and a word for it.
async fn reply(line: &[u8], pods: &Pods) -> (Reply, &'static str) {
    let error = |why: &str| Reply::Error(why.to_owned());
    let question = match serde_json::from_slice::<Request>(line) {
        Ok(_) if !pods.settled() => return (error("the pods of this node are not listed yet"), "not_ready"),
        Ok(Request::Status { .. }) => return (Reply::Ready(true), "status"),
        Ok(Request::Pod(question)) => question,
        Err(_) => return (error("the question is none of the protocol's"), "malformed"),
    };
    let name = PodName {
        namespace: question.namespace,
        name: question.name,
        uid: question.uid.filter(|uid| !uid.is_empty()),
    };
    match pods.wait(&name, UNKNOWN).await {
        Some(pod) => (Reply::Pod(pod.as_ref().clone()), "found"),
        None => (error("no such pod is known on this node"), "unknown"),
    }
}

#[cfg(test)]
mod tests;
