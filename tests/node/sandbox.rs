//! A machine of its own: mount, process and network namespace, and a group in each cgroup hierarchy.
//!
//! The paths of a node (`/etc/cni`, `/opt`, `/run`, `/var/lib`, `/var/log`) are private in it, so that the manifests are
//! deployed as they are, and that two of these do not meet. Its first process takes everything with it: the kernel ends
//! what runs in the process namespace and unmounts what was mounted. A sweeper, which the kernel wakes when the test
//! process is gone, however it went, ends the first process and removes the cgroups and the folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cluster::process::watch;
use crate::cluster::{Process, poll};

/// Far more than a few mounts take.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Makes the paths of the node private in `$1`, says so, and becomes `$2`, which reaps orphans.
///
/// Mounts are shared below, as on a node: else none would reach the containers that ask for them.
const FIRST: &str = r#"set -e
for part in opt var/lib var/log etc; do mkdir -p "$1/$part"; done
cp -a /etc/. "$1/etc"
rm -rf "$1/etc/cni"
for part in opt var/lib var/log etc; do mount --bind "$1/$part" "/$part"; done
mount -t tmpfs node /run
mount --make-rshared /
: > "$1/up"
exec "$2" pause"#;

/// Waits until the test process closes the pipe, then ends group `$1`, and removes the cgroups `$2` and the folder `$3`
/// once nothing is in them any more.
const SWEEPER: &str = r#"read -r _
kill -s KILL -- "-$1"
for _ in $(seq 300); do
    find /sys/fs/cgroup -depth -type d \( -path "*/$2" -o -path "*/$2/*" \) -exec rmdir {} \;
    rm -rf -- "$3"
    [ -e "$3" ] || [ -n "$(find /sys/fs/cgroup -maxdepth 2 -name "$2")" ] || exit 0
    sleep 0.1
done"#;

/// A machine; dropping it ends everything on it.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Its own, and that of its cgroups.
    name: String,
    folder: PathBuf,
    first: Process,
    sweeper: Child,
}

impl Sandbox {
    /// Starts a machine whose first process is `pod`, which is `tests/assets/pod`.
    pub(crate) async fn start(pod: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "outrigger-node-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(&name);
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).expect("a folder can be made");
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["--propagation", "private", "sh", "-c", FIRST, "first"])
            .args([&folder, pod]);
        let first = Process::spawn("sandbox", &mut command, &logs);
        let sweeper = watch(SWEEPER, first.id(), &[OsStr::new(&name), folder.as_os_str()]);
        let mut sandbox = Self {
            name,
            folder,
            first,
            sweeper,
        };
        let up = async || match sandbox.first.ended() {
            Some(status) => Some(Err(status)),
            None => sandbox.folder.join("up").exists().then_some(Ok(())),
        };
        let up = poll(START_LIMIT, up).await;
        assert!(
            matches!(up, Some(Ok(()))),
            "{up:?}: a sandbox needs root, util-linux and the right to make namespaces; {}",
            sandbox.first.log_tail()
        );
        sandbox.make_cgroups();
        sandbox.run(&["ip", "link", "set", "lo", "up"]);
        sandbox
    }

    /// Its name, which is that of its cgroups, too.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A folder on the disk that goes with the machine; the same path inside and outside.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the logs of its processes go.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// A path of the machine, as the test process reaches it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first.id()))
    }

    /// A command that runs on the machine.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let id = self.first.id();
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &id.to_string(), "--mount", "--net"])
            .arg(format!("--pid=/proc/{id}/ns/pid_for_children"))
            .arg("--")
            .arg(program.as_ref());
        command
    }

    /// Runs a program with its arguments on the machine, which may fail.
    pub(crate) fn try_run(&self, command: &[&str]) -> Output {
        let (program, arguments) = command.split_first().expect("a command has a program");
        let output = self.command(program).args(arguments).output();
        output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Runs a program with its arguments on the machine, and returns what it printed.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = self.try_run(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Its network namespace.
    pub(crate) fn network(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.first.id()))
    }

    /// The runtime starts containers below a group that must be there.
    fn make_cgroups(&self) {
        let root = Path::new("/sys/fs/cgroup");
        let groups = if root.join("cgroup.controllers").exists() {
            vec![root.to_owned()]
        } else {
            let folders = fs::read_dir(root).expect("there are cgroups").flatten();
            let real = |path: &PathBuf| path.join("cgroup.procs").exists() && !path.is_symlink();
            folders.map(|folder| folder.path()).filter(real).collect()
        };
        for group in groups {
            fs::create_dir(group.join(&self.name)).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        self.first.ended();
        self.sweeper.wait().ok();
    }
}

/// Does `work` on a thread in the network namespace at `path`.
pub(crate) fn enter<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> T {
    try_enter(path, work).unwrap_or_else(|| panic!("{} cannot be entered", path.display()))
}

/// The same; `None` where there is no such namespace (any more).
pub(crate) fn try_enter<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Option<T> {
    let inside = || {
        let namespace = File::open(path).ok()?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        Some(work())
    };
    let done = std::thread::scope(|scope| scope.spawn(inside).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

mod tests {
    use super::*;
    use crate::block_on;
    use crate::cluster::built;

    /// What is left of a machine on the one that the test runs on.
    fn left(sandbox: &Sandbox) -> String {
        let text = |command: &mut Command| String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
        let cgroups = text(Command::new("find").args(["/sys/fs/cgroup", "-name", &sandbox.name]));
        let folder =
            fs::read_dir(&sandbox.folder).map_or_else(|_| String::new(), |_| sandbox.folder.display().to_string());
        // A zombie has no command line.
        let command = fs::read_to_string(format!("/proc/{}/cmdline", sandbox.first.id())).unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mounts = mounts
            .lines()
            .filter(|line| line.contains(&sandbox.name))
            .collect::<String>();
        [cgroups, folder, command, mounts].concat()
    }

    #[test]
    fn a_machine_leaves_nothing_when_the_test_process_is_gone() {
        let pod = built("node").unwrap().join("pod");
        block_on(async {
            let mut sandbox = Sandbox::start(&pod).await;
            let group = format!("/sys/fs/cgroup/pids/{0}/pod", sandbox.name);
            let group = if Path::new("/sys/fs/cgroup/pids").exists() {
                group
            } else {
                group.replace("/pids", "")
            };
            fs::create_dir(&group).unwrap();
            let mut sleeper = sandbox.command("sh");
            let script =
                format!("echo $$ >> {group}/cgroup.procs; mkdir /opt/a; mount -t tmpfs a /opt/a; exec sleep 600");
            let mut sleeper = sleeper.args(["-c", &script]).spawn().unwrap();
            let mounted = async || sandbox.path("/opt/a").exists().then_some(());
            poll(START_LIMIT, mounted).await.unwrap();
            assert!(!left(&sandbox).is_empty());
            // What the kernel does when the process ends, by whatever end.
            drop(sandbox.sweeper.stdin.take());
            sleeper.wait().unwrap();
            let gone = async || left(&sandbox).is_empty().then_some(());
            assert!(poll(START_LIMIT, gone).await.is_some(), "{}", left(&sandbox));
        });
    }
}
