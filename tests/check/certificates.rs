//! A look at the certificate where the webhook is reached another way than by its Service.

use crate::answer::{Answer, run};
use crate::cluster::Port;
use crate::installation::Installation;

#[tokio::test]
async fn the_webhook_is_looked_at_where_one_says() {
    let installation = Installation::new("127.103.0.0/16").await;
    let kubeconfig = installation.kubeconfig();
    let answer = Answer::to(&kubeconfig, &["--webhook-address", &installation.address]);
    let said = answer.says("handshake");
    assert!(
        said.contains(&format!("the webhook at {}", installation.address)),
        "{said}"
    );
    let said = answer.says("dry_run_not_tried");
    assert!(said.starts_with("unknown: no namespace in which"), "{said}");
    assert_eq!((answer.status, answer.faults()), (Some(0), vec!["dry_run_not_tried"]));

    let nobody = Port::reserve();
    let answer = Answer::to(&kubeconfig, &["--webhook-address", &nobody.address().to_string()]);
    let line = answer.line("handshake_not_tried");
    assert!(line["hint"].as_str().unwrap().contains("port-forward"), "{line}");
    assert_eq!(answer.status, Some(0));

    for flags in [
        &["--webhook-address", "nowhere"][..],
        &["--pre", "--proxy"],
        &["-o", "yaml"],
    ] {
        assert_eq!(run(&kubeconfig, flags).status.code(), Some(2), "{flags:?}");
    }
}
