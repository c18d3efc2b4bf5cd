//! The process that a container runtime runs: reads the call, asks about the pod, writes, removes or checks its rules.
//!
//! It answers on standard output, the result or one error object, and nothing else goes there; what people should know
//! is logged on standard error. Whom to ask about a pod is `sources`' business, with one deadline over all of it.

#[cfg(feature = "node-api")]
pub mod api;

mod deadline;
mod journal;
mod program;
mod socket;
mod sources;

use super::call::{Call, PodName, Verb};
use super::config::{NetworkConfig, version_of};
use super::decision::{Exemption, exempt, exempt_by_name};
use super::failure::Failure;
use super::rules::{Rules, rules};
use super::version::Version;
use crate::pod::Pod;
use crate::redirect::apply::{self, Applied, ApplyError, Mode, Options, Wait};
use journal::Journal;
use serde_json::{Value, json};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// From the start of the process until no lock is waited for any more. The kubelet is told within 10 s, and what is left is
/// for the rules, which take milliseconds.
const LOCKS: Duration = Duration::from_millis(8500);

/// Runs the call that the environment and standard input make.
pub fn main() -> ExitCode {
    let begun = Instant::now();
    let mut input = String::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(begun, &mut input)));
    let outcome = outcome.unwrap_or_else(|_panic| {
        Err(Failure::Rules(
            "the plugin has a fault, which standard error tells".to_owned(),
        ))
    });
    let (answer, status) = match outcome {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(failure) => (failure.answer(version_of(&input)).to_string(), ExitCode::FAILURE),
    };
    match io::stdout().write_all(answer.as_bytes()) {
        Ok(()) => status,
        Err(_nobody_reads) => ExitCode::FAILURE,
    }
}

/// What is answered on standard output; `input` is left holding the network configuration.
fn run(begun: Instant, input: &mut String) -> Result<String, Failure> {
    #[expect(clippy::disallowed_methods, reason = "the specification passes the call there")]
    let call = Call::read(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()));
    // Read even when the call is wrong, since the answer is in the configuration's version; but people at a terminal
    // send nothing.
    if !io::stdin().is_terminal() {
        let read = io::stdin().read_to_string(input);
        read.map_err(|error| Failure::Input(error.to_string()))?;
    }
    let call = call?;
    if call.verb == Verb::Version {
        return Ok(version_of(input).report().to_string());
    }
    let config = NetworkConfig::parse(input)?;
    require(&call, &config)?;
    let attachment = Attachment {
        journal: Journal::new(config.log_level(), &call),
        begun,
        call: &call,
        config: &config,
    };
    match call.verb {
        Verb::Add => attachment.add(),
        Verb::Del => {
            attachment.delete();
            Ok(String::new())
        }
        Verb::Check => attachment.check().map(|()| String::new()),
        Verb::Status => attachment.status().map(|()| String::new()),
        // Nothing of ours outlives a pod's network namespace.
        Verb::Gc | Verb::Version => Ok(String::new()),
    }
}

/// Refuses a verb that the version of the configuration does not have.
fn require(call: &Call, config: &NetworkConfig<'_>) -> Result<(), Failure> {
    let needed = match call.verb {
        Verb::Check => Version::V040,
        Verb::Gc | Verb::Status => Version::V110,
        Verb::Add | Verb::Del | Verb::Version => Version::V030,
    };
    if config.version >= needed {
        return Ok(());
    }
    Err(Failure::TooOld {
        verb: call.verb.word(),
        needed,
        given: config.version,
    })
}

/// One call about one pod.
struct Attachment<'a> {
    call: &'a Call,
    config: &'a NetworkConfig<'a>,
    journal: Journal,
    begun: Instant,
}

/// The rules that a pod is to have, or why it has none.
enum Wanted {
    Rules(PodName, Box<Rules>),
    Nothing(Exemption),
}

impl Attachment<'_> {
    fn add(&self) -> Result<String, Failure> {
        match self.wanted()? {
            Wanted::Nothing(exemption) => self.journal.info(&format!("no rules: {}", exemption.word())),
            Wanted::Rules(_, rules) if self.simulates() => {
                self.journal
                    .info(&format!("simulated, so not written: {:?}", rules.redirection));
            }
            Wanted::Rules(_, rules) => self.write(&rules)?,
        }
        Ok(self.result())
    }

    fn write(&self, rules: &Rules) -> Result<(), Failure> {
        let options = Options {
            wait: self.wait(),
            ..rules.options
        };
        let applied: Applied = self.inside(|| apply::apply(&rules.redirection, options))?;
        for warning in rules.warnings.iter().chain(&applied.warnings) {
            self.journal.warn(warning);
        }
        let done = if applied.changed { "written" } else { "there already" };
        self.journal
            .info(&format!("the rules are in force, by {}, {done}", applied.by));
        Ok(())
    }

    /// The result of the plugin before, byte for byte.
    fn result(&self) -> String {
        match self.config.previous() {
            Some(previous) => previous.to_owned(),
            None => json!({"cniVersion": self.config.version.text()}).to_string(),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        let Wanted::Rules(pod, rules) = self.wanted()? else {
            return Ok(());
        };
        if self.simulates() {
            return Ok(());
        }
        let checked = apply::inside(self.netns(), || apply::check(&rules.redirection, rules.options));
        checked.and_then(|checked| checked).map_err(|error| {
            if matches!(error, ApplyError::NotInForce { .. }) {
                Failure::NotInForce {
                    pod: pod.path(),
                    why: error.to_string(),
                }
            } else {
                Failure::of_rules(&error)
            }
        })
    }

    /// Takes the rules away while there is a namespace to take them from.
    ///
    /// It asks nobody and never fails for the rules' sake: the namespace goes with the pod, and a pod whose DEL fails
    /// stays for ever.
    fn delete(&self) {
        let exempt = exempt_by_name(self.call.pod.as_ref(), self.config);
        let path = self.netns();
        let gone = self.call.netns.is_empty() || !is_there(path) || is_own_namespace(path);
        if gone || matches!(exempt, Some(Exemption::ExcludedNamespace | Exemption::OwnPod)) {
            return;
        }
        let native = self.remove(Mode::Native);
        let others: &[Mode] = match self.config.mode().unwrap_or_default() {
            Mode::Auto if !native => &[Mode::Nft, Mode::Legacy],
            Mode::Auto | Mode::Native => &[],
            Mode::Legacy => &[Mode::Legacy],
            Mode::Nft => &[Mode::Nft],
            Mode::Plain => &[Mode::Plain],
        };
        for &mode in others {
            self.remove(mode);
        }
    }

    /// Removes what one way of writing rules has written; whether that worked.
    fn remove(&self, mode: Mode) -> bool {
        let options = Options {
            mode,
            wait: self.wait(),
            ..native_options()
        };
        let removed = self.inside(|| apply::remove(options));
        if let Err(failure) = &removed {
            self.journal.warn(&format!("{mode} rules are not removed: {failure}"));
        }
        removed.is_ok()
    }

    fn status(&self) -> Result<(), Failure> {
        let mode = self.config.mode()?;
        sources::status(self.config, self.begun).map_err(Failure::NotReady)?;
        // Looks only; the programs of iptables would load modules into the node's kernel.
        let probed = match mode {
            Mode::Native => apply::check(&crate::redirect::Redirection::default(), native_options()),
            Mode::Auto | Mode::Legacy | Mode::Nft | Mode::Plain => Ok(()),
        };
        match probed {
            Ok(()) | Err(ApplyError::NotInForce { .. }) => Ok(()),
            Err(error) => Err(Failure::NotReady(error.to_string())),
        }
    }

    /// What the pod is to have: from its name where that is enough, else from what is known about it.
    fn wanted(&self) -> Result<Wanted, Failure> {
        if let Some(exemption) = exempt_by_name(self.call.pod.as_ref(), self.config) {
            return Ok(Wanted::Nothing(exemption));
        }
        let Some(name) = &self.call.pod else {
            return Ok(Wanted::Nothing(Exemption::NotKubernetes));
        };
        let path = self.netns();
        if is_own_namespace(path) {
            return Ok(Wanted::Nothing(Exemption::HostNetwork));
        }
        // Nobody need be asked about a pod that is gone.
        apply::inside(path, || ()).map_err(|error| Failure::of_rules(&error))?;
        let pod: Value = sources::pod(self.call, name, self.config, self.begun, &self.journal)?;
        let pod = Pod::new(&pod);
        if let Some(exemption) = exempt(&pod) {
            return Ok(Wanted::Nothing(exemption));
        }
        Ok(Wanted::Rules(name.clone(), Box::new(rules(&pod, name, self.config)?)))
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T, ApplyError> + Send) -> Result<T, Failure> {
        let done = apply::inside(self.netns(), work).and_then(|done| done);
        done.map_err(|error| Failure::of_rules(&error))
    }

    /// How long whoever holds a lock is waited for.
    fn wait(&self) -> Wait {
        Wait::Until(self.begun + LOCKS)
    }

    fn netns(&self) -> &Path {
        Path::new(&self.call.netns)
    }

    fn simulates(&self) -> bool {
        self.config.linkerd().simulate.unwrap_or(false)
    }
}

const fn native_options() -> Options {
    Options {
        mode: Mode::Native,
        ipv6: true,
        wait: Wait::Usual,
    }
}

fn is_there(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok()
}

/// Whether `path` is the network namespace of this process, the node's own.
fn is_own_namespace(path: &Path) -> bool {
    let identity = |path: &Path| rustix::fs::stat(path).ok().map(|file| (file.st_dev, file.st_ino));
    identity(path).is_some_and(|namespace| identity(Path::new("/proc/self/ns/net")) == Some(namespace))
}
