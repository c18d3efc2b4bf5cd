//! A stand-in for the agent: it answers every line on a Unix socket as a test says.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Listens until the test ends.
#[derive(Debug)]
pub(crate) struct Agent {
    folder: TempDir,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Agent {
    /// Answers with what `answer` makes of a request.
    pub(crate) fn new(answer: impl Fn(&Value) -> String + Send + 'static) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let listener = UnixListener::bind(folder.path().join("cni.sock")).expect("a socket can be made");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut line = String::new();
                let read = BufReader::new(&stream).read_line(&mut line);
                let request: Value = read
                    .ok()
                    .and_then(|_| serde_json::from_str(&line).ok())
                    .expect("a line of JSON");
                log.lock().expect("no test panics with it").push(request.clone());
                let _gone = stream.write_all(answer(&request).as_bytes());
            }
        });
        Self { folder, asked }
    }

    /// Knows one pod and is ready.
    pub(crate) fn knowing(pod: Value) -> Self {
        Self::new(move |request| match request["status"] == true {
            true => json!({"ready": true}).to_string() + "\n",
            false => json!({"pod": pod}).to_string() + "\n",
        })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("cni.sock")
    }

    /// What was asked.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("no test panics with it").clone()
    }
}
