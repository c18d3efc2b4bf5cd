use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn question() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "alice", "uid": "7", "groups": ["dev"], "extra": {"a": ["b"]}},
            "object": {"metadata": {"name": "web", "managedFields": [{"manager": "kubectl"}]}, "spec": {}},
            "oldObject": null,
            "dryRun": true,
            "options": {"kind": "CreateOptions"},
            "futureField": [1]
        }
    })
}

fn parse(review: &Value) -> Result<Review, ReviewError> {
    Review::parse(review.to_string().as_bytes())
}

/// The error for the question in which `change` was done.
fn error(change: impl FnOnce(&mut Value)) -> String {
    let mut review = question();
    change(&mut review);
    parse(&review).unwrap_err().to_string()
}

#[test]
fn reads_what_the_heart_needs() {
    let review = parse(&question()).unwrap();
    let expected = Review {
        version: Version::V1,
        uid: "705ab4f5".to_owned(),
        kind: GroupVersionKind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
        },
        sub_resource: None,
        name: None,
        namespace: Some("shop".to_owned()),
        operation: Operation::Create,
        user: User {
            name: "alice".to_owned(),
            groups: vec!["dev".to_owned()],
        },
        dry_run: true,
        object: json!({"metadata": {"name": "web"}, "spec": {}}),
    };
    assert_eq!(review, expected);
}

#[test]
fn reads_the_older_version_and_what_servers_leave_out() {
    let review = parse(&json!({
        "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"kind": "Pod"}, "name": "", "userInfo": {"groups": null}, "object": {}}
    }));
    let review = review.unwrap();
    assert_eq!(review.version, Version::V1Beta1);
    assert_eq!(
        (review.name, review.dry_run, review.operation),
        (None, false, Operation::Create)
    );
}

#[test]
fn only_managed_fields_of_the_object_itself_are_left_out() {
    let mut review = question();
    let kept = json!({"spec": {"managedFields": 1}, "metadata": {"annotations": {"managedFields": "2"}}});
    review["request"]["object"] = kept.clone();
    assert_eq!(parse(&review).unwrap().object, kept);
}

#[test]
fn says_what_is_missing() {
    let without = |key: &str| error(|review| drop(review["request"].as_object_mut().unwrap().remove(key)));
    assert_eq!(without("uid"), "request.uid is missing");
    assert_eq!(without("object"), "request.object is missing");
    assert_eq!(without("kind"), "request.kind.kind is missing");
    assert_eq!(
        error(|review| review["request"]["uid"] = json!("")),
        "request.uid is missing"
    );
    assert_eq!(
        error(|review| review["request"]["object"] = Value::Null),
        "request.object is missing"
    );
    assert_eq!(error(|review| review["request"] = Value::Null), "request is missing");
}

#[test]
fn says_what_is_wrong() {
    let kind = error(|review| *review = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}));
    assert_eq!(kind, "kind is \"Pod\": expected \"AdmissionReview\"");
    let version = error(|review| review["apiVersion"] = json!("admission.k8s.io/v2"));
    assert!(
        version.starts_with("apiVersion is \"admission.k8s.io/v2\": expected"),
        "{version}"
    );
    let shape = error(|review| review["request"]["userInfo"]["groups"] = json!("dev"));
    assert!(
        shape.contains("request.userInfo.groups: invalid type: string \"dev\""),
        "{shape}"
    );
    let metadata = error(|review| review["request"]["object"]["metadata"] = json!([]));
    assert!(
        metadata.contains("request.object.metadata: invalid type: sequence, expected an object"),
        "{metadata}"
    );
    let operation = error(|review| review["request"]["operation"] = json!("PATCH"));
    assert!(
        operation.contains("request.operation: unknown variant `PATCH`"),
        "{operation}"
    );
    assert!(error(|review| *review = json!("text")).contains("expected an object"));
}

#[test]
fn what_is_wrong_is_said_on_one_line() {
    let operation = error(|review| review["request"]["operation"] = json!("X\nERROR forged\u{1b}[31m"));
    assert!(
        operation.contains("unknown variant `X\\nERROR forged\\u{1b}[31m`"),
        "{operation}"
    );
}

#[test]
fn every_cut_of_a_body_is_refused_as_a_cut() {
    let body = serde_json::to_vec(&question()).unwrap();
    assert!(matches!(Review::parse(b" \n"), Err(ReviewError::Empty)));
    for end in 1..body.len() {
        let error = Review::parse(&body[..end]).unwrap_err();
        assert_eq!(error.code(), "truncated", "{end}: {error}");
    }
}

#[test]
fn hostile_bodies_are_errors() {
    let deep = [b"[".repeat(200_000), b"]".repeat(200_000)].concat();
    let bodies: [(&[u8], &str); 7] = [
        (b"apiVersion: admission.k8s.io/v1\n", "no_json"),
        (b"\xff\xfe\x00", "no_json"),
        (b"{\"kind\": \"AdmissionReview\", \"unread\": \"\xff\"}", "no_json"),
        (&deep, "shape"),
        (br#"{"request": {"object": {"a": 1e999}}}"#, "no_json"),
        (br#"{"kind": "AdmissionReview"} {}"#, "no_json"),
        (br#"{"kind": "AdmissionReview", "kind": "Pod"}"#, "shape"),
    ];
    for (body, code) in bodies {
        let error = Review::parse(body).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    let nested = format!(r#"{{"request": {{"object": {}"#, "{\"a\":".repeat(200_000));
    assert_eq!(Review::parse(nested.as_bytes()).unwrap_err().code(), "no_json");
    let long = error(|review| review["kind"] = json!("é".repeat(1 << 20)));
    assert!(long.len() < 400, "{}", long.len());
}

fn reply(outcome: &Outcome, warnings: &[&str], audit: &[(&'static str, String)]) -> Value {
    let warnings: Vec<_> = warnings.iter().map(|text| (*text).to_owned()).collect();
    let reply = Reply {
        version: Version::V1,
        uid: "u",
        outcome,
        warnings: &warnings,
        audit,
    };
    serde_json::from_slice(&reply.to_json().unwrap()).unwrap()
}

#[test]
fn an_admission_carries_its_patch_as_a_base64_string() {
    let patch = br#"[{"op":"add","path":"/metadata/labels","value":{"a":"\"\n"}}]"#.to_vec();
    let answer = reply(
        &Outcome::Admitted {
            patch: Some(patch.clone()),
        },
        &[],
        &[],
    );
    let text = answer["response"]["patch"].as_str().unwrap();
    assert_eq!(STANDARD.decode(text).unwrap(), patch);
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let plain = reply(&Outcome::Admitted { patch: None }, &[], &[]);
    assert_eq!(plain["response"], json!({"uid": "u", "allowed": true}));
}

#[test]
fn a_denial_has_code_reason_and_message() {
    let outcome = Outcome::Denied {
        code: 403,
        message: "no \"way\"\n".to_owned(),
    };
    let answer = reply(&outcome, &[], &[("decision", "denied".to_owned())]);
    let status = json!({"code": 403, "message": "no \"way\"\n", "reason": "Forbidden"});
    let expected = json!({"uid": "u", "allowed": false, "status": status, "auditAnnotations": {"decision": "denied"}});
    assert_eq!(answer["response"], expected);
}

#[test]
fn a_denial_repeats_no_megabyte() {
    let outcome = Outcome::Denied {
        code: 403,
        message: "ä".repeat(1 << 20),
    };
    let answer = reply(&outcome, &[], &[]);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.chars().count() == 8192 && message.ends_with('…'));
}

#[test]
fn warnings_fit_into_a_header() {
    let (exact, long) = ("ä".repeat(120), "ä".repeat(121));
    let answer = reply(&Outcome::Admitted { patch: None }, &[&exact, &long, "a\nb\u{7f}"], &[]);
    let cut = format!("{}…", "ä".repeat(119));
    assert_eq!(answer["response"]["warnings"], json!([exact, cut, "a b "]));
}

#[test]
fn warnings_stay_within_what_an_api_server_passes_on() {
    let outcome = Outcome::Admitted { patch: None };
    let said = |count: usize| {
        let warnings: Vec<_> = (0..count).map(|n| format!("code: {n:0>94}")).collect();
        let warnings: Vec<_> = warnings.iter().map(String::as_str).collect();
        let answer = reply(&outcome, &warnings, &[]);
        let said = answer["response"]["warnings"].as_array().unwrap().clone();
        let said: Vec<_> = said.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
        let characters: usize = said.iter().map(|text| text.chars().count()).sum();
        assert!(characters <= 4096, "{characters}");
        said
    };
    assert_eq!(said(39).len(), 39);
    let some = said(500);
    assert!(some[0].starts_with("code: 0"));
    assert_eq!(some[39], "warnings_left_out: 461 more warnings are left out");
    assert_eq!(some.len(), 40);
}
