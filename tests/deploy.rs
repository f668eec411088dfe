//! What we hand out for running it elsewhere is valid: rules, scrape config, manifests, sample settings, build steps.

use std::path::PathBuf;
use std::process::Command;

use crate::world::{World, finish, repository, tokenwatt};

fn assert_runs(command: &mut Command) -> String {
    let output = finish(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn promtool_accepts_rules_and_scrape_config_and_the_rules_pass_their_tests() {
    let dir = repository("deploy/prometheus");
    assert_runs(Command::new("promtool").args(["check", "rules"]).arg(dir.join("tokenwatt.rules.yml")));
    assert_runs(Command::new("promtool").args(["check", "config"]).arg(dir.join("prometheus.yml")));
    assert_runs(Command::new("promtool").args(["test", "rules"]).arg(dir.join("tokenwatt.test.yml")));
    assert_runs(Command::new("amtool").arg("check-config").arg(dir.join("alertmanager.yml")));
}

#[test]
fn kustomize_renders_the_manifests() {
    let rendered = assert_runs(Command::new("kubectl").arg("kustomize").arg(repository("deploy/kubernetes")));
    for kind in ["StatefulSet", "Deployment", "DaemonSet", "Service", "ConfigMap"] {
        assert!(rendered.contains(&format!("kind: {kind}")), "no {kind} in\n{rendered}");
    }
    let workers = repository("deploy/kubernetes-workers");
    let rendered = assert_runs(Command::new("kubectl").arg("kustomize").arg(workers));
    for part in ["kind: RoleBinding", "name: query-workers", "replicas: 3", "TOKENWATT__QUERY__WORKERS__TOKEN"] {
        assert!(rendered.contains(part), "no {part} in\n{rendered}");
    }
}

fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository(dir)).unwrap_or_else(|error| panic!("{dir}: {error}"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    assert!(!found.is_empty(), "no .{extension} in {dir}");
    found
}

/// Every sample is read by the binary itself: an unknown or missing key would be an error.
#[test]
fn every_sample_config_is_accepted_by_the_binary() {
    for dir in ["deploy/config", "deploy/kubernetes/config", "deploy/kubernetes-workers"] {
        for path in files(dir, "toml") {
            let world = World::new();
            let mut command = tokenwatt(&["check", "--config"]);
            // As the manifests take it from a secret.
            command.env("TOKENWATT__QUERY__WORKERS__TOKEN", "a-secret-of-the-test");
            command.arg(&path).arg("--data").arg(world.lake()).arg("--state").arg(world.state());
            let output = finish(command.current_dir(world.path()));
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}:\n{text}\n{errors}", path.display());
        }
    }
}

/// There may be no Docker daemon; what the image is built from exists, and its steps are a script that shells can parse.
#[test]
fn the_image_is_built_from_files_that_exist() {
    let text = std::fs::read_to_string(repository("deploy/docker/Dockerfile")).expect("read");
    let mut copied = 0;
    for line in text.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from=")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        for source in &words[..words.len() - 1] {
            assert!(repository(source).exists(), "{line}: no {source}");
            copied += 1;
        }
    }
    assert!(copied > 0, "the image copies nothing");
    assert_runs(Command::new("bash").arg("-n").arg(repository("deploy/docker/build")));
}

#[test]
fn the_systemd_unit_starts_what_exists() {
    let text = std::fs::read_to_string(repository("deploy/systemd/tokenwatt.service")).expect("read");
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("ExecStart");
    let arguments: Vec<&str> = start.split_whitespace().skip(1).collect();
    let help = assert_runs(tokenwatt(&[arguments[0], "--help"]).env_clear());
    for flag in arguments.iter().filter(|argument| argument.starts_with("--")) {
        assert!(help.contains(flag), "{flag} of the unit is no flag of `tokenwatt {}`", arguments[0]);
    }
}
