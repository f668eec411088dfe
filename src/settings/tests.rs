use std::io::Write;

use super::*;

fn load_text(text: &str) -> service::Result<Loaded<Config>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    service::config::load(&Places { file: Some(file.path().to_owned()), ..Places::default() })
}

/// The defaults keep every service's rules.
#[test]
fn defaults_are_valid() {
    let loaded = load_text("").unwrap();
    assert_eq!(loaded.config.data, "./tokenwatt-data");
    assert!(loaded.values.iter().all(|value| value.source == "default"));
}

/// Listening beyond this machine is a decision that somebody wrote down.
#[test]
fn open_ports_need_a_word() {
    let text = "[collector]\ngrpc_addr = \"0.0.0.0:4317\"\n[ui]\nhttp_addr = \"10.1.2.3:8080\"\n";
    let error = load_text(text).unwrap_err().to_string();
    assert!(
        error.contains("2 faults") && error.contains("`collector.grpc_addr`") && error.contains("10.1.2.3"),
        "{error}"
    );
    load_text(&format!("open = true\n{text}")).unwrap();
}

/// Faults of several services, and unknown keys, come together.
#[test]
fn faults_of_all_services_come_together() {
    let text = "data = \"gs://x\"\n[query]\nmax_rows = 0\n[gateway]\nnods = []\n";
    let error = load_text(text).unwrap_err().to_string();
    assert!(error.contains("3 faults"), "{error}");
    assert!(error.contains("unknown key `gateway.nods`; did you mean `nodes`?"), "{error}");
    assert!(error.contains("query.max_rows") && error.contains("gs://x"), "{error}");
}
