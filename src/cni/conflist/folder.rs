//! The folder of network configurations: which one the runtime uses, and what must be done to have our entry in it.
//!
//! libcni takes the files that end in `.conf`, `.conflist` or `.json`, in the order of their names, and runtimes use the
//! first of them. containerd then reads that one alone, broken or not; CRI-O goes on to the first that can be used. The
//! first that can be used is therefore right for both: with containerd, no pod starts while one before it is broken.
//!
//! A list is edited where it is. A single plugin cannot hold our entry, and its file belongs to somebody who reads it
//! again: it stays as it is, and a list of both goes beside it, under a name that is sorted just before.

use super::{ConfigurationError, List, Single};
use serde_json::Value;

/// What the names of lists that are made from single plugins end in.
const MADE: &str = "-outrigger.conflist";

/// What a container runtime does where the first file is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It uses the first that can be used: CRI-O, cri-dockerd.
    GoesOn,
    /// It uses none, and starts no pod: containerd (`loadFromConfDir` in go-cni).
    Stops,
}

impl Reading {
    /// That of a runtime by the version that a node's status has, such as `containerd://2.1.4`.
    pub fn of(runtime: &str) -> Self {
        match runtime.split_once("://") {
            Some(("containerd", _)) => Self::Stops,
            Some(_) | None => Self::GoesOn,
        }
    }
}

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, without the folder.
    pub name: String,
    /// Its content, or why it cannot be read.
    pub text: Result<String, String>,
}

/// What is to be done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its content is to be this.
    Write {
        /// Which.
        name: String,
        /// Its content.
        text: String,
        /// The file whose mode and owner it takes.
        like: String,
    },
    /// It is to go.
    Remove {
        /// Which.
        name: String,
    },
}

/// A file that cannot hold our entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which.
    pub file: String,
    /// Why, in a sentence.
    pub why: String,
}

/// What is to be done in the folder; without steps everything is as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The file that the runtime uses once the steps are taken; `None` where it has none that can hold our entry.
    pub used: Option<String>,
    /// What is to be done, in this order.
    pub steps: Vec<Step>,
    /// Files that are left alone.
    pub problems: Vec<Problem>,
}

/// What must be done for `entry` to be in the configuration that the runtime uses.
pub fn install(files: &[File], entry: &Value) -> Plan {
    let mut candidates: Vec<&File> = files
        .iter()
        .filter(|file| is_configuration(&file.name) && !file.name.ends_with(MADE))
        .collect();
    candidates.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    let mut plan = Plan::default();
    for file in candidates {
        match wanted(file, entry) {
            Ok((name, text)) => {
                if content(files, &name) != Some(text.as_str()) {
                    plan.steps.push(Step::Write {
                        name: name.clone(),
                        text,
                        like: file.name.clone(),
                    });
                }
                plan.used = Some(name);
                break;
            }
            Err(trouble) => {
                plan.problems.push(Problem {
                    file: file.name.clone(),
                    why: trouble.to_string(),
                });
                if matches!(trouble, Trouble::Configuration(error) if error.is_used()) {
                    break;
                }
            }
        }
    }
    plan.drop_stale(files);
    plan
}

/// What must be done for our entry to be nowhere, in files that others have renamed neither.
pub fn remove(files: &[File]) -> Plan {
    let mut plan = Plan::default();
    let mut gone = Vec::new();
    for file in files {
        let name = file.name.clone();
        if name.ends_with(MADE) {
            gone.push(Step::Remove { name });
            continue;
        }
        let Ok(text) = &file.text else { continue };
        match List::read(text) {
            Ok(list) if list.entry().is_some() => plan.steps.push(Step::Write {
                text: list.without().into_owned(),
                like: name.clone(),
                name,
            }),
            Err(ConfigurationError::NoPrimary) => gone.push(Step::Remove { name }),
            Err(error) if text.contains(super::PLUGIN) => plan.problems.push(Problem {
                file: name,
                why: error.to_string(),
            }),
            Ok(_) | Err(_) => {}
        }
    }
    plan.steps.extend(gone);
    plan
}

/// Our entry in the configuration called `name`, and the name and version of its network.
pub fn entry<'a>(files: &'a [File], name: &str) -> Option<(List<'a>, &'a str)> {
    let list = List::read(content(files, name)?).ok()?;
    let entry = list.entry()?;
    Some((list, entry))
}

impl Plan {
    /// Removes lists that were made of files that are no longer used. One whose source is there but broken stays: it is
    /// being written at this moment, and what is made of it works.
    fn drop_stale(&mut self, files: &[File]) {
        let made = files.iter().filter(|file| file.name.ends_with(MADE));
        let is_source = |file: &File, stem: &str| stem_of(&file.name) == Some(stem) && !file.name.ends_with("conflist");
        for file in made {
            let stem = file.name.strip_suffix(MADE).unwrap_or_default();
            let keep = match &self.used {
                Some(used) => *used == file.name,
                None => files.iter().any(|source| is_source(source, stem)),
            };
            if !keep {
                self.steps.push(Step::Remove {
                    name: file.name.clone(),
                });
            }
        }
    }
}

/// Why a file cannot hold our entry.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

/// The file, by name and content, that makes the runtime use `file` with `entry`.
fn wanted(file: &File, entry: &Value) -> Result<(String, String), Trouble> {
    let text = file
        .text
        .as_deref()
        .map_err(|error| Trouble::Unreadable(error.clone()))?;
    if file.name.ends_with(".conflist") {
        return Ok((file.name.clone(), List::read(text)?.with(entry).into_owned()));
    }
    let stem = stem_of(&file.name).unwrap_or_default();
    Ok((format!("{stem}{MADE}"), Single::read(text)?.list(entry)))
}

fn content<'a>(files: &'a [File], name: &str) -> Option<&'a str> {
    let file = files.iter().find(|file| file.name == name)?;
    file.text.as_deref().ok()
}

fn stem_of(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(stem, _)| stem)
}

/// Whether a runtime looks at a file of this name; a leading dot hides nothing from it.
pub fn is_configuration(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    matches!(ending, Some("conf" | "conflist" | "json"))
}

#[cfg(test)]
mod tests;
