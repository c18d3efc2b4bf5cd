//! Trace headers as the server sees them.

use crate::world::World;

const TRACEPARENT: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn the_server_sees_the_format_that_the_policy_names() {
    let world = World::new();
    let b3 = [
        "x-b3-traceid: 4bf92f3577b34da6a3ce929d0e0e4736",
        "x-b3-spanid: 00f067aa0ba902b7",
        "x-b3-sampled: 1",
    ];
    let single = "b3: 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1";
    for (format, sent, seen) in [
        (
            "None",
            &[TRACEPARENT, "tracestate: a=b", "baggage: customer=7"][..],
            &[][..],
        ),
        ("None", &b3, &[]),
        (
            "W3C",
            &[TRACEPARENT, "tracestate: a=b", "baggage: customer=7"],
            &[TRACEPARENT, "tracestate: a=b"],
        ),
        ("W3C", &b3, &[TRACEPARENT]),
        ("W3C", &[single], &[TRACEPARENT]),
        ("B3", &[TRACEPARENT], &b3),
        ("B3", &[single], &[single]),
        (
            "Preserve",
            &[TRACEPARENT, single, "baggage: customer=7"],
            &[TRACEPARENT, single, "baggage: customer=7"],
        ),
    ] {
        let spec = format!("{{hosts: [www.example.com], tls: {{mode: Optional}}, traceHeaders: {format}}}");
        let gateway = world.gateway(&[&spec]);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let mut arguments = vec![version, "http://www.example.com/"];
            arguments.extend(sent.iter().flat_map(|header| ["--header", header]));
            let answer = world.curl(&arguments);
            answer.assert_from("www.example.com");
            let is_trace = |line: &&str| {
                ["traceparent", "tracestate", "baggage", "b3", "x-b3-"]
                    .iter()
                    .any(|name| line.starts_with(name))
            };
            let mut found: Vec<_> = answer.text.lines().filter(is_trace).collect();
            let mut expected = seen.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{format} {version} {sent:?}");
        }
        drop(gateway);
    }
}
