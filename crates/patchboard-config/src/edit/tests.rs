use super::{ProviderEdit, provider_setting, set_provider};
use crate::sample::sample;

fn edit(text: &str) -> String {
    let edit = ProviderEdit { name: "openai", kind: "openai", base_url: Some("https://h/v1"), model: "m" };
    set_provider(text, &edit).unwrap()
}

const ADDED: &str = r#"[providers.openai]
kind = "openai"
base_url = "https://h/v1"

[agents.default]
provider = "openai"
model = "m"
"#;

#[test]
fn what_is_added_comes_last() {
    let cases = [
        "",
        "# mine\n",
        "drain = \"1s\"\n",
        "# top\ndrain = \"1s\" # why\n\n# end\n",
        "[gateway]\nlisten = \":0\"\n",
        "[gateway]\n# listen = \":0\"\n\n[hub]\n# the end\n",
        "[providers.a]\nkind = \"offline\"\n\n[hub]\nlisten = \":0\"\n# the end\n",
        "[[plugins]]\nname = \"x\"\npath = \"y\"\n# not yet:\n# grants = []\n",
    ];
    for text in cases {
        let edited = edit(text);
        let separator = if text.is_empty() { "" } else { "\n" };
        assert_eq!(edited, format!("{text}{separator}{ADDED}"));
    }
}

#[test]
fn the_sample_keeps_all_its_lines() {
    let sample = sample();
    let edited = edit(&sample);
    assert!(edited.starts_with(sample.trim_end()), "the sample was disturbed");
    assert!(edited.ends_with(ADDED));
    // As it stands, and again.
    assert_eq!(edit(&edited), edited);
}

#[test]
fn any_layout_gives_the_same_values() {
    let cases = [
        "providers.a.kind = \"offline\"\n",
        "providers = { a = { kind = \"offline\" } }\n",
        "providers = {}\nagents = {}\n",
        "[providers]\na.kind = \"offline\"\n[agents]\n",
        "[providers]\na = { kind = \"offline\" }\n",
        "[agents.default.budget]\ndaily = 5\n",
        "agents.default.model = \"old\" # was\n",
        "[agents]\n[agents.default]\nprovider = \"old\"\n[agents.other]\n",
        "[providers.openai]\napi_key = \"env:X\"\nbase_url = \"http://old\"\n",
        "[providers.openai.price]\ninput = 1\noutput = 1\n",
    ];
    for text in cases {
        let edited = edit(text);
        let found = [
            ("providers", "openai", "kind", Some("openai")),
            ("providers", "openai", "base_url", Some("https://h/v1")),
            ("providers", "openai", "api_key", None),
            ("agents", "default", "provider", Some("openai")),
            ("agents", "default", "model", Some("m")),
        ];
        for (section, name, key, value) in found {
            assert_eq!(provider_setting(&edited, section, name, key).as_deref(), value, "{edited}");
        }
        let table: toml::Table = edited.parse().unwrap();
        let kept = table["providers"].get("a").is_some() == text.contains("offline");
        assert!(kept, "{edited}");
        assert_eq!(edited.contains("daily = 5"), text.contains("daily = 5"));
        assert_eq!(edited.contains("# was"), text.contains("# was"));
    }
}

#[test]
fn what_is_no_section_is_refused() {
    let edit = ProviderEdit { name: "x", kind: "openai", base_url: None, model: "m" };
    for (text, reason) in [
        ("x = ", "the file is not valid TOML"),
        ("providers = 5", "`providers` is not a section"),
        ("providers = [1]", "`providers` is not a section"),
        ("[[providers]]", "`providers` is not a section"),
        ("[providers]\nx = 5", "`providers.x` is not a section"),
        ("[agents]\ndefault = \"x\"", "`agents.default` is not a section"),
    ] {
        assert_eq!(set_provider(text, &edit).unwrap_err(), reason, "{text}");
    }
}
