//! Rules for a running pod: its connections stay, new ones are redirected.

use crate::netns::assert_done;
use crate::rules::{MODES, args};
use crate::traffic::{PEER_V4, Pair, ask, listen};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn open_connections_survive_and_new_ones_are_redirected() {
    for mode in MODES {
        let pair = Pair::new();
        listen(&pair.pod, "[::]:4140", |_| "proxy".to_owned());
        let (mut client, mut server) = connection(&pair, 8000);
        let repair = "-p 4143 -o 4140 -u 2102 --new-connections-only";
        assert_done(&pair.pod.proxy_init(args(mode, repair)));
        exchange(&mut client, &mut server);
        exchange(&mut server, &mut client);
        assert_eq!(
            ask(&pair.pod, 1000, SocketAddr::from(([10, 77, 0, 1], 9))),
            "proxy",
            "{mode}"
        );
        // A run without the flag finds rules that redirect every new connection, and leaves them.
        assert_done(&pair.pod.proxy_init(args(mode, "-p 4143 -o 4140 -u 2102")));
        exchange(&mut client, &mut server);
    }
}

#[test]
fn without_the_flag_an_open_connection_is_cut() {
    let pair = Pair::new();
    let (mut client, _server) = connection(&pair, 8000);
    assert_done(&pair.pod.proxy_init(args("native", "-p 4143 -o 4140 -u 2102")));
    client.write_all(b"x").expect("the first packet leaves");
    assert!(client.read(&mut [0]).is_err(), "the connection was reset");
}

fn connection(pair: &Pair, port: u16) -> (TcpStream, TcpStream) {
    let listener = pair
        .peer
        .inside(|| TcpListener::bind((PEER_V4, port)))
        .expect("the peer listens");
    let client = pair
        .pod
        .inside(|| TcpStream::connect((PEER_V4, port)))
        .expect("nothing is in the way");
    let (server, _) = listener.accept().expect("the connection arrives");
    for end in [&client, &server] {
        end.set_read_timeout(Some(PATIENCE))
            .expect("a socket takes a time limit");
    }
    (client, server)
}

fn exchange(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"hello").expect("it is sent");
    let mut received = [0; 5];
    to.read_exact(&mut received).expect("it arrives");
    assert_eq!(&received, b"hello");
}
