//! In which order constraints are tried.

use super::*;

#[test]
fn the_built_in_ones_are_in_openshifts_order() {
    let constraints = Constraints::compile(&built_in::all());
    let names: Vec<_> = constraints.names().collect();
    assert_eq!(
        names,
        [
            "anyuid",
            "restricted-v2",
            "restricted-v3",
            "restricted",
            "nonroot-v2",
            "nonroot",
            "hostmount-anyuid",
            "hostnetwork-v2",
            "hostnetwork",
            "hostaccess",
            "privileged",
        ]
    );
}

#[test]
fn the_built_in_ones_have_openshifts_points() {
    let points = |object: &Value| {
        let constraint = Constraint::read(object);
        (constraint.name.clone(), constraint.rank.points())
    };
    let mut points: Vec<_> = built_in::all().iter().map(points).collect();
    points.sort_by_key(|(_, points)| *points);
    let expected = [
        ("restricted-v2", 132_010),
        ("restricted-v3", 132_010),
        ("restricted", 134_800),
        ("nonroot-v2", 142_010),
        ("nonroot", 144_800),
        ("anyuid", 154_950),
        ("hostmount-anyuid", 254_950),
        ("hostnetwork-v2", 1_332_010),
        ("hostnetwork", 1_334_800),
        ("hostaccess", 1_434_800),
        ("privileged", 3_089_000),
    ];
    let expected = expected.map(|(name, points)| (name.to_owned(), points));
    assert_eq!(points, expected);
}

#[test]
fn priority_goes_before_points_and_points_before_names() {
    let named = |name: &str, changes: Value| built_in::constraint(name, changes);
    let constraints = [
        named("b", json!({})),
        named("a", json!({})),
        named("lax", json!({"allowPrivilegedContainer": true, "priority": 1})),
        named("last", json!({"priority": -1})),
        named("0-lax", json!({"allowHostPorts": true, "priority": null})),
    ];
    let constraints = Constraints::compile(&constraints);
    assert_eq!(
        constraints.names().collect::<Vec<_>>(),
        ["lax", "a", "b", "0-lax", "last"]
    );
}

#[test]
fn points_of_capabilities_are_bounded() {
    let points = |changes: Value| Constraint::read(&built_in::constraint("x", changes)).rank.points() - 130_000;
    let many: Vec<_> = (0..200).map(|index| format!("CAP_{index}")).collect();
    assert_eq!(points(json!({"requiredDropCapabilities": many})), 0);
    assert_eq!(
        points(json!({"requiredDropCapabilities": [], "defaultAddCapabilities": many})),
        9_999
    );
    assert_eq!(
        points(json!({"requiredDropCapabilities": ["all"], "allowedCapabilities": ["all"]})),
        6_000
    );
    assert_eq!(
        points(json!({"requiredDropCapabilities": [], "allowedCapabilities": ["A", "B"]})),
        5_020
    );
}

#[test]
fn malformed_objects_are_read_as_far_as_they_go() {
    let junk = [
        json!(null),
        json!({"metadata": {}}),
        json!({"kind": "Pod", "metadata": {"name": "x"}}),
        json!({"metadata": {"name": "x"}, "users": 7, "volumes": {}, "runAsUser": [], "fsGroup": {"type": 1, "ranges": [null]}}),
    ];
    let constraints = Constraints::compile(&junk);
    assert_eq!(constraints.names().collect::<Vec<_>>(), ["x"]);
}
