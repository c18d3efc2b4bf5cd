//! A pod, the gateway and the internet, joined by two cables. Whatever the pod sends to a port of the gateway's comes in
//! there, whichever address it dials; there is no other way out.

use crate::internet::{DNS, HOSTS, Internet};
use crate::netns::{Netns, OUTRIGGER};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// The pod's address.
pub(crate) const POD: &str = "10.88.0.2";

/// An address that no host has: what clients dial where only the name may count.
pub(crate) const NOWHERE: &str = "198.51.100.9";

/// Ports of the gateway: what is dialled, and where it comes in.
const PORTS: [(u16, u16); 4] = [(80, 4180), (443, 4143), (8080, 4188), (5432, 4154)];

pub(crate) struct World {
    pub(crate) pod: Netns,
    pub(crate) inside: Netns,
    pub(crate) internet: Internet,
    folder: TempDir,
    _outside: Netns,
}

/// A gateway that runs.
pub(crate) struct Gateway {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

/// What came of a request by curl.
#[derive(Debug)]
pub(crate) struct Answer {
    /// 0 where there was none.
    pub(crate) status: u16,
    pub(crate) text: String,
    /// What curl says where there was none.
    pub(crate) error: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let (pod, inside, outside) = (Netns::new(), Netns::new(), Netns::new());
        join(&pod, (&inside, "pod"));
        join(&outside, (&inside, "net"));
        pod.ip(&["addr", "add", &format!("{POD}/24"), "dev", "eth0"]);
        inside.ip(&["addr", "add", "10.88.0.1/24", "dev", "pod"]);
        inside.ip(&["addr", "add", "203.0.113.1/24", "dev", "net"]);
        pod.ip(&["route", "add", "default", "via", "10.88.0.1"]);
        for last in HOSTS.iter().map(|(_, last)| *last).chain([53]) {
            outside.ip(&["addr", "add", &format!("203.0.113.{last}/24"), "dev", "eth0"]);
        }
        for (meant, port) in PORTS {
            redirect(&inside, "tcp", meant, port);
        }
        redirect(&inside, "udp", 5353, 4153);
        let internet = Internet::start(&outside);
        let folder = TempDir::new().unwrap();
        let world = Self {
            pod,
            inside,
            internet,
            folder,
            _outside: outside,
        };
        world.write("ca.pem", &world.internet.authority.pem());
        let search = "search shop.svc.cluster.local svc.cluster.local\noptions ndots:5 timeout:2 attempts:2\n";
        world.write("resolv.conf", &format!("nameserver {DNS}\n{search}"));
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A gateway with the pod and policies, each the YAML of a `spec`.
    pub(crate) fn gateway(&self, specs: &[&str]) -> Gateway {
        self.gateway_with(&objects(specs), &[])
    }

    /// A gateway with any objects and further arguments.
    pub(crate) fn gateway_with(&self, objects: &str, arguments: &[&str]) -> Gateway {
        let objects = self.write("objects.yaml", objects);
        let mut command = Command::new(OUTRIGGER);
        command.args([
            "egress-gateway",
            "--admin-listen",
            "127.0.0.1:9997",
            "--listen-udp",
            "5353=0.0.0.0:4153",
        ]);
        command.arg("--objects").arg(objects);
        command.arg("--resolv-conf").arg(self.path("resolv.conf"));
        for (meant, port) in PORTS {
            command.arg("--listen").arg(format!("{meant}=0.0.0.0:{port}"));
        }
        let bundle = self.path("ca.pem").display().to_string();
        for (flag, value) in [
            ("--cluster-network", "10.96.0.0/12"),
            ("--trust-bundle", &bundle),
            ("--detect-timeout", "2s"),
        ] {
            if !arguments.contains(&flag) {
                command.args([flag, value]);
            }
        }
        command.args(arguments).stderr(Stdio::piped());
        let mut child = self.inside.inside(|| command.spawn()).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (said, stderr) = (Arc::clone(&lines), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                said.lock().unwrap().push(line);
            }
        });
        let gateway = Gateway { child, lines };
        gateway.wait(|line| line["message"] == "probes and metrics");
        gateway
    }

    /// Asks by curl, from within the pod. Whatever the name, it dials [`NOWHERE`].
    pub(crate) fn curl(&self, arguments: &[&str]) -> Answer {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--path-as-is", "--max-time", "30"]);
        command.args(["--write-out", "\n%{http_code}", "--cacert"]);
        command.arg(self.path("ca.pem"));
        for (port, _) in PORTS {
            command.args(["--resolve", &format!("*:{port}:{NOWHERE}")]);
        }
        let output = self.pod.run(command.args(arguments));
        let printed = text(&output.stdout);
        let (body, status) = printed.rsplit_once('\n').unwrap();
        Answer {
            status: status.parse().unwrap(),
            text: body.to_owned(),
            error: text(&output.stderr),
        }
    }

    /// Runs Python within the pod; `ca` and `nowhere` are defined.
    pub(crate) fn python(&self, script: &str) -> Output {
        let ca = self.path("ca.pem");
        let script = format!("ca = {:?}\nnowhere = {NOWHERE:?}\n{script}", ca.display().to_string());
        self.pod.run(Command::new("python3").args(["-c", &script]))
    }

    /// Opens a connection from within the pod.
    pub(crate) fn connect(&self, port: u16) -> TcpStream {
        let address: Ipv4Addr = NOWHERE.parse().unwrap();
        let stream = self.pod.inside(|| TcpStream::connect((address, port))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// What the gateway counts.
    pub(crate) fn metrics(&self) -> String {
        self.inside.tool("curl", &["--silent", "http://127.0.0.1:9997/metrics"])
    }
}

impl Gateway {
    /// The first line of the log that is as wanted, once it is there.
    pub(crate) fn wait(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let found = self.lines.lock().unwrap().iter().find(|line| wanted(line)).cloned();
            match found {
                Some(line) => return line,
                None if begin.elapsed() > PATIENCE => panic!("no such line: {:#?}", self.lines.lock().unwrap()),
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// All lines so far, as they were written.
    pub(crate) fn log(&self) -> String {
        let lines = self.lines.lock().unwrap();
        lines.iter().map(|line| line.to_string() + "\n").collect()
    }

    /// The one decision so far, and then none.
    pub(crate) fn decision(&self) -> Value {
        let decision = self.wait(|line| line.get("outcome").is_some());
        let mut lines = self.lines.lock().unwrap();
        let decisions = lines.iter().filter(|line| line.get("outcome").is_some()).count();
        assert_eq!(decisions, 1, "{lines:?}");
        lines.retain(|line| line.get("outcome").is_none());
        drop(lines);
        decision
    }

    /// Fails unless the one decision so far was this one.
    pub(crate) fn assert_decided(&self, outcome: &str, reason: &str) -> Value {
        let decision = self.decision();
        assert_eq!(
            (&decision["outcome"], &decision["reason"]),
            (&outcome.into(), &reason.into()),
            "{decision}"
        );
        decision
    }

    /// Fails unless the one decision so far was to let something out, which failed for this reason.
    pub(crate) fn assert_failed(&self, failure: &str) -> Value {
        let decision = self.assert_decided("allowed", "listed");
        assert_eq!(decision["failure"], failure, "{decision}");
        decision
    }

    /// Waits until it has ended by itself, and says with which status.
    pub(crate) fn ended(mut self) -> i32 {
        let begin = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code().unwrap_or(-1),
                None => assert!(begin.elapsed() < PATIENCE, "it goes on"),
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Tells it to stop.
    pub(crate) fn signal(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Answer {
    /// Fails unless the server of `host` answered.
    pub(crate) fn assert_from(&self, host: &str) {
        assert!(
            self.status == 200 && self.text.starts_with(&format!("server {host}\n")),
            "{host}: {self:?}"
        );
    }

    /// Fails unless the gateway refused it for `reason`.
    pub(crate) fn assert_refused(&self, reason: &str, host: &str) {
        let expected = (403, format!("egress denied: {reason}: {host}\n"));
        assert_eq!((self.status, self.text.clone()), expected, "{self:?}");
    }
}

/// The pod, and policies `rule-0`, `rule-1` and so on of its namespace, enforced by the gateway.
pub(crate) fn objects(specs: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop, labels: {{app: web}}}}\n\
         spec: {{serviceAccountName: agent, containers: [{{name: app, image: registry.example.com/app}}]}}\nstatus: {{phase: Running, podIPs: [{{ip: {POD}}}]}}\n"
    );
    for (number, spec) in specs.iter().enumerate() {
        let spec = spec.replacen('{', "{placement: Gateway, ", 1);
        let number = number.to_string();
        let head = "---\napiVersion: outrigger.linkerd.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: rule-";
        text.extend([head, &number, ", namespace: shop}\nspec: ", &spec, "\n"]);
    }
    text
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn join(end: &Netns, (middle, name): (&Netns, &str)) {
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
        middle.name(),
    ]);
    end.ip(&["link", "set", "eth0", "up"]);
    middle.ip(&["link", "set", name, "up"]);
}

fn redirect(namespace: &Netns, protocol: &str, meant: u16, port: u16) {
    let (meant, port) = (meant.to_string(), port.to_string());
    let rule = [
        "-t",
        "nat",
        "-A",
        "PREROUTING",
        "-i",
        "pod",
        "-p",
        protocol,
        "--dport",
        &meant,
    ];
    namespace.tool(
        "iptables",
        &[&rule[..], &["-j", "REDIRECT", "--to-ports", &port]].concat(),
    );
}
