//! `redirect/cases.json`: arguments, exit status, and the rules that the kernel then shows.

use crate::netns::{Netns, OUTRIGGER, stderr};
use crate::recorded;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    before: Vec<String>,
    runs: Vec<Vec<String>>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    user: Option<serde_json::Value>,
    #[serde(default)]
    from_outside: bool,
    exit: Vec<i32>,
    rules: BTreeMap<String, Vec<String>>,
    path_has: Option<Vec<String>>,
    differs: Option<String>,
}

const TABLES: [&str; 4] = ["iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy"];

/// An ordinary user without capabilities, for the cases that run as one.
const NOBODY: u32 = 65534;

#[test]
fn every_case_ends_with_the_same_status_and_rules() {
    let Some(cases) = recorded("cases.json") else { return };
    let cases: Vec<Case> = serde_json::from_value(cases).expect("cases have the documented form");
    let faults: Vec<String> = cases
        .iter()
        .filter_map(|case| fault(case).map(|fault| format!("{}: {fault}", case.name)))
        .collect();
    println!(
        "redirect/cases.json: {} of {} cases alike",
        cases.len() - faults.len(),
        cases.len()
    );
    assert!(!cases.is_empty() && faults.is_empty(), "{}", faults.join("\n"));
}

fn fault(case: &Case) -> Option<String> {
    let namespace = Netns::new();
    for command in &case.before {
        namespace.tool("sh", &["-c", command]);
    }
    let outputs: Vec<Output> = case.runs.iter().map(|args| run(case, &namespace, args)).collect();
    let said = || outputs.iter().map(stderr).collect::<String>();
    let exit: Vec<i32> = outputs.iter().filter_map(|output| output.status.code()).collect();
    if let Some(differs) = &case.differs {
        return difference(&namespace, case, differs).or_else(|| exit.contains(&1).then(said));
    }
    if exit != case.exit {
        return Some(format!("exit {exit:?}, recorded {:?}: {}", case.exit, said()));
    }
    if exit.iter().any(|status| *status != 0) {
        return None;
    }
    TABLES.iter().find_map(|table| {
        let shown = rules(&namespace, table);
        let recorded = case.rules.get(*table).cloned().unwrap_or_default();
        (shown != recorded).then(|| format!("{table}\n  shows {shown:#?}\n  recorded {recorded:#?}"))
    })
}

/// What the deliberate difference is about: the rules are whole, and each subnet is in the table that can have it.
fn difference(namespace: &Netns, case: &Case, differs: &str) -> Option<String> {
    let pinned = include_str!("../../../docs/compatibility.md");
    if !differs.contains("subnets are split by family") || !pinned.contains("split by family") {
        return Some(format!("no such difference is pinned: {differs}"));
    }
    let args = case.runs.concat();
    let subnets = args.iter().skip_while(|arg| *arg != "--subnets-to-ignore").nth(1)?;
    let back = if args.contains(&"legacy".to_owned()) {
        "legacy"
    } else {
        "nft"
    };
    let v6 = !args.contains(&"--ipv6=false".to_owned());
    for (table, family_is, present) in [("iptables", '.', true), ("ip6tables", ':', v6)] {
        let shown = rules(namespace, &format!("{table}-{back}"));
        let skipped = shown.iter().filter(|line| line.contains("ignore-subnet-")).count();
        let wanted = subnets.split(',').filter(|subnet| subnet.contains(family_is)).count();
        let jumps = shown.iter().filter(|line| line.contains("-j PROXY_INIT_")).count();
        if (skipped, jumps) != if present { (wanted, 2) } else { (0, 0) } {
            return Some(format!("{table}-{back} shows {shown:#?}"));
        }
    }
    None
}

fn run(case: &Case, namespace: &Netns, args: &[String]) -> Output {
    let path = namespace.path();
    let args = args
        .iter()
        .map(|arg| arg.replace("/var/run/netns/NS", &path.to_string_lossy()));
    let mut command = Command::new(OUTRIGGER);
    command.arg("proxy-init").args(args).envs(case.env.iter().flatten());
    if case.user.is_some() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let directory = tempfile::tempdir().expect("there is room for a temporary folder");
    if let Some(programs) = &case.path_has {
        link_programs(directory.path(), programs);
        command.env("PATH", directory.path());
    }
    if case.from_outside {
        crate::netns::output(&mut command)
    } else {
        namespace.run(&mut command)
    }
}

fn link_programs(directory: &Path, programs: &[String]) {
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(Path::new);
    for program in programs {
        let found = system
            .iter()
            .map(|folder| folder.join(program))
            .find(|path| path.exists());
        let found = found.unwrap_or_else(|| panic!("{program} is missing: apt-get install iptables"));
        symlink(found, directory.join(program)).expect("a fresh folder takes links");
    }
}

/// The lines that are compared: our chains, sorted, then every rule in its order.
fn rules(namespace: &Netns, table: &str) -> Vec<String> {
    let text = namespace.tool(&format!("{table}-save"), &["-t", "nat"]);
    let of = |prefix: &'static str| {
        text.lines()
            .filter(move |line| line.starts_with(prefix))
            .map(str::to_owned)
    };
    let mut chains: Vec<String> = of(":PROXY_INIT").collect();
    chains.sort();
    chains.into_iter().chain(of("-A ")).collect()
}
