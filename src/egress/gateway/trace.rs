//! Trace headers: dropped, translated, or left alone.
//!
//! Formats: W3C Trace Context (`traceparent`, `tracestate`), and Zipkin's B3 with one header (`b3`) or several
//! (`x-b3-traceid` and others).

use crate::egress::spec::TraceHeaders;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const B3: HeaderName = HeaderName::from_static("b3");
const TRACE_ID: HeaderName = HeaderName::from_static("x-b3-traceid");
const SPAN_ID: HeaderName = HeaderName::from_static("x-b3-spanid");
const PARENT_ID: HeaderName = HeaderName::from_static("x-b3-parentspanid");
const SAMPLED: HeaderName = HeaderName::from_static("x-b3-sampled");
const FLAGS: HeaderName = HeaderName::from_static("x-b3-flags");

/// What else carries a trace, or what was put beside one: OpenTelemetry's baggage and OpenTracing's, Jaeger, Google Cloud, AWS
/// X-Ray, Datadog, `SkyWalking`, Envoy, Instana and OpenCensus.
const OTHERS: [&str; 16] = [
    "baggage",
    "uber-trace-id",
    "jaeger-baggage",
    "x-cloud-trace-context",
    "x-amzn-trace-id",
    "grpc-trace-bin",
    "sw8",
    "sw8-correlation",
    "sw8-x",
    "x-client-trace-id",
    "x-instana-t",
    "x-instana-s",
    "x-instana-l",
    "tracecontext",
    "correlation-context",
    "l5d-ctx-trace",
];

/// How the names of further such headers begin.
const PREFIXES: [&str; 6] = [
    "x-b3-",
    "x-datadog-",
    "ot-tracer-",
    "ot-baggage-",
    "uberctx-",
    "x-ot-span-context",
];

/// The trace that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Context {
    /// 32 hexadecimal digits, or as few as 16 of B3.
    trace: String,
    /// 16 of them.
    span: String,
    parent: Option<String>,
    sampling: Sampling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampling {
    Undecided,
    No,
    Yes,
    /// B3's flag for yes, whatever it costs.
    Debug,
}

/// Puts the trace headers of a request into `form`; into B3 with one header where it came so, else with several. What cannot
/// be read is dropped.
pub(super) fn rewrite(headers: &mut HeaderMap, form: TraceHeaders) {
    if form == TraceHeaders::Preserve {
        return;
    }
    let w3c = traceparent(headers);
    let (single, several) = (b3_single(headers), b3_several(headers));
    let state: Vec<_> = headers.get_all(&TRACESTATE).iter().cloned().collect();
    drop_all(headers);
    match form {
        TraceHeaders::None | TraceHeaders::Preserve => {}
        TraceHeaders::W3C => {
            let is_own = w3c.is_some();
            if let Some(context) = w3c.or(single).or(several) {
                put(headers, &TRACEPARENT, &context.as_traceparent());
                for state in state.into_iter().filter(|_| is_own) {
                    headers.append(TRACESTATE, state);
                }
            }
        }
        TraceHeaders::B3 => {
            if let Some(context) = single {
                put(headers, &B3, &context.as_b3());
            } else if let Some(context) = several.or(w3c) {
                context.put_b3(headers);
            }
        }
    }
}

fn drop_all(headers: &mut HeaderMap) {
    let is_trace = |name: &HeaderName| {
        let name = name.as_str();
        ["traceparent", "tracestate", "b3"].contains(&name)
            || OTHERS.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let found: Vec<_> = headers.keys().filter(|name| is_trace(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// The one value of a header.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.trim();
    values.next().is_none().then_some(value)
}

/// Trace Context, section 3.2.2.
fn traceparent(headers: &HeaderMap) -> Option<Context> {
    let mut parts = text(headers, &TRACEPARENT)?.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_last = parts.next().is_none();
    let is_version = digits(version, &[2]).is_some() && version != "ff" && (version != "00" || is_last);
    let flags = digits(flags, &[2]).and_then(|flags| u8::from_str_radix(&flags, 16).ok())?;
    is_version.then_some(())?;
    Context {
        trace: digits(trace, &[32])?,
        span: digits(span, &[16])?,
        parent: None,
        sampling: match flags & 1 {
            1 => Sampling::Yes,
            _ => Sampling::No,
        },
    }
    .unless_zero()
}

/// `b3: TRACE-SPAN-SAMPLING-PARENT`, the last two optional.
fn b3_single(headers: &HeaderMap) -> Option<Context> {
    let mut parts = text(headers, &B3)?.split('-');
    let (trace, span) = (parts.next()?, parts.next()?);
    let sampling = match parts.next() {
        None => Sampling::Undecided,
        Some("0") => Sampling::No,
        Some("1") => Sampling::Yes,
        Some("d") => Sampling::Debug,
        Some(_) => return None,
    };
    let parent = match parts.next() {
        None => None,
        Some(parent) => Some(digits(parent, &[16])?),
    };
    Context {
        trace: digits(trace, &[16, 32])?,
        span: digits(span, &[16])?,
        parent,
        sampling,
    }
    .unless_zero()
}

fn b3_several(headers: &HeaderMap) -> Option<Context> {
    let sampling = match (text(headers, &FLAGS), text(headers, &SAMPLED)) {
        (Some("1"), _) => Sampling::Debug,
        (_, Some("1" | "true")) => Sampling::Yes,
        (_, Some("0" | "false")) => Sampling::No,
        (_, _) => Sampling::Undecided,
    };
    Context {
        trace: digits(text(headers, &TRACE_ID)?, &[16, 32])?,
        span: digits(text(headers, &SPAN_ID)?, &[16])?,
        parent: text(headers, &PARENT_ID).and_then(|parent| digits(parent, &[16])),
        sampling,
    }
    .unless_zero()
}

/// Hexadecimal digits, as many as one of `lengths` says, in lower case.
fn digits(text: &str, lengths: &[usize]) -> Option<String> {
    let is_number = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| text.to_ascii_lowercase())
}

fn put(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    // Digits and hyphens always are a value.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

impl Context {
    /// An ID that is all zero names nothing.
    fn unless_zero(self) -> Option<Self> {
        let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
        (!is_zero(&self.trace) && !is_zero(&self.span)).then_some(self)
    }

    fn as_traceparent(&self) -> String {
        let sampled = u8::from(matches!(self.sampling, Sampling::Yes | Sampling::Debug));
        format!("00-{:0>32}-{}-{sampled:02x}", self.trace, self.span)
    }

    fn as_b3(&self) -> String {
        let sampling = match self.sampling {
            Sampling::Undecided => return format!("{}-{}", self.trace, self.span),
            Sampling::No => '0',
            Sampling::Yes => '1',
            Sampling::Debug => 'd',
        };
        let parent = self.parent.as_ref().map(|parent| format!("-{parent}"));
        format!("{}-{}-{sampling}{}", self.trace, self.span, parent.unwrap_or_default())
    }

    fn put_b3(&self, headers: &mut HeaderMap) {
        put(headers, &TRACE_ID, &self.trace);
        put(headers, &SPAN_ID, &self.span);
        if let Some(parent) = &self.parent {
            put(headers, &PARENT_ID, parent);
        }
        match self.sampling {
            Sampling::Undecided => {}
            Sampling::No => put(headers, &SAMPLED, "0"),
            Sampling::Yes => put(headers, &SAMPLED, "1"),
            Sampling::Debug => put(headers, &FLAGS, "1"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    /// The headers `before`, each `name: value`, in `form`, sorted.
    fn after(before: &[&str], form: TraceHeaders) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in before {
            let (name, value) = line.split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        rewrite(&mut headers, form);
        let lines = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }

    #[test]
    fn nothing_of_a_trace_goes_out_unless_a_format_is_named() {
        let all = [
            "accept: */*",
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "tracestate: a=b",
            "baggage: customer=7",
            "b3: 0",
            "X-B3-TraceId: 1",
            "x-b3-anything: 1",
            "uber-trace-id: 1:2:0:1",
            "x-datadog-trace-id: 1",
            "x-amzn-trace-id: Root=1",
            "x-cloud-trace-context: 1/2;o=1",
        ];
        assert_eq!(after(&all, TraceHeaders::None), ["accept: */*"]);
        assert_eq!(after(&all, TraceHeaders::Preserve).len(), all.len());
    }

    #[test]
    fn w3c_becomes_b3_and_b3_becomes_w3c() {
        let w3c = format!("traceparent: 00-{TRACE}-{SPAN}-01");
        let several = [
            "x-b3-sampled: 1".to_owned(),
            format!("x-b3-spanid: {SPAN}"),
            format!("x-b3-traceid: {TRACE}"),
        ];
        let single = format!("b3: {TRACE}-{SPAN}-1");
        assert_eq!(after(&[&w3c, "tracestate: a=b"], TraceHeaders::B3), several);
        let several = several.each_ref().map(String::as_str);
        assert_eq!(after(&several, TraceHeaders::W3C), [w3c.as_str()]);
        assert_eq!(after(&[&single, "tracestate: a=b"], TraceHeaders::W3C), [w3c.as_str()]);
        assert_eq!(after(&several, TraceHeaders::B3), several);
        assert_eq!(after(&[&single], TraceHeaders::B3), [single.as_str()]);
        let kept = [w3c.as_str(), "tracestate: a=b"];
        assert_eq!(after(&[kept[0], kept[1], &single], TraceHeaders::W3C), kept);
    }

    #[test]
    fn short_ids_and_every_way_of_sampling_are_known() {
        for (b3, w3c) in [
            (
                "463ac35c9f6413ad-a2fb4a1d1a96d312",
                "463ac35c9f6413ad-a2fb4a1d1a96d312-00",
            ),
            (
                "463AC35C9F6413AD-a2fb4a1d1a96d312-d",
                "463ac35c9f6413ad-a2fb4a1d1a96d312-01",
            ),
            (
                "463ac35c9f6413ad-a2fb4a1d1a96d312-0-0020000000000001",
                "463ac35c9f6413ad-a2fb4a1d1a96d312-00",
            ),
        ] {
            let expected = format!("traceparent: 00-0000000000000000{w3c}");
            assert_eq!(after(&[&format!("b3: {b3}")], TraceHeaders::W3C), [expected]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_dropped() {
        for header in [
            "traceparent: ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-secret",
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e473\u{e9}-00f067aa0ba902b7-01",
            "b3: a-b-c",
            "b3: 1",
            "x-b3-traceid: only",
        ] {
            assert!(after(&[header], TraceHeaders::W3C).is_empty(), "{header}");
            assert!(after(&[header], TraceHeaders::B3).is_empty(), "{header}");
        }
    }
}
