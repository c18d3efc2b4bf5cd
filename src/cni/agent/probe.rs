//! Asks the installed plugin, through the installed configuration, whether it could set a pod up: its STATUS.

use super::install::Installer;
use crate::pod::text;
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The first version that has STATUS; the plugin is asked in it whatever the version of the network.
const VERSION: &str = "1.1.0";

/// The plugin itself answers within 10 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often its end is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Longest answer that is read.
const ANSWER: u64 = 64 << 10;

/// Asks; the error is what the plugin says, or why it could not be asked.
pub(super) fn status(installer: &Installer) -> Result<(), String> {
    let mut configuration = installer
        .installed()
        .ok_or("the plugin is in no network configuration")?;
    if let Some(fields) = configuration.as_object_mut() {
        fields.insert("cniVersion".to_owned(), VERSION.into());
    }
    let layout = installer.layout();
    let (succeeded, answer) = ask(&layout.plugin(), &layout.bin_dir, &configuration)
        .map_err(|error| format!("the installed plugin cannot be asked: {error}"))?;
    if succeeded {
        return Ok(());
    }
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    Err(text(&answer, "msg")
        .unwrap_or("the installed plugin fails without a word")
        .to_owned())
}

fn ask(plugin: &Path, folder: &Path, configuration: &Value) -> io::Result<(bool, String)> {
    #[expect(clippy::disallowed_methods, reason = "a plugin is a program")]
    let mut command = Command::new(plugin);
    let mut child = command
        .env_clear()
        .env("CNI_COMMAND", "STATUS")
        .env("CNI_PATH", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // One that reads nothing has its say all the same.
        input.write_all(configuration.to_string().as_bytes()).ok();
    }
    let succeeded = wait(&mut child)?;
    let mut answer = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER).read_to_string(&mut answer)?;
    }
    Ok((succeeded, answer))
}

fn wait(child: &mut Child) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("no answer within {} s", PATIENCE.as_secs())));
        }
        #[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do")]
        thread::sleep(LOOK);
    }
}
