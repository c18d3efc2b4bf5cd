//! ADD of `outrigger-cni` as a whole process, agent and kernel included, against a static program that does nothing.
//!
//! Both run in turns, ADD in a fresh network namespace each time, so that the ratio of their medians means something on a
//! busy machine. A pod without a proxy shows what the plugin itself costs; one with a proxy, what the rules cost. Needs
//! root, iproute2 and rustc. Fails above the ratios that are promised.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that cannot run must fail"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 41;

const PLUGIN: &str = env!("CARGO_BIN_EXE_outrigger-cni");

/// What ADD may take of the time of doing nothing: for a pod that is not meshed, and for one that is.
const PROMISED: [f64; 2] = [PLAIN, MESHED];
const PLAIN: f64 = 4.0;
const MESHED: f64 = 6.0;

/// The plugin's largest size in bytes.
const SIZE: u64 = 3_000_000;

fn main() {
    let size = std::fs::metadata(PLUGIN).expect("it was just built").len();
    println!("size: {size} bytes (at most {SIZE})");
    assert!(size <= SIZE, "the plugin has {size} bytes");
    let folder = std::env::temp_dir().join(format!("orbench{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder can be made");
    let (socket, nothing) = (folder.join("cni.sock"), folder.join("nothing"));
    build_nothing(&nothing);
    let listener = UnixListener::bind(&socket).expect("a socket can be made");
    std::thread::spawn(move || answer(&listener));

    let config = format!(
        "{{\"cniVersion\":\"1.1.0\",\"name\":\"bench\",\"outrigger\":{{\"socket\":\"{}\"}},\"prevResult\":{{\"cniVersion\":\"1.1.0\"}}}}",
        socket.display()
    );
    let (mut nothings, mut adds) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        nothings.push(time(&mut Command::new(&nothing), ""));
        for (pod, times) in ["plain", "meshed"].iter().zip(&mut adds) {
            times.push(add(pod, &config));
        }
    }
    let _gone = std::fs::remove_dir_all(&folder);
    let nothing = median(nothings);
    for ((pod, times), promised) in ["plain", "meshed"].iter().zip(adds).zip(PROMISED) {
        let add = median(times);
        let ratio = add.as_secs_f64() / nothing.as_secs_f64();
        println!("ADD of a {pod} pod / doing nothing: {ratio:.2} (at most {promised}; {add:?} / {nothing:?})");
        assert!(
            ratio <= promised,
            "ADD of a {pod} pod takes {ratio:.2} times as long as doing nothing"
        );
    }
}

/// The least that a runtime could run in the plugin's place.
fn build_nothing(path: &Path) {
    let mut compiler = Command::new("rustc");
    compiler
        .args(["-O", "-C", "target-feature=+crt-static", "-C", "strip=symbols", "-o"])
        .arg(path)
        .arg("-");
    let mut child = compiler.stdin(Stdio::piped()).spawn().expect("rustc is in PATH");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"fn main() {}").expect("a pipe holds it");
    drop(stdin);
    assert!(child.wait().expect("it ends").success(), "rustc failed");
}

/// The agent: every pod has the name that is asked for, and a proxy where that is `meshed`.
fn answer(listener: &UnixListener) {
    for mut stream in listener.incoming().flatten() {
        let mut line = String::new();
        let _read = BufReader::new(&stream).read_line(&mut line);
        let (name, container) = if line.contains("\"meshed\"") {
            ("meshed", "linkerd-proxy")
        } else {
            ("plain", "app")
        };
        let pod = format!(
            "{{\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"containers\":[{{\"name\":\"{container}\"}}]}}}}"
        );
        let _gone = stream.write_all(format!("{{\"pod\":{pod}}}\n").as_bytes());
    }
}

/// How long ADD takes in a fresh network namespace.
fn add(pod: &str, config: &str) -> Duration {
    let name = format!("orbench{}", std::process::id());
    ip(&["netns", "add", &name]);
    let mut plugin = Command::new(PLUGIN);
    plugin
        .env("CNI_COMMAND", "ADD")
        .env("CNI_CONTAINERID", "bench")
        .env("CNI_NETNS", format!("/var/run/netns/{name}"))
        .env("CNI_IFNAME", "eth0")
        .env("CNI_ARGS", format!("K8S_POD_NAMESPACE=app;K8S_POD_NAME={pod}"));
    let time = time(&mut plugin, config);
    ip(&["netns", "del", &name]);
    time
}

fn time(command: &mut Command, input: &str) -> Duration {
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // Who does nothing does not read it either.
    let _unread = stdin.write_all(input.as_bytes());
    drop(stdin);
    assert!(child.wait().expect("it ends").success(), "{command:?} failed");
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn ip(args: &[&str]) {
    let status = Command::new("ip")
        .args(args)
        .status()
        .expect("apt-get install iproute2");
    assert!(status.success(), "ip {args:?}");
}
