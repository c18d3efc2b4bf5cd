//! What the tests of this folder write, and what the kernel then shows.

use crate::netns::Netns;

/// Every way of writing rules.
pub(crate) const MODES: [&str; 3] = ["native", "nft", "legacy"];

/// Two sets of rules that differ in every chain.
pub(crate) const FIRST: &str = "-p 4143 -o 4140 -u 2102 --inbound-ports-to-ignore 4190,4191,6000-8000";
pub(crate) const SECOND: &str =
    "-p 5143 -o 5140 -u 2102 -g 2103 --outbound-ports-to-ignore 25,443 --subnets-to-ignore 10.1.0.0/16,fd00::/8";

/// The arguments of a run.
pub(crate) fn args<'a>(mode: &'a str, rules: &'a str) -> Vec<&'a str> {
    ["--iptables-mode", mode].into_iter().chain(rules.split(' ')).collect()
}

/// Everything that a mode writes to, in a form that two moments can be compared by: one text a table.
pub(crate) fn shown(namespace: &Netns, mode: &str) -> Vec<String> {
    match mode {
        "native" => vec![native(namespace)],
        "nft" | "legacy" => ["iptables", "ip6tables"]
            .iter()
            .map(|program| namespace.nat(&format!("{program}-{mode}")).join("\n"))
            .collect(),
        other => panic!("no such mode: {other}"),
    }
}

/// Our native table, as nft shows it.
pub(crate) fn native(namespace: &Netns) -> String {
    let tables = namespace.tool("nft", &["list", "tables"]);
    let ours = tables.lines().filter(|line| line.ends_with(" outrigger"));
    ours.map(|line| {
        namespace.tool(
            "nft",
            &["list", "table", line.split(' ').nth(1).unwrap_or_default(), "outrigger"],
        )
    })
    .collect()
}
