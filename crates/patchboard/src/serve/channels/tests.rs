use std::time::Duration;

use patchboard_config::Config;
use patchboard_surfaces::gateway::VerifyMethod;
use secrecy::ExposeSecret;

use super::checks;
use crate::test_home::Bench;

#[test]
fn each_way_as_configured() {
    let text = r#"
        [channels.a]
        verify = "telegram"
        secret = "env:TOKEN"
        rate_limit = { per_second = 7 }
        [channels.b]
        verify = "slack"
        secret = "env:TOKEN"
        replay_window = "1m"
        [channels.c]
        verify = "hmac-sha256"
        secret = "env:TOKEN"
        [channels.d]
        verify = "hmac-sha256"
        secret = "env:TOKEN"
        header = "X-Sign"
        timestamp_header = "X-Time"
        [channels.e]
        verify = "token"
        secret = "env:TOKEN"
        [channels.f]
        verify = "none"
    "#;
    let bench = Bench::with_file(text).env("TOKEN", "hunter2");
    let (loaded, secrets) = Config::load_for_start(bench.request()).unwrap();
    let found = checks(&loaded.config, &secrets);
    let ways: Vec<(&str, &VerifyMethod)> = found.iter().map(|check| (&*check.name, &check.verify)).collect();
    let signed = |header: &str, time: Option<&str>| VerifyMethod::HmacSha256 {
        header: header.into(),
        timestamp_header: time.map(Into::into),
    };
    assert_eq!(
        ways,
        [
            ("a", &VerifyMethod::Telegram),
            ("b", &VerifyMethod::Slack),
            ("c", &signed("x-hub-signature-256", None)),
            ("d", &signed("X-Sign", Some("X-Time"))),
            ("e", &VerifyMethod::Token { header: "x-webhook-token".into() }),
            ("f", &VerifyMethod::None),
        ]
    );
    assert_eq!((found[0].rate.per_second, found[0].rate.burst), (7.0, 50.0));
    assert_eq!(found[1].replay_window, Duration::from_secs(60));
    let secret = |index: usize| found[index].secret.as_ref().map(|secret| secret.expose_secret().to_owned());
    assert_eq!((secret(0).as_deref(), secret(5)), (Some("hunter2"), None));
}
