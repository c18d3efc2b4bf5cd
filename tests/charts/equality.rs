//! `outrigger install` prints what the real helm renders, byte for byte.

use crate::helm::template;
use crate::options::ALL;
use crate::program::printed;

#[test]
fn both_render_the_same_bytes_again_and_again() {
    for options in &ALL {
        let command = options.command();
        let theirs = template(options.chart, options.namespace, options.minor, options.helm);
        let again = template(options.chart, options.namespace, options.minor, options.helm);
        assert_eq!(theirs, again, "{command:?}");
        let arguments: Vec<_> = command.iter().map(String::as_str).collect();
        let ours = printed(&arguments);
        assert!(theirs.matches("\nkind: ").count() > 7, "{command:?}: {theirs}");
        let differs = theirs.lines().zip(ours.lines()).find(|(theirs, ours)| theirs != ours);
        assert_eq!(differs, None, "{command:?}");
        assert_eq!(theirs.len(), ours.len(), "{command:?}");
    }
}

#[test]
fn what_is_bundled_is_what_both_charts_render() {
    let bundle = printed(&[
        "install",
        "--cni",
        "--create-namespace",
        "--server-version=1.36",
        "--set=image.repository=example.com/o,cni.netDir=/etc/rancher/net.d,probe.enabled=true",
    ]);
    let image = "--set=image.repository=example.com/o";
    let plugin = template(
        "outrigger-cni",
        "linkerd-cni",
        36,
        &[image, "--set=netDir=/etc/rancher/net.d,createNamespace=true"],
    );
    let webhook = template("outrigger", "linkerd", 36, &[image, "--set=probe.enabled=true"]);
    assert_eq!(bundle, format!("{plugin}{webhook}"));
}

#[test]
fn one_template_can_be_shown_alone() {
    let only = "--show-only=templates/rbac.yaml";
    let theirs = template("outrigger", "linkerd", 36, &[only]);
    assert_eq!(printed(&["install", "--server-version=1.36", only]), theirs);
}
