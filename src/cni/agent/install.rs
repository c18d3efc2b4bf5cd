//! Installs the plugin on the node and keeps it installed: its programs, its credentials, its entry in the network
//! configuration.
//!
//! In this order, so that a configuration never names a program that is not there or that cannot learn anything; removed
//! in the opposite one. Everything is compared before it is written, so that a second look changes nothing. A file of
//! others that is broken, renamed or fought over is reported and left alone; nothing here ends the process.

mod file;

pub use file::FileError;

use crate::cni::conflist::folder::{self, File, Plan, Problem, Reading, Step};
use crate::cni::conflist::{List, PLUGIN};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use file::{Identity, Owner};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The programs, what is needed by another before it.
const PROGRAMS: [&str; 2] = ["outrigger-cni-api", PLUGIN];

/// Mode of the programs: everybody may run it, as the specification's own.
const EXECUTABLE: Owner = Owner::mode(0o755);

/// Mode of the credentials.
const SECRET: Owner = Owner::mode(0o600);

/// Writes of the configuration in a row that are fine: other installers write a few times when they start.
const PATIENCE: u32 = 5;

/// The first pause when it was written more often, which doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// Longest pause between two writes of a configuration that somebody else keeps changing back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A configuration that was left in peace for so long is not fought over any more.
const PEACE: Duration = Duration::from_secs(60);

/// Where everything is, as this process sees it.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The folder of the programs that are to be installed.
    pub source_dir: PathBuf,
    /// The folder of the node's plugins.
    pub bin_dir: PathBuf,
    /// The folder of network configurations.
    pub net_dir: PathBuf,
    /// The credentials; their folder is made for root alone.
    pub kubeconfig: PathBuf,
    /// Where libcni keeps how pods were set up, where that can be seen.
    pub cache_dir: Option<PathBuf>,
}

impl Layout {
    /// The plugin where it is installed.
    pub fn plugin(&self) -> PathBuf {
        self.bin_dir.join(PLUGIN)
    }
}

/// What a look at the node found and did.
#[derive(Debug, Default)]
pub struct Report {
    /// The configuration that the runtime uses, if our entry is in it now.
    pub used: Option<String>,
    /// What was written or removed, by path.
    pub changed: Vec<PathBuf>,
    /// Files of others that were left alone.
    pub problems: Vec<Problem>,
    /// What keeps the plugin from being installed or removed, a sentence each.
    pub errors: Vec<String>,
    /// Whether the programs stay, for pods that were set up with them.
    pub kept: bool,
}

impl Report {
    /// Whether program, credentials and entry are in place.
    pub fn is_complete(&self) -> bool {
        self.used.is_some() && self.errors.is_empty()
    }

    /// What keeps a pod from being set up with program, credentials and entry, given how the runtime reads the folder;
    /// `None` where they are in place, and used.
    pub fn obstacle(&self, reading: Reading) -> Option<String> {
        if !self.is_complete() {
            return Some(self.errors.join("; "));
        }
        // Those behind the one that is used are not looked at.
        let Problem { file, why } = self.problems.first().filter(|_| reading == Reading::Stops)?;
        Some(format!(
            "the container runtime uses no network configuration while {file} is the first: {why}"
        ))
    }
}

/// Keeps the plugin installed.
#[derive(Debug)]
pub struct Installer {
    layout: Layout,
    entry: Value,
    credentials: Option<String>,
    /// The installed programs when they were last compared, and those which they were compared with.
    compared: [Option<(Identity, Identity)>; PROGRAMS.len()],
    contest: Contest,
}

/// How often the configuration had to be written lately.
#[derive(Debug, Default)]
struct Contest {
    writes: u32,
    last: Option<Instant>,
}

impl Installer {
    /// An installer of `entry`; nothing is written yet, and what an earlier process left unfinished is removed.
    pub fn new(layout: Layout, entry: Value) -> Self {
        file::tidy(&layout.bin_dir);
        file::tidy(&layout.net_dir);
        if let Some(folder) = layout.kubeconfig.parent() {
            file::tidy(folder);
        }
        Self {
            layout,
            entry,
            credentials: None,
            compared: [None; PROGRAMS.len()],
            contest: Contest::default(),
        }
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The credentials to be installed from now on.
    pub fn set_credentials(&mut self, text: String) {
        self.credentials = Some(text);
    }

    /// Looks at everything, at the time `now`, and puts in place what is missing or different.
    pub fn reconcile(&mut self, now: Instant) -> Report {
        let mut report = Report::default();
        if let Err(error) = self.install(now, &mut report) {
            report.errors.push(error);
            report.used = None;
        }
        report
    }

    /// Takes everything away, in the safe order. The programs stay where the runtime remembers pods that were set up with
    /// them, for their DEL would fail without.
    ///
    /// # Errors
    /// At the first thing that cannot be removed; what must go after it stays.
    pub fn remove(&self) -> Result<Report, FileError> {
        let mut report = Report::default();
        let files = read_folder(&self.layout.net_dir, |_| true)?;
        let plan = folder::remove(&files);
        report.problems.clone_from(&plan.problems);
        let undone = self.take(&files, &plan, &mut report)?;
        if !undone || !plan.problems.is_empty() {
            report
                .errors
                .push("the configuration still names the plugin".to_owned());
            return Ok(report);
        }
        drop_file(&self.layout.kubeconfig, &mut report)?;
        report.kept = self.is_remembered();
        if !report.kept {
            for name in PROGRAMS.iter().rev() {
                drop_file(&self.layout.bin_dir.join(name), &mut report)?;
            }
        }
        Ok(report)
    }

    /// Our entry as the runtime reads it, with name and version of its network: what the plugin gets on standard input.
    pub fn installed(&self) -> Option<Value> {
        let files = read_folder(&self.layout.net_dir, folder::is_configuration).ok()?;
        let used = folder::install(&files, &self.entry).used?;
        let (list, entry): (List<'_>, &str) = folder::entry(&files, &used)?;
        let mut entry: Value = serde_json::from_str(entry).ok()?;
        let fields = entry.as_object_mut()?;
        fields.insert("name".to_owned(), list.name.into());
        fields.insert("cniVersion".to_owned(), list.version.into());
        Some(entry)
    }

    /// What comes later relies on what comes before it.
    fn install(&mut self, now: Instant, report: &mut Report) -> Result<(), String> {
        self.programs(report)?;
        self.credentials(report)?;
        self.configuration(now, report)
    }

    fn programs(&mut self, report: &mut Report) -> Result<(), String> {
        for (name, compared) in PROGRAMS.iter().zip(&mut self.compared) {
            let source = self.layout.source_dir.join(name);
            let target = self.layout.bin_dir.join(name);
            let identities = || Some((file::identity(&target)?, file::identity(&source)?));
            let found = identities();
            if found.is_some() && found == *compared {
                continue;
            }
            let wanted = || file::open(&source).map_err(said);
            let executable = found.is_some_and(|((.., mode), _)| mode & 0o777 == EXECUTABLE.mode);
            if !executable || !file::holds(&target, &wanted()?).unwrap_or(false) {
                file::put(&target, wanted()?, EXECUTABLE).map_err(said)?;
                report.changed.push(target.clone());
            }
            *compared = identities();
        }
        Ok(())
    }

    fn credentials(&self, report: &mut Report) -> Result<(), String> {
        let path = &self.layout.kubeconfig;
        let found = file::read_text(path);
        let Some(wanted) = &self.credentials else {
            let missing = |error| format!("no credentials yet, and {}: {error}", path.display());
            return found.map(drop).map_err(missing);
        };
        let private = file::identity(path).is_some_and(|(.., mode)| mode & 0o777 == SECRET.mode);
        if private && found.as_ref() == Ok(wanted) {
            return Ok(());
        }
        file::make_private_folder(path.parent().unwrap_or(path)).map_err(said)?;
        file::put(path, wanted.as_bytes(), SECRET).map_err(said)?;
        report.changed.push(path.clone());
        Ok(())
    }

    fn configuration(&mut self, now: Instant, report: &mut Report) -> Result<(), String> {
        let files = read_folder(&self.layout.net_dir, folder::is_configuration).map_err(said)?;
        let plan = folder::install(&files, &self.entry);
        report.problems.clone_from(&plan.problems);
        if !plan.steps.is_empty() {
            self.contest.enter(now)?;
            if !self.take(&files, &plan, report).map_err(said)? {
                return Err("the configuration was changed at the same moment, and is looked at again".to_owned());
            }
        }
        report.used = plan.used;
        match report.used {
            Some(_) => Ok(()),
            None => Err(format!(
                "{} has no network configuration that can hold the plugin",
                self.layout.net_dir.display()
            )),
        }
    }

    /// Takes the steps of `plan`; whether all could be, or another writer was faster.
    fn take(&self, files: &[File], plan: &Plan, report: &mut Report) -> Result<bool, FileError> {
        for step in &plan.steps {
            match step {
                Step::Remove { name } => drop_file(&self.layout.net_dir.join(name), report)?,
                Step::Write { name, text, like } => {
                    let path = self.layout.net_dir.join(name);
                    let owner = Owner::like(&self.layout.net_dir.join(like))?;
                    let before = files.iter().find(|file| file.name == *name);
                    let before = before.and_then(|file| file.text.as_deref().ok());
                    if !file::exchange(&path, before, text, owner)? {
                        return Ok(false);
                    }
                    report.changed.push(path);
                }
            }
        }
        Ok(true)
    }

    /// Whether the runtime remembers a pod that was set up with the plugin.
    fn is_remembered(&self) -> bool {
        let Some(folder) = self.layout.cache_dir.as_ref().map(|folder| folder.join("results")) else {
            return false;
        };
        let names = file::list(&folder).unwrap_or_default();
        let texts = names.iter().filter_map(|name| file::read(&folder.join(name)).ok());
        // The configuration that the pod was set up with is kept in base64.
        let mut configurations = texts.filter_map(|text| {
            let text: Value = serde_json::from_slice(&text).ok()?;
            STANDARD.decode(text.get("config")?.as_str()?).ok()
        });
        configurations.any(|text| String::from_utf8_lossy(&text).contains(PLUGIN))
    }
}

impl Contest {
    /// Asks whether to write at `now`.
    fn enter(&mut self, now: Instant) -> Result<(), String> {
        let since = self.last.map(|last| now.saturating_duration_since(last));
        if since.is_none_or(|since| since > PEACE + self.pause()) {
            self.writes = 0;
        }
        let pause = self.pause();
        if since.is_some_and(|since| since < pause) {
            return Err(format!(
                "somebody else keeps changing the network configuration back ({} times): it is written again {} s after \
                 the last time",
                self.writes,
                pause.as_secs()
            ));
        }
        self.writes = self.writes.saturating_add(1);
        self.last = Some(now);
        Ok(())
    }

    fn pause(&self) -> Duration {
        match self.writes.checked_sub(PATIENCE) {
            None => Duration::ZERO,
            Some(more) => FIRST_PAUSE.saturating_mul(1 << more.min(5)).min(LONGEST_PAUSE),
        }
    }
}

fn drop_file(path: &Path, report: &mut Report) -> Result<(), FileError> {
    if file::remove(path)? {
        report.changed.push(path.to_owned());
    }
    Ok(())
}

fn read_folder(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<File>, FileError> {
    let names = file::list(folder)?;
    let read = |name: String| File {
        text: file::read_text(&folder.join(&name)),
        name,
    };
    Ok(names.into_iter().filter(|name| wanted(name)).map(read).collect())
}

#[expect(clippy::needless_pass_by_value, reason = "it ends here")]
fn said(error: FileError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
