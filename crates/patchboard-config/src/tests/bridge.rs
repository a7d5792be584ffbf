//! Rules about the bridge and its pools of workers.

use std::os::unix::fs::PermissionsExt;

use super::bench::{Bench, PEM};
use super::validation::{check, found};

#[test]
fn bridge_off_loopback() {
    let bench = |text: &str| {
        Bench::with_file(&format!("[bridge]\nlisten = \"0.0.0.0:1\"\n{text}"))
            .env("TOKEN", "sixteen-letters!")
            .file("project/c.pem", PEM)
    };
    let token = "token = \"env:TOKEN\"";
    let tls = "tls = { cert = \"c.pem\", key = \"c.pem\" }";
    let mutual = "tls = { cert = \"c.pem\", key = \"c.pem\", client_ca = \"c.pem\" }";
    assert_eq!(found(&bench("")), ["PB0114 bridge.token", "PB0115 bridge.listen"]);
    assert_eq!(found(&bench(tls)), ["PB0114 bridge.token"]);
    assert_eq!(found(&bench(token)), ["PB0115 bridge.listen"]);
    assert_eq!(found(&bench("insecure = true")), ["PB0114 bridge.token"]);
    assert!(found(&bench(&format!("{tls}\n{token}"))).is_empty());
    assert!(found(&bench(mutual)).is_empty());
    assert!(found(&bench(&format!("insecure = true\n{token}"))).is_empty());
    let missing = bench("token = \"env:TOKEN\"\ntls = { cert = \"no.pem\", key = \"c.pem\" }");
    assert_eq!(found(&missing), ["PB0120 bridge.tls.cert"]);
}

#[test]
fn files_for_tls() {
    let cert = "-----BEGIN CERTIFICATE-----\n";
    let key = "-----BEGIN EC PRIVATE KEY-----\n";
    let check = |tls: &str, wanted: &[&str]| {
        let bench = Bench::with_file(&format!("[bridge]\ntls = {{ {tls} }}"))
            .file("project/cert.pem", &format!("somebody's\n{cert}"))
            .file("project/key.pem", key)
            .file("project/locked.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
            .file("project/old.pem", &format!("{key}Proc-Type: 4,ENCRYPTED\n"))
            .file("project/closed.pem", cert)
            .file("project/text", "hello");
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(bench.path("project/closed.pem"), closed).unwrap();
        assert_eq!(bench.complaints().lines().map(str::trim).collect::<Vec<_>>(), wanted, "{tls}");
    };
    let at = |key: &str| format!("error[PB0124] bridge.tls.{key} (patchboard.toml:2)");
    check("cert = \"cert.pem\", key = \"key.pem\", client_ca = \"cert.pem\"", &[]);
    check(
        "cert = \"key.pem\", key = \"cert.pem\", client_ca = \"text\"",
        &[
            &format!("{}: `~/project/key.pem` does not hold a certificate in PEM form", at("cert")),
            "hint: it must have a line with -----BEGIN CERTIFICATE-----",
            &format!("{}: `~/project/text` does not hold a certificate in PEM form", at("client_ca")),
            "hint: it must have a line with -----BEGIN CERTIFICATE-----",
            &format!("{}: `~/project/cert.pem` does not hold a private key in PEM form", at("key")),
            "hint: it must have a line with PRIVATE KEY-----",
        ],
    );
    for encrypted in ["locked", "old"] {
        check(
            &format!("cert = \"cert.pem\", key = \"{encrypted}.pem\""),
            &[
                &format!("{}: the private key in `~/project/{encrypted}.pem` is encrypted", at("key")),
                "hint: the server cannot ask for a passphrase: store the key without one, mode 0600",
            ],
        );
    }
    // Nothing is closed to root.
    if !rustix::process::geteuid().is_root() {
        check(
            "cert = \"closed.pem\", key = \"key.pem\"",
            &[
                &format!("{}: file `~/project/closed.pem` cannot be read: permission denied", at("cert")),
                "hint: make it readable for the user that runs the server",
            ],
        );
    }
}

#[test]
fn the_path_of_a_socket_has_its_limit() {
    let check = |path: &str, wanted: &[&str]| {
        let bench = Bench::with_file(&format!("data_dir = \"/data\"\n[bridge]\nunix_socket = \"{path}\""));
        assert_eq!(found(&bench), wanted, "{path}");
    };
    check(&"x".repeat(107 - "/data/".len()), &[]);
    check(&"x".repeat(108 - "/data/".len()), &["PB0109 bridge.unix_socket"]);
    check(&format!("/{}", "x".repeat(106)), &[]);
    check(&format!("/{}", "é".repeat(54)), &["PB0109 bridge.unix_socket"]);
}

#[test]
fn the_bridge_has_bounds() {
    for (setting, code) in [
        ("max_connections = 0", "PB0111"),
        ("max_sessions = 0", "PB0111"),
        ("max_queue = 0", "PB0111"),
        ("call_timeout = \"0s\"", "PB0105"),
        ("stream_timeout = 900", "PB0105"),
        ("session_ttl = \"0ms\"", "PB0105"),
    ] {
        let key = setting.split(' ').next().unwrap_or_default();
        check(&format!("[bridge]\n{setting}"), &[&format!("{code} bridge.{key}")]);
    }
    check("[bridge]\nallowed_hosts = [\"board.example.com\", \"https://a\"]", &["PB0121 bridge.allowed_hosts[1]"]);
    check("[bridge]\nexpose = [\"agent.*\", \"a b\"]", &["PB0119 bridge.expose[1]"]);
    check("[bridge]\nexpose = [\"agent.*\", \"b*\", \"*\"]", &["PB0123? bridge.expose[1]", "PB0123? bridge.expose[2]"]);
}

#[test]
fn names_of_pools() {
    let pool = |name: &str| format!("[[workers]]\nname = \"{name}\"\ncommand = [\"x\"]\n");
    for good in ["py", "A-1_b", "apps", "agents", &"x".repeat(32)] {
        check(&pool(good), &[]);
    }
    for bad in ["a b", "a.b", "a/b", "é", "agent", "app", &"x".repeat(33), &"x".repeat(65)] {
        check(&pool(bad), &["PB0118 workers[0].name"]);
    }
    check(&format!("{}[mcp.files]\ncommand = [\"x\"]", pool("files")), &["PB0118 workers[0].name"]);
    check(&format!("{}{}", pool("py"), pool("py")), &["PB0118 workers[1].name"]);
    check(&format!("{}{}", pool("py"), pool("Py")), &[]);
    let many = |count: usize| (0..count).map(|number| pool(&format!("p{number}"))).collect::<String>();
    check(&many(64), &[]);
    check(&many(65), &["PB0111 workers"]);
}

#[test]
fn pools_have_bounds() {
    let pool = |settings: &str| format!("[[workers]]\nname = \"py\"\ncommand = [\"x\"]\n{settings}");
    for good in [
        "capacity = 1",
        "capacity = 1024",
        "affinity = \"hint\"",
        "affinity = \"strict-queue\"",
        "affinity = \"strict-fail-fast\"",
        "queue_timeout = \"100ms\"\nmax_queue = 5",
        "max_age = \"1h\"\nmax_requests = 100\nmax_memory = \"1GiB\"\nmemory_limit = \"4GiB\"",
        "start_timeout = \"60s\"\nwarm = true",
        "log_level = \"none\"",
        "writable = [\".\", \"patchboard.toml\"]",
    ] {
        check(&pool(good), &[]);
    }
    for (bad, code) in [
        ("capacity = 0", "PB0111"),
        ("capacity = 1025", "PB0111"),
        ("count = 257", "PB0111"),
        ("affinity = \"strict\"", "PB0110"),
        ("queue_timeout = \"0s\"", "PB0105"),
        ("max_queue = 0", "PB0111"),
        ("max_age = 60", "PB0105"),
        ("max_requests = 0", "PB0111"),
        ("max_memory = \"0B\"", "PB0106"),
        ("memory_limit = 1", "PB0106"),
        ("start_timeout = \"0s\"", "PB0105"),
        ("warm = \"yes\"", "PB0104"),
        ("log_level = \"warn\"", "PB0110"),
    ] {
        let key = bad.split(' ').next().unwrap_or_default();
        check(&pool(bad), &[&format!("{code} workers[0].{key}")]);
    }
    check(&pool("max_memory = \"2GiB\"\nmemory_limit = \"2GiB\""), &["PB0122? workers[0].max_memory"]);
    check(&pool("writable = [\".\", \"no\"]"), &["PB0120 workers[0].writable[1]"]);
    check(&pool("writable = [\"/\"]"), &["PB0123? workers[0].writable[0]"]);
    check(&pool("writable = [\"~/.local/share/patchboard/x\"]"), &["PB0122 workers[0].writable[0]"]);
}
