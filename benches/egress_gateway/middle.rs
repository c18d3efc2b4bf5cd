//! Who stands between client and server: each a process of its own in the namespace between them.

use crate::netns::OUTRIGGER;
use crate::world::{HOST, INSIDE, NAME_SERVER, POD, ROLE, SERVER, SERVES, World, serve};
use std::env;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream as Stream};

/// Longer than any of them takes to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// The role of the plain middleman.
const COPIES: &str = "splice";

/// A middleman that runs.
pub(crate) struct Middle {
    child: Child,
    port: u16,
}

impl Middle {
    /// This program, copying bytes.
    pub(crate) fn splice(world: &World) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        Self::start(world, 4144, command.env(ROLE, COPIES))
    }

    pub(crate) fn haproxy(world: &World) -> Self {
        let config = format!(
            "global\n  maxconn 1000\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
             frontend pods\n  bind 0.0.0.0:4145\n  tcp-request inspect-delay 5s\n  \
             tcp-request content accept if {{ req_ssl_hello_type 1 }}\n  use_backend host if {{ req.ssl_sni -i {HOST} }}\n\
             backend host\n  server host {SERVER}\n"
        );
        let file = world.write("haproxy.cfg", &config);
        Self::start(world, 4145, Command::new("haproxy").arg("-db").arg("-f").arg(file))
    }

    pub(crate) fn gateway(world: &World) -> Self {
        let objects = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\n\
             spec: {{serviceAccountName: agent, containers: [{{name: app, image: app}}]}}\n\
             status: {{phase: Running, podIPs: [{{ip: {POD}}}]}}\n---\n\
             apiVersion: outrigger.linkerd.io/v1alpha1\nkind: EgressPolicy\nmetadata: {{name: host, namespace: shop}}\n\
             spec: {{placement: Gateway, hosts: [{HOST}], allowlist: Enabled}}\n"
        );
        let (objects, servers) = (
            world.write("objects.yaml", &objects),
            world.write("resolv.conf", NAME_SERVER),
        );
        let folder = env::var_os("OUTRIGGER_PROGRAMS").map(PathBuf::from);
        let program = folder.map_or_else(|| PathBuf::from(OUTRIGGER), |folder| folder.join("outrigger"));
        let mut command = Command::new(program);
        command.args([
            "egress-gateway",
            "--listen",
            "443=0.0.0.0:4143",
            "--admin-listen",
            "127.0.0.1:9997",
        ]);
        command.args(["--cluster-network", "10.96.0.0/12", "--max-connections", "20000"]);
        command.args(["--max-connections-per-source", "20000"]);
        command.arg("--objects").arg(objects).arg("--resolv-conf").arg(servers);
        Self::start(world, 4143, &mut command)
    }

    fn start(world: &World, port: u16, command: &mut Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let name = command.get_program().display().to_string();
        let child = world.inside.inside(|| command.spawn());
        let child =
            child.unwrap_or_else(|error| panic!("{name}: {error}; this bench needs: apt-get install haproxy iproute2"));
        let middle = Self { child, port };
        let begun = Instant::now();
        while let Err(error) = world.pod.inside(|| TcpStream::connect(middle.address())) {
            assert!(
                error.kind() == ErrorKind::ConnectionRefused && begun.elapsed() < PATIENCE,
                "{name}: {error}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        middle
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(INSIDE.parse().unwrap(), self.port)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Works in the role that this process was started for, where it has one.
pub(crate) fn play() {
    match env::var(ROLE).as_deref() {
        Ok(SERVES) => serve(),
        Ok(COPIES) => copy(),
        Ok(_) | Err(_) => {}
    }
}

fn copy() -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let listener = TcpListener::bind("0.0.0.0:4144").await.unwrap();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut server = Stream::connect(SERVER).await?;
                client.set_nodelay(true)?;
                server.set_nodelay(true)?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    })
}
