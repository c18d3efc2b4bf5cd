//! The admission server: what the API server calls before it stores a pod.
//!
//! [`Server`] puts the parts together. A connection comes in through our own accept loop, a request through one
//! handler that reads its [`Review`](review::Review), asks [`App::admit`](answer::App::admit) and writes the answer; the
//! [`certificate`] and the configuration are [reloaded](reload) beside that, and a port of its own answers probes and
//! [`metrics`].
//!
//! Nothing here decides anything about a pod. Whatever a client draws out has a deadline, whatever it piles up has a limit,
//! and a request that goes wrong costs nobody but its sender.

pub mod answer;
pub mod certificate;
pub mod log;
pub mod metrics;
pub mod options;
pub mod reload;
pub mod review;

mod admin;
mod clients;
mod listener;
mod router;
mod server;
mod shutdown;

pub use admin::Admin;
pub use options::Options;
pub use server::{ServeError, Server, serve_admin};
pub use shutdown::{Phase, signals};

/// What the egress gateway serves by as well.
#[cfg(feature = "egress-gateway")]
pub(crate) use self::{
    listener::accept,
    server::{listen, note},
    shutdown::reached,
};

/// Serves until a signal says to stop.
///
/// One thread does everything: an answer costs well under a millisecond of CPU time and hardly ever waits, so more threads
/// would buy nothing and cost each their own memory.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let system = |what| move |source| ServeError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(system("start the runtime"))?.block_on(async {
        let phase = signals().map_err(system("wait for signals"))?;
        Server::bind(options).await?.run(phase).await;
        Ok(())
    })
}
