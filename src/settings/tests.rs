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

/// Sessions and links end.
#[test]
fn sessions_and_links_have_bounds() {
    let config = load_text("[ui]\nsession = \"30m\"\nshare = \"0s\"\n").unwrap().config;
    assert_eq!((config.ui.session.as_secs(), config.ui.share.as_secs()), (1_800, 0));
    let error = load_text("[ui]\nsession = \"31d\"\nshare = \"366d\"\n").unwrap_err().to_string();
    assert!(error.contains("2 faults") && error.contains("`ui.session` must lie between 1m and 30d"), "{error}");
    assert!(load_text("[ui]\nsession = \"59s\"\n").unwrap_err().to_string().contains("`ui.session`"));
    assert!(load_text("[ui]\nnames = [\"tokens.example.com\", \"dash\"]\n").is_ok());
    let error = load_text("[ui]\nnames = [\"https://tokens.example.com\", \"a:80\", \"\"]\n").unwrap_err().to_string();
    assert!(error.contains("3 faults") && error.contains("`ui.names` has `a:80`"), "{error}");
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

/// Beyond this machine somebody must be named who may do what the port does; a writer opens no dashboard.
#[test]
fn a_port_beyond_this_machine_needs_a_principal_of_its_role() {
    let hash = "a".repeat(64);
    let named = |role: &str| {
        format!(
            "[collector]\ngrpc_addr = \"0.0.0.0:4317\"\n[ui]\nhttp_addr = \"0.0.0.0:8080\"\n\
             [[principal]]\nname = \"p\"\nrole = \"{role}\"\ntoken_sha256 = \"{hash}\"\ntenants = [\"*\"]\n"
        )
    };
    let faults = |text: &str| load_text(text).unwrap_err().to_string();
    let of_writer = faults(&named("writer"));
    assert!(of_writer.contains("1 fault") && of_writer.contains("`ui.http_addr`"), "{of_writer}");
    let of_reader = faults(&named("reader"));
    assert!(of_reader.contains("1 fault") && of_reader.contains("`collector.grpc_addr`"), "{of_reader}");
    let node = faults("[node]\nhttp_addr = \"0.0.0.0:8100\"\n");
    assert!(node.contains("`node.http_addr`"), "{node}");
    let gateway = faults("[gateway]\nhttp_addr = \"0.0.0.0:8200\"\n");
    assert!(gateway.contains("gateway.http_addr"), "{gateway}");
}

/// Certificates of clients need an authority that vouches for them, and it needs them.
#[test]
fn certificates_and_their_authority_belong_together() {
    let principal = "[[principal]]\nname = \"p\"\nrole = \"writer\"\ncertificate = \"node.fleet\"\ntenants = [\"*\"]\n";
    let tls = "[tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n";
    assert!(load_text(principal).unwrap_err().to_string().contains("needs `tls.client_ca`"));
    assert!(load_text(tls).unwrap_err().to_string().contains("no principal has a `certificate`"));
    load_text(&format!("{tls}{principal}")).unwrap();
}

/// A number that a process could not hold is a fault that names its bounds, not a panic at the start.
#[test]
fn numbers_have_bounds() {
    for (section, key, value) in [
        ("query", "concurrency", "9000000000000000000"),
        ("query", "partitions", "1000000000"),
        ("query", "timeout_ms", "9000000000000000000"),
        ("query", "memory_bytes", "9000000000000000000"),
        ("collector", "flush_bytes", "\"9000TiB\""),
        ("collector", "memory", "\"9000TiB\""),
        ("collector", "distinct_max", "9000000000000000000"),
        ("collector", "flush_after", "\"9000d\""),
        ("gateway", "records_max", "9000000000000000000"),
        ("gateway", "idle_timeout", "\"9000000000d\""),
        ("node", "queue_max", "4000000000"),
        ("node.record", "queue_records", "9000000000000000000"),
        ("node.record", "give_up_after", "\"9000000000d\""),
        ("node.schedule", "blocks", "4000000000"),
        ("node.engine.sim", "slots", "4000000000"),
        ("node.engine.sim", "prefill_slowdown", "nan"),
        ("node.engine.cpu", "max_len", "4000000000"),
    ] {
        let error = load_text(&format!("[{section}]\n{key} = {value}\n")).unwrap_err().to_string();
        assert!(error.contains(&format!("`{section}.{key}` is")) && error.contains("must lie between"), "{error}");
    }
}

/// A value where a table belongs is told in the words of the file, with what to write.
#[test]
fn tables_are_asked_for_as_they_are_written() {
    for (text, said) in [
        (
            "[node]\nengine = \"cpu\"\n",
            "`node.engine` is a table, not a string \"cpu\"; write `[node.engine]`, and below it: kind = \"cpu\"",
        ),
        ("listen = 5\n", "`listen` is a table, not a signed int `5`; write `[listen]`, and below it: "),
    ] {
        let error = load_text(text).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("1 fault") && !error.contains("struct"), "{error}");
    }
}

/// No secret of any service is printed, by `check` or in a log.
#[test]
fn secrets_are_never_printed() {
    let text = "[gateway]\nfleet_secret = \"hush-1\"\n[gateway.otlp]\ntoken = \"hush-2\"\n\
        [[gateway.keys]]\nkey = \"hush-3\"\ntenant = \"acme\"\n[node]\nfleet_secret = \"hush-4\"\n\
        [node.otlp]\ntoken = \"hush-5\"\n[ui]\ntoken = \"hush-6\"\n";
    let loaded = load_text(text).unwrap();
    let printed = format!("{:?} {:?}", loaded.config, loaded.values);
    assert!(printed.contains("acme") && !printed.contains("hush"), "{printed}");
    assert_eq!(loaded.config.ui.token, Some(Secret::new("hush-6")));
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
