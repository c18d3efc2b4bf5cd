//! What people see of the decision before anything is created. `docs/preview.md` shows it, and is true.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::cluster::{Namespace, Verb, call, repository, shared};
use crate::scene::{CNI, ENFORCE, INJECT, PLAIN, Scene};
use crate::workload::{KINDS, api, resource, workload};

/// The documented commands, each with what it prints, and the manifests that they name, each with its text.
#[derive(Default)]
struct Document {
    commands: Vec<(String, String)>,
    manifests: Vec<(String, String)>,
}

impl Document {
    fn read(text: &str) -> Self {
        let mut document = Self::default();
        for block in text.split("\n```").skip(1).step_by(2) {
            let (kind, body) = block.split_once('\n').unwrap();
            match kind {
                "yaml" => {
                    let name = body.lines().next().unwrap().strip_prefix("# ").unwrap();
                    document.manifests.push((name.to_owned(), body.to_owned()));
                }
                "console" => document.take_transcript(body),
                _ => {}
            }
        }
        document
    }

    fn take_transcript(&mut self, body: &str) {
        for line in body.lines() {
            match (line.strip_prefix("$ "), self.commands.last_mut()) {
                (Some(command), _) => self.commands.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("no command prints {line:?}"),
            }
        }
    }
}

#[tokio::test]
async fn the_documented_transcripts_are_true() {
    let (plain, cni) = (Scene::with_values(PLAIN).await, Scene::with_values(CNI).await);
    for (scene, name, level) in [
        (&plain, "shop", None),
        (&plain, "bank", Some("baseline")),
        (&cni, "vault", Some("restricted")),
    ] {
        let label = scene.registration.label();
        let labels: Vec<_> = [label].into_iter().chain(level.map(|level| (ENFORCE, level))).collect();
        Namespace::create_named(&scene.client, name, &labels, &[INJECT]).await;
    }
    let document = Document::read(&fs::read_to_string(repository().join("docs/preview.md")).unwrap());
    let folder = TempDir::new().unwrap();
    for (name, text) in &document.manifests {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let kubeconfig = shared().await.kubeconfig();
    let difference = |(command, shown): &(String, String)| {
        let printed = run(command, folder.path(), &kubeconfig);
        (printed != *shown).then(|| format!("$ {command}\n{printed}"))
    };
    let differences: Vec<_> = document.commands.iter().filter_map(difference).collect();
    assert!(
        differences.is_empty(),
        "docs/preview.md is to show\n{}",
        differences.concat()
    );
    assert!(document.commands.len() >= 5, "the document shows too little");
}

/// What `command` prints, on either stream, to somebody whose working folder is `folder`.
fn run(command: &str, folder: &Path, kubeconfig: &Path) -> String {
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .env("KUBECONFIG", kubeconfig)
        .env("KUBECACHEDIR", folder.join("cache"))
        .current_dir(folder)
        .output()
        .unwrap();
    let mut printed = String::from_utf8(output.stdout).unwrap();
    if !printed.ends_with('\n') {
        printed.push('\n');
    }
    printed
}

#[tokio::test]
async fn every_kind_of_workload_is_previewed_and_none_is_changed() {
    let scene = Scene::with_values(PLAIN).await;
    let namespace = scene.meshed("baseline").await;
    for kind in KINDS {
        let (api, resource, object) = (api(kind), resource(kind), workload(kind, "web", None));
        let tried = namespace.post(api, &format!("{resource}?dryRun=All"), &object).await;
        assert_eq!(tried.code, 201, "{}", tried.message());
        assert_eq!(
            tried.warnings[0],
            format!("no_redirection_admitted: deny for pods of {kind}/web")
        );
        assert!(
            tried.warnings[1].contains("init-container: violates PodSecurity"),
            "{:?}",
            tried.warnings
        );
        let created = namespace.post(api, &resource, &object).await;
        assert_eq!(
            (created.code, created.warnings.len()),
            (201, 0),
            "{:?}",
            created.warnings
        );
        assert!(
            !created.body["spec"].to_string().contains("linkerd"),
            "{}",
            created.body
        );
        let path = format!("/{api}/namespaces/{}/{resource}/web?dryRun=All", namespace.name);
        let change = json!({"metadata": {"labels": {"tried": "yes"}}});
        let changed = call(&scene.client, Verb::Patch, &path, Some(&change)).await.unwrap();
        assert_eq!((changed.code, &changed.warnings), (200, &tried.warnings));
    }
}
