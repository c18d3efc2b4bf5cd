//! What kube-proxy does for a Service: a connection goes to one of the replicas that are ready, and stays with it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::LIMIT;
use crate::cluster::webhook::read;
use crate::cluster::{Port, Webhook, poll};

/// How often replicas are asked whether they are ready: until kube-proxy has heard of a change takes about as long.
const PAUSE: Duration = Duration::from_millis(500);

/// A replica, as the Service has it.
#[derive(Clone, Copy)]
struct Endpoint {
    address: SocketAddr,
    admin: SocketAddr,
    ready: bool,
}

/// The connections of a Service; dropping it ends them.
pub(super) struct Balancer {
    endpoints: Arc<Mutex<Vec<Endpoint>>>,
    _tasks: JoinSet<()>,
}

impl Balancer {
    /// Balances what comes to `port`.
    pub(super) async fn start(port: &Port) -> Self {
        let socket = TcpListener::bind(port.address()).await.unwrap();
        let endpoints = Arc::new(Mutex::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(ask(Arc::clone(&endpoints)));
        tasks.spawn(accept(socket, Arc::clone(&endpoints)));
        Self {
            endpoints,
            _tasks: tasks,
        }
    }

    /// Adds a replica, and waits until it is sent to.
    pub(super) async fn add(&self, replica: &Webhook) {
        let endpoint = Endpoint {
            address: replica.address(),
            admin: replica.admin_address(),
            ready: false,
        };
        self.endpoints.lock().unwrap().push(endpoint);
        let ready = async || {
            let endpoints = self.endpoints.lock().unwrap();
            let found = endpoints.iter().find(|it| it.address == endpoint.address)?;
            found.ready.then_some(())
        };
        let ready = poll(LIMIT, ready).await;
        ready.unwrap_or_else(|| panic!("it does not become ready: {}", replica.log()));
    }

    /// Takes a replica out that has ended.
    pub(super) fn remove(&self, address: SocketAddr) {
        self.endpoints.lock().unwrap().retain(|it| it.address != address);
    }
}

/// Asks the replicas again and again whether they are ready.
async fn ask(endpoints: Arc<Mutex<Vec<Endpoint>>>) {
    loop {
        let asked = endpoints.lock().unwrap().clone();
        for endpoint in asked {
            let ready = matches!(read(endpoint.admin, "/ready").await, Ok((200, _)));
            let mut endpoints = endpoints.lock().unwrap();
            let same = endpoints.iter_mut().find(|it| it.address == endpoint.address);
            if let Some(same) = same {
                same.ready = ready;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Connects whoever comes with one ready replica after the other; with none ready, or one that refuses, it is closed.
async fn accept(socket: TcpListener, endpoints: Arc<Mutex<Vec<Endpoint>>>) {
    let mut open = JoinSet::new();
    for turn in 0.. {
        let (mut client, _) = socket.accept().await.unwrap();
        let all = endpoints.lock().unwrap().clone();
        let ready: Vec<_> = all.into_iter().filter(|it| it.ready).collect();
        let Some(endpoint) = ready.get(turn % ready.len().max(1)).copied() else {
            continue;
        };
        open.spawn(async move {
            let mut replica = TcpStream::connect(endpoint.address).await?;
            client.set_nodelay(true)?;
            replica.set_nodelay(true)?;
            copy_bidirectional(&mut client, &mut replica).await
        });
    }
}
