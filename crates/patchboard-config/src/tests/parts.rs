//! The small parts: nearest words, patterns, addresses and trees.

use crate::{glob, key_path::KeyPath, merge::merge_override, origin::ValueOrigin, shape, tree::ConfigNode, url};
use patchboard_core::text::nearest;

#[test]
fn nearest_words() {
    let keys = ["listen", "token", "allowed_origins", "max_tokens", "orphan_grace"];
    let cases = [
        ("lisen", Some("listen")),
        ("Listen", Some("listen")),
        ("litsen", Some("listen")),
        ("allowed-origins", Some("allowed_origins")),
        ("alowed_origin", Some("allowed_origins")),
        ("max_token", Some("max_tokens")),
        ("maxtokens", Some("max_tokens")),
        ("port", None),
        ("colour", None),
        ("", None),
    ];
    for (word, meant) in cases {
        assert_eq!(nearest(word, keys), meant, "{word}");
    }
    assert_eq!(nearest(&"x".repeat(100_000), keys), None);
}

#[test]
fn patterns_of_any_use() {
    for good in ["*", "bash", "files.*", "agent.?", "a/b:c-d_e"] {
        assert_eq!(glob::invalid_reason(good), None, "{good}");
    }
    for bad in ["", "a b", "größe", "[a]", &"x".repeat(129)] {
        assert!(glob::invalid_reason(bad).is_some(), "{bad}");
    }
    let mut patterns = ["*", "*gpt-4*", "gpt-4o", "*gpt-4o*", "gpt-4?"];
    patterns.sort_by_key(|pattern| glob::specificity(pattern));
    assert_eq!(patterns, ["gpt-4o", "*gpt-4o*", "gpt-4?", "*gpt-4*", "*"]);
}

#[test]
fn web_addresses() {
    for good in ["http://127.0.0.1:11434/v1", "https://api.example.com", "http://[::1]:8081", "https://h/v1/"] {
        assert_eq!(url::invalid_reason(good), None, "{good}");
    }
    let bad = [
        ("api.example.com/v1", "is not a web address"),
        ("not a url", "is not a web address"),
        ("/v1", "is not a web address"),
        ("ftp://h/x", "must start with http:// or https://"),
        ("https://user:hunter2@h/", "holds a user name or password"),
        ("https://h/v1?key=hunter2", "must end with its path"),
        ("https://h/v1#x", "must end with its path"),
    ];
    for (text, message) in bad {
        assert_eq!(url::invalid_reason(text).unwrap().message, message, "{text}");
    }
}

#[test]
fn origins_and_hosts() {
    for good in ["https://a.example", "http://localhost:5173", "app://obsidian.md", "http://[::1]:80"] {
        assert_eq!(url::invalid_origin(good), None, "{good}");
    }
    for bad in ["*", "null", "a.example", "https://a.example/", "https://", "1x://a", "https://a b", "https://a:port"] {
        assert!(url::invalid_origin(bad).is_some(), "{bad}");
    }
    for good in ["a.example", "a.example:7200", "10.0.0.1", "[::1]", "[::1]:80"] {
        assert_eq!(url::invalid_host(good), None, "{good}");
    }
    for bad in ["", "https://a", "a/b", "*", "a:b", "a:70000", "[x]", ":80"] {
        assert!(url::invalid_host(bad).is_some(), "{bad}");
    }
}

#[test]
fn loopback_addresses() {
    for yes in ["http://127.0.0.1:1", "http://localhost/v1", "http://[::1]:8081/v1", "http://127.9.9.9"] {
        assert!(url::is_loopback(yes), "{yes}");
    }
    for no in ["http://10.0.0.1", "https://localhost.example.com", "http://example.com/127.0.0.1", "nonsense"] {
        assert!(!url::is_loopback(no), "{no}");
    }
}

#[test]
fn paths_are_shown_as_toml_writes_them() {
    let path = KeyPath::dotted("tools.approval").key("files.*");
    assert_eq!(path.to_string(), "tools.approval.\"files.*\"");
    assert_eq!(KeyPath::dotted("bindings").index(2).key("agent").to_string(), "bindings[2].agent");
    assert_eq!(KeyPath::default().to_string(), "");
    assert!(path.is_related_to(&KeyPath::dotted("tools")));
    assert!(!path.is_related_to(&KeyPath::dotted("tool")));
}

#[test]
fn tables_merge_and_lists_replace() {
    let node = |text: &str, name: &str| {
        let value: toml::Table = text.parse().unwrap();
        ConfigNode::from_value(toml::Value::Table(value), &ValueOrigin::Env(name.to_owned()))
    };
    let mut base = node("a = 1\nlist = [1, 2, 3]\n[t]\nx = 1\ny = 2", "base");
    merge_override(&mut base, node("list = [9]\n[t]\ny = 3\nz = 4\n[new]\nk = 1", "over"), shape::root());
    let wanted: toml::Table = "a = 1\nlist = [9]\n[t]\nx = 1\ny = 3\nz = 4\n[new]\nk = 1".parse().unwrap();
    assert_eq!(base.to_value(), toml::Value::Table(wanted));
    let origin = |path: &str| base.origin_of(&KeyPath::dotted(path)).to_string();
    assert_eq!(
        ["a", "list", "t.x", "t.y", "t.z", "new.k", "nothing"].map(origin),
        ["env base", "env over", "env base", "env over", "env over", "env over", "default"]
    );
    // A scalar over a table and a table over a scalar replace.
    merge_override(&mut base, node("t = 5\na = { b = 1 }", "last"), shape::root());
    assert_eq!(base.get(&KeyPath::dotted("t")).unwrap().to_value(), toml::Value::Integer(5));
    assert_eq!(base.nearest_origin(&KeyPath::dotted("a.b.c")).to_string(), "env last");
}

#[test]
fn removing_from_a_tree() {
    let value: toml::Table = "list = [{ a = 1 }, { a = 2 }]\n[t]\nx = 1".parse().unwrap();
    let mut tree = ConfigNode::from_value(toml::Value::Table(value), &ValueOrigin::Default);
    assert!(tree.remove(&KeyPath::dotted("list").index(0)));
    assert!(tree.remove(&KeyPath::dotted("t.x")));
    for absent in [KeyPath::default(), KeyPath::dotted("t.x"), KeyPath::dotted("u.v"), KeyPath::dotted("list").index(7)]
    {
        assert!(!tree.remove(&absent), "{absent}");
    }
    let left: toml::Table = "list = [{ a = 2 }]\n[t]".parse().unwrap();
    assert_eq!(tree.to_value(), toml::Value::Table(left));
}
