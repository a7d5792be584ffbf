use secrecy::SecretString;

use super::*;
use crate::test_home::Bench;

fn names(text: &str) -> Vec<&'static str> {
    let loaded = Bench::with_file(text).load();
    sinks(&loaded, &Secrets::default()).unwrap().iter().map(|sink| sink.name()).collect()
}

#[test]
fn sinks_are_those_configured() {
    let cases: &[(&str, &[&str])] = &[
        ("", &["console", "desktop"]),
        ("[notifications]\nconsole = false\ndesktop = false", &[]),
        (
            "[[notifications.webhooks]]\nurl = \"http://10.0.0.7/x\"\n[[notifications.webhooks]]\nurl = \"https://h.example\"\n[notifications.ntfy]\ntopic = \"t\"",
            &["console", "desktop", "webhook", "webhook", "ntfy"],
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(names(text), *wanted, "{text}");
    }
}

#[test]
fn nothing_of_a_sink_that_is_secret_can_be_printed() {
    let text =
        "[[notifications.webhooks]]\nurl = \"https://h.example/hunter2\"\n[notifications.ntfy]\ntopic = \"hunter2\"";
    let token = || SecretString::from("hunter2");
    let secrets = Secrets {
        webhook_tokens: [(0, token())].into_iter().collect(),
        ntfy_token: Some(token()),
        ..Secrets::default()
    };
    let shown = format!("{:?}", sinks(&Bench::with_file(text).load(), &secrets).unwrap());
    assert!(shown.contains("h.example") && shown.contains("ntfy.sh") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn amounts_and_hours_are_those_configured() {
    let config = Bench::with_file("[notifications]\nper_minute = 3\nquiet = \"22:00-07:00\"").load().config;
    let options = notice_options(&config);
    assert_eq!((options.per_minute, options.quiet), (3, Some("22:00-07:00".parse().unwrap())));
    let usual = notice_options(&Config::default());
    assert_eq!((usual.per_minute, usual.quiet), (NoticeOptions::default().per_minute, None));
}

#[test]
fn the_bus_is_the_one_of_the_environment() {
    let loaded = Bench::new().env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x").env("XDG_RUNTIME_DIR", "/run/y").load();
    let bus = session_bus(&loaded);
    assert_eq!((bus.address.as_deref(), bus.runtime_dir), (Some("unix:path=/x"), Some("/run/y".into())));
}
