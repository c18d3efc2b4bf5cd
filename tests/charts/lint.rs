//! What helm itself finds fault with.

use crate::helm::helm;

#[test]
fn helm_finds_no_fault() {
    for chart in ["outrigger", "outrigger-cni"] {
        for release in ["1.23", "1.29", "1.36"] {
            let output = helm(&["lint", "--strict", "--kube-version", release, chart]);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success(),
                "{said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{said}");
            assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{said}");
        }
    }
    let output = helm(&["lint", "--strict", "--values=outrigger/values-ha.yaml", "outrigger"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
