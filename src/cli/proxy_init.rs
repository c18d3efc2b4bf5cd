//! `outrigger proxy-init`: writes the traffic rules of a pod, with the flags of Linkerd's proxy-init.
//!
//! Exit status 0 or 1, as there. The last line on standard error is the cause, in one sentence.

mod values;

use super::logging::{self, Level};
use crate::redirect::apply::{self, Applied, Mode, Options as ApplyOptions, Wait};
use crate::redirect::nft::{Table, TableFamily};
use crate::redirect::{self, Family, Fence, PortList, Redirection, SubnetList, iptables};
use anyhow::{Context as _, anyhow, bail};
use clap::Parser as _;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use tracing::{info, warn};
use values::{Csv, Integers, boolean, integer};

/// Writes the rules that send a pod's traffic through its proxy.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "proxy-init", bin_name = "outrigger proxy-init", args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Options {
    /// Port of the proxy that incoming connections go to
    #[arg(long, short = 'p', value_parser = integer, default_value_t = -1, allow_hyphen_values = true)]
    incoming_proxy_port: i64,
    /// Port of the proxy that outgoing connections go to
    #[arg(long, short = 'o', value_parser = integer, default_value_t = -1, allow_hyphen_values = true)]
    outgoing_proxy_port: i64,
    /// UID of the proxy, whose connections are left alone (where above 0)
    #[arg(long, short = 'u', value_parser = integer, default_value_t = -1, allow_hyphen_values = true)]
    proxy_uid: i64,
    /// GID of the proxy, whose connections are left alone (where above 0)
    #[arg(long, short = 'g', value_parser = integer, default_value_t = -1, allow_hyphen_values = true)]
    proxy_gid: i64,
    /// Redirect incoming connections to these ports only
    #[arg(long, short = 'r', allow_hyphen_values = true)]
    ports_to_redirect: Vec<Integers>,
    /// Ports of the pod, N or A-B, that are reached directly
    #[arg(long, allow_hyphen_values = true)]
    inbound_ports_to_ignore: Vec<Csv>,
    /// Ports elsewhere, N or A-B, that are reached directly
    #[arg(long, allow_hyphen_values = true)]
    outbound_ports_to_ignore: Vec<Csv>,
    /// Subnets that reach the pod directly (the same as --inbound-subnets-to-ignore)
    #[arg(long, allow_hyphen_values = true)]
    subnets_to_ignore: Vec<Csv>,
    /// Subnets of either family that reach the pod directly
    #[arg(long, allow_hyphen_values = true)]
    inbound_subnets_to_ignore: Vec<Csv>,
    /// Subnets of either family that the pod reaches directly
    #[arg(long, allow_hyphen_values = true)]
    outbound_subnets_to_ignore: Vec<Csv>,
    /// Close the ways around the proxy: reject what is neither the proxy's, redirected, an answer, nor skipped
    #[arg(long)]
    egress_fence: bool,
    /// Name servers, addresses or subnets, that the fence leaves open for DNS over UDP; those of /etc/resolv.conf without it
    #[arg(long, allow_hyphen_values = true)]
    egress_dns: Option<String>,
    /// Show the rules and write none
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, value_parser = boolean, action = clap::ArgAction::Set)]
    simulate: bool,
    /// Write the rules in the network namespace at this path
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    netns: OsString,
    /// Wait for the lock of iptables as long as it takes, not 30 seconds
    #[arg(long, short = 'w', num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, value_parser = boolean, action = clap::ArgAction::Set)]
    use_wait_flag: bool,
    /// Seconds that a connection may stay in CLOSE-WAIT; 0 leaves the node's setting
    #[arg(long, value_parser = integer, default_value_t = 0, allow_hyphen_values = true)]
    timeout_close_wait_secs: i64,
    /// plain or json
    #[arg(long, default_value = "plain", allow_hyphen_values = true)]
    log_format: String,
    /// panic, fatal, error, warn, info, debug or trace
    #[arg(long, default_value = "info", allow_hyphen_values = true)]
    log_level: String,
    /// legacy, nft, plain, native (nftables without any program), or auto: the first of native, nft, legacy that works
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    iptables_mode: String,
    /// iptables-legacy, iptables-nft or iptables, where --iptables-mode is absent
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    firewall_bin_path: String,
    /// Accepted and not looked at
    #[arg(long, default_value = "", allow_hyphen_values = true, hide = true)]
    firewall_save_bin_path: String,
    /// Write the rules for IPv6 too
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, value_parser = boolean, action = clap::ArgAction::Set)]
    ipv6: bool,
    /// Redirect only connections that begin from now on, so that a running pod keeps those that it has
    #[arg(long)]
    new_connections_only: bool,
    /// Make an error of what is otherwise a warning
    #[arg(long)]
    strict: bool,
    /// Accepted and not looked at, as with Linkerd
    #[arg(hide = true)]
    rest: Vec<OsString>,
}

/// Runs the command with its arguments, the first of which is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Options::try_parse_from(args) {
        Ok(options) => run(&options),
        Err(error) => {
            let shown = error.print();
            if error.use_stderr() || shown.is_err() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}

/// Writes the rules that `options` ask for.
pub fn run(options: &Options) -> ExitCode {
    match try_run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With nobody to read it, the exit status says it alone.
            let _unread = writeln!(io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &Options) -> anyhow::Result<()> {
    let level: Level = options.log_level.parse().context("--log-level")?;
    let _logging = logging::start(
        logging::filter(level),
        logging::Format::from(options.log_format.as_str()),
    );
    let mut warnings = Vec::new();
    let mode = mode(options)?;
    let redirection = redirection(options, &mut warnings)?;
    for warning in &warnings {
        warn!("{warning}");
    }
    if let (true, Some(first)) = (options.strict, warnings.first()) {
        bail!("{first} (an error because of --strict)");
    }
    if options.simulate {
        let ipv6 = options.ipv6 || redirection.fence.is_some();
        return Ok(simulate(&redirection, mode, ipv6)?);
    }
    let apply_options = ApplyOptions {
        mode,
        ipv6: options.ipv6,
        wait: match options.use_wait_flag {
            true => Wait::Endless,
            false => Wait::Usual,
        },
    };
    let work = || -> anyhow::Result<Applied> {
        set_close_wait(options.timeout_close_wait_secs)?;
        Ok(apply::apply(&redirection, apply_options)?)
    };
    let netns = Path::new(&options.netns);
    let applied = if netns.as_os_str().is_empty() {
        work()
    } else {
        apply::inside(netns, work)?
    }?;
    for warning in &applied.warnings {
        warn!("{warning}");
    }
    info!(by = applied.by, changed = applied.changed, "the rules are in force");
    Ok(())
}

fn mode(options: &Options) -> anyhow::Result<Mode> {
    if !options.iptables_mode.is_empty() {
        return Ok(options.iptables_mode.parse()?);
    }
    match options.firewall_bin_path.as_str() {
        "" | "iptables-legacy" => Ok(Mode::Legacy),
        "iptables-nft" => Ok(Mode::Nft),
        "iptables" => Ok(Mode::Plain),
        other => bail!("--firewall-bin-path {other:?} is none; expected iptables-legacy, iptables-nft or iptables"),
    }
}

fn redirection(options: &Options, warnings: &mut Vec<String>) -> anyhow::Result<Redirection> {
    let inbound_port = port("--incoming-proxy-port", options.incoming_proxy_port)?;
    let outbound_port = port("--outgoing-proxy-port", options.outgoing_proxy_port)?;
    let mut inbound_subnets = subnets("--subnets-to-ignore", &options.subnets_to_ignore)?;
    inbound_subnets.extend(subnets(
        "--inbound-subnets-to-ignore",
        &options.inbound_subnets_to_ignore,
    )?);
    let listed = options.ports_to_redirect.iter().flat_map(|list| &list.0);
    let redirection = Redirection {
        inbound_port,
        outbound_port,
        proxy_uid: owner("--proxy-uid", options.proxy_uid)?,
        proxy_gid: owner("--proxy-gid", options.proxy_gid)?,
        listed_inbound_ports: listed
            .map(|&value| port("--ports-to-redirect", value))
            .collect::<Result<_, _>>()?,
        skip_inbound_ports: ports("--inbound-ports-to-ignore", &options.inbound_ports_to_ignore, warnings)?,
        skip_outbound_ports: ports(
            "--outbound-ports-to-ignore",
            &options.outbound_ports_to_ignore,
            warnings,
        )?,
        skip_inbound_subnets: inbound_subnets,
        skip_outbound_subnets: subnets("--outbound-subnets-to-ignore", &options.outbound_subnets_to_ignore)?,
        new_connections_only: options.new_connections_only,
        fence: fence(options, warnings)?,
    };
    if redirection.proxy_uid.is_none() && redirection.fence.is_some() {
        bail!("--egress-fence needs --proxy-uid above 0: the fence tells the proxy by its user");
    }
    if redirection.proxy_uid.is_none() && redirection.proxy_gid.is_none() {
        warnings
            .push("neither --proxy-uid nor --proxy-gid is above 0: the proxy's connections go to itself".to_owned());
    }
    for (flag, port) in [
        ("--incoming-proxy-port", inbound_port),
        ("--outgoing-proxy-port", outbound_port),
    ] {
        if port == 0 {
            warnings.push(format!("{flag} is 0, on which nothing can listen; expected 1 to 65535"));
        }
    }
    Ok(redirection)
}

/// The fence, where one is asked for. Its name servers are those of the container, which the kubelet gives every container
/// of a pod alike.
fn fence(options: &Options, warnings: &mut Vec<String>) -> anyhow::Result<Option<Fence>> {
    if !options.egress_fence {
        return Ok(None);
    }
    let name_servers = if let Some(given) = &options.egress_dns {
        redirect::name_servers(given).context("--egress-dns")?
    } else {
        #[expect(
            clippy::disallowed_methods,
            reason = "the kubelet says there which name servers the pod has"
        )]
        let text = std::fs::read_to_string(RESOLV_CONF).with_context(|| {
            format!("--egress-fence without --egress-dns reads the pod's name servers from {RESOLV_CONF}")
        })?;
        redirect::name_servers_of(&text)
    };
    if name_servers.is_empty() {
        warnings.push(
            "the fence leaves no name server open: neither --egress-dns nor /etc/resolv.conf names one".to_owned(),
        );
    }
    Ok(Some(Fence { name_servers }))
}

const RESOLV_CONF: &str = "/etc/resolv.conf";

fn port(flag: &str, value: i64) -> anyhow::Result<u16> {
    if value == -1 && flag != "--ports-to-redirect" {
        bail!("{flag} is missing; expected a port, 1 to 65535");
    }
    u16::try_from(value).map_err(|_range| anyhow!("{flag} {value} is no port; expected 1 to 65535"))
}

fn owner(flag: &str, value: i64) -> anyhow::Result<Option<u32>> {
    if value <= 0 {
        return Ok(None);
    }
    let owner = u32::try_from(value).ok().filter(|&owner| owner != u32::MAX);
    owner
        .map(Some)
        .ok_or_else(|| anyhow!("{flag} {value} is no ID; expected 1 to {}", u32::MAX - 1))
}

fn ports(flag: &str, lists: &[Csv], warnings: &mut Vec<String>) -> anyhow::Result<PortList> {
    let entries = lists.iter().flat_map(|list| &list.0).map(String::as_str);
    let parsed = PortList::read(entries).context(flag.to_owned())?;
    warnings.extend(parsed.dropped.iter().map(|error| format!("{flag}: ignored {error}")));
    Ok(parsed.list)
}

fn subnets(flag: &str, lists: &[Csv]) -> anyhow::Result<SubnetList> {
    SubnetList::read(lists.iter().flat_map(|list| &list.0).map(String::as_str)).context(flag.to_owned())
}

/// Shows what a first run would write.
fn simulate(redirection: &Redirection, mode: Mode, ipv6: bool) -> io::Result<()> {
    let mut out = io::stdout();
    if let Mode::Native | Mode::Auto = mode {
        let family = if ipv6 { TableFamily::Inet } else { TableFamily::Ip };
        return write!(out, "{}", Table::new(redirection, family));
    }
    let nothing = iptables::SavedTables::default();
    for family in [Family::V4, Family::V6].into_iter().take(if ipv6 { 2 } else { 1 }) {
        let wanted = iptables::wanted(&redirection.iptables_rules(family), &nothing);
        write!(out, "# {family}\n{}", iptables::restore(nothing.lines(), &wanted))?;
    }
    Ok(())
}

/// The kernel's setting, of the network namespace that this thread is in.
const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";

fn set_close_wait(seconds: i64) -> anyhow::Result<()> {
    if seconds == 0 {
        return Ok(());
    }
    #[expect(clippy::disallowed_methods, reason = "a setting of the kernel is a file")]
    let written = std::fs::write(CLOSE_WAIT, seconds.to_string());
    written.with_context(|| {
        format!(
            "--timeout-close-wait-secs {seconds}: cannot write {CLOSE_WAIT}; the container must be privileged and run as \
             root, and the node's kernel must have nf_conntrack"
        )
    })
}

#[cfg(test)]
mod tests;
