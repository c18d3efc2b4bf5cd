//! `outrigger inject` and `uninject` as whole processes, on 200 manifests and on 2,000.
//!
//! Budget: 10 seconds for 2,000, on one core of whatever machine, so that nobody waits for the manifests of a whole company;
//! and at most 1.2 times the memory of 200, for one document is held at a time. The exit status is 1 above either.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that cannot run must fail, and prints what it measured"
)]
#![expect(dead_code, reason = "processes are measured in more ways than is needed here")]

#[path = "measure/process.rs"]
mod process;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How many manifests, and what they are compared with.
const MANY: usize = 2000;
const FEW: usize = 200;

/// How many stand in one file.
const PER_FILE: usize = 20;

/// How long the many may take.
const BUDGET: Duration = Duration::from_secs(10);

/// How much memory they may take of what the few take.
const PROMISED: f64 = 1.2;

const PROGRAM: &str = env!("CARGO_BIN_EXE_outrigger");

/// What one run took.
struct Run {
    time: Duration,
    /// Bytes of memory at the most.
    memory: u64,
}

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("orinject{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder can be made");
    let certs = Command::new(PROGRAM)
        .args(["certs", "--dns", "localhost", "--out"])
        .arg(&folder)
        .output();
    assert!(certs.expect("the program starts").status.success(), "certs failed");
    fs::write(folder.join("values.yaml"), "linkerdVersion: edge-26.1.1\n").expect("a file can be written");
    let (few, many) = (fill(&folder.join("few"), FEW), fill(&folder.join("many"), MANY));
    let manual = [
        "inject",
        "--manual",
        "--values",
        "values.yaml",
        "--trust-anchors",
        "ca.crt",
    ];
    let mut kept = true;
    for (what, arguments) in [
        ("inject", &["inject", "--ignore-cluster"][..]),
        ("inject --manual", &manual),
        ("uninject", &["uninject"]),
    ] {
        let [few, many] = [&few, &many].map(|manifests| run(&folder, arguments, manifests));
        let ratio = ratio(many.memory, few.memory);
        let well = many.time <= BUDGET && ratio <= PROMISED;
        kept &= well;
        println!(
            "{what}: {MANY} manifests in {:.2?} (at most {BUDGET:?}), {:.1} MB; / {FEW} manifests: {ratio:.2} of the memory (at most \
             {PROMISED}), {:.1} times as long: {}",
            many.time,
            megabytes(many.memory),
            many.time.as_secs_f64() / few.time.as_secs_f64(),
            if well { "kept" } else { "exceeded" }
        );
        if what == "inject --manual" {
            keep_injected(&folder, arguments);
        }
    }
    let _gone = fs::remove_dir_all(&folder);
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes `count` manifests below `folder`: nine Deployments, then something else.
fn fill(folder: &Path, count: usize) -> PathBuf {
    fs::create_dir(folder).expect("a folder can be made");
    for file in 0..count / PER_FILE {
        let texts: Vec<_> = (0..PER_FILE).map(|index| manifest(file * PER_FILE + index)).collect();
        fs::write(folder.join(format!("{file:04}.yaml")), texts.join("---\n")).expect("a file can be written");
    }
    folder.to_owned()
}

fn manifest(index: usize) -> String {
    if index % 10 == 9 {
        return format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config-{index}, namespace: shop}}\ndata:\n  app.conf: |\n    level = info\n"
        );
    }
    let variables = (0..10).map(|it| format!("        - {{name: VARIABLE_{it}, value: \"value of {it}\"}}\n"));
    let variables = variables.collect::<Vec<_>>().concat();
    format!(
        "# Service {index} of the shop.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{index}\n  namespace: shop\n  labels: \
         {{app: web-{index}, team: shop}}\nspec:\n  replicas: 3\n  selector:\n    matchLabels: {{app: web-{index}}}\n  template:\n    metadata:\n      \
         labels: {{app: web-{index}, team: shop}}\n    spec:\n      containers:\n      - name: web\n        image: \
         registry.example.com/shop/web:1.{index}\n        ports:\n        - {{containerPort: 8080, name: http}}\n        readinessProbe:\n          \
         httpGet: {{path: /ready, port: http}}\n        resources:\n          requests: {{cpu: 100m, memory: 64Mi}}\n        env:\n{variables}"
    )
}

/// Has `uninject` find what `inject --manual` writes.
fn keep_injected(folder: &Path, arguments: &[&str]) {
    for name in ["few", "many"] {
        let mut command = Command::new(PROGRAM);
        let output = command
            .args(arguments)
            .arg(name)
            .current_dir(folder)
            .output()
            .expect("the program starts");
        fs::remove_dir_all(folder.join(name)).expect("a folder can be removed");
        fs::create_dir(folder.join(name)).expect("a folder can be made");
        fs::write(folder.join(name).join("injected.yaml"), output.stdout).expect("a file can be written");
    }
}

/// Runs the program on `manifests`.
///
/// It writes nothing before everything is done, and then more than a pipe holds: once the first byte is there, the memory
/// that it took so far is all that it takes.
fn run(folder: &Path, arguments: &[&str], manifests: &Path) -> Run {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg(manifests).current_dir(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let mut output = child.stdout.take().expect("it is piped");
    output.read_exact(&mut [0]).expect("it prints something");
    let time = begun.elapsed();
    let memory = process::memory(child.id(), "VmHWM").expect("it waits for its reader");
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("a pipe can be read");
    assert!(child.wait().expect("it ends").success(), "{command:?} failed");
    Run { time, memory }
}

fn ratio(one: u64, other: u64) -> f64 {
    megabytes(one) / megabytes(other)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    reason = "sizes are shown, not computed with"
)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
