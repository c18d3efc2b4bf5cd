//! `outrigger policy`: the policies that workloads need so that their injected pods are admitted, and what a policy says
//! to pods that are given to it.
//!
//! What is printed is first judged as the API server would judge it: a workload that it would not admit is named.

use super::Verdict;
use anyhow::Result;
use clap::Subcommand;

mod evaluate;
mod labels;
mod made;
mod paper;
mod site;

/// What `policy` does.
#[derive(Subcommand, Clone, Debug)]
pub(super) enum Action {
    /// Judge pods by Pod Security
    Evaluate(evaluate::Arguments),
    /// Print the strictest Pod Security labels that admit a namespace's pods, injected
    Labels(Box<site::Arguments>),
    /// Print the PodSecurityPolicy that admits a namespace's pods, injected, and the right to use it
    Psp(Box<site::Arguments>),
    /// Print the security context constraints that admit a namespace's pods, injected, and the right to use them
    Scc(Box<site::Arguments>),
}

/// Does it.
pub(super) fn run(action: &Action) -> Result<Verdict> {
    match action {
        Action::Evaluate(arguments) => evaluate::run(arguments),
        Action::Labels(arguments) => labels::run(arguments),
        Action::Psp(arguments) => made::run(arguments, made::Sort::PodSecurityPolicy),
        Action::Scc(arguments) => made::run(arguments, made::Sort::SecurityContextConstraints),
    }
}
