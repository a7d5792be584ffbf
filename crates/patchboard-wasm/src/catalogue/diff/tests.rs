use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::catalogue::pins::PinnedTool;

fn tool(description: &str, input_schema: &str, read_only: bool) -> PinnedTool {
    PinnedTool { description: description.to_owned(), input_schema: input_schema.to_owned(), read_only }
}

fn grants(grants: &[&str]) -> std::collections::BTreeSet<PluginGrant> {
    grants.iter().map(|grant| grant.parse().unwrap()).collect()
}

fn pin() -> PluginPin {
    PluginPin {
        sha256: "aa".into(),
        imports: ["http".into(), "log".into()].into(),
        grants: grants(&["http:a.example", "http:b.example:443", "store:notes"]),
        has_channel: false,
        tools: [("look".into(), tool("Looks.", "{}", true)), ("shout".into(), tool("Shouts.", "{}", false))].into(),
    }
}

fn with_tool(name: &str, tool: PinnedTool) -> PluginPin {
    let mut pin = pin();
    pin.tools.insert(name.into(), tool);
    pin
}

#[track_caller]
fn check(before: &PluginPin, now: &PluginPin, expected: &[&str]) {
    let changes: Vec<String> = diff(before, now).iter().map(PluginChange::to_string).collect();
    assert_eq!(changes, expected);
}

#[test]
fn the_same_or_less_is_no_change() {
    check(&pin(), &pin(), &[]);
    check(&pin(), &PluginPin { sha256: "bb".into(), ..pin() }, &[]);
    check(&pin(), &PluginPin { imports: ["log".into()].into(), ..pin() }, &[]);
    check(&pin(), &PluginPin { grants: grants(&["store:notes"]), ..pin() }, &[]);
    check(&pin(), &PluginPin { tools: BTreeMap::new(), ..pin() }, &[]);
    check(&PluginPin { has_channel: true, ..pin() }, &pin(), &[]);
}

#[test]
fn more_and_other_is_named() {
    let more = ["http".into(), "log".into(), "store".into()].into();
    check(&pin(), &PluginPin { imports: more, ..pin() }, &["asks for interface store"]);
    check(&pin(), &PluginPin { has_channel: true, ..pin() }, &["is a channel adapter now"]);
    check(&pin(), &with_tool("whisper", tool("Whispers.", "{}", true)), &["new tool whisper"]);
    check(&pin(), &with_tool("shout", tool("Shouts. Call it first.", "{}", false)), &["tool shout: other description"]);
    check(&pin(), &with_tool("shout", tool("Shouts.", "{1}", false)), &["tool shout: other input schema"]);
    let now_read_only = with_tool("shout", tool("Shouts.", "{}", true));
    check(&pin(), &now_read_only, &["tool shout: says now that it changes nothing"]);
    let now_writes = with_tool("look", tool("Looks.", "{}", false));
    check(&pin(), &now_writes, &["tool look: says no longer that it changes nothing"]);
    let much = PluginPin { grants: grants(&["host-function:bash"]), ..with_tool("shout", tool("S", "{1}", false)) };
    let expected = ["new grant host-function:bash", "tool shout: other description", "tool shout: other input schema"];
    check(&pin(), &much, &expected);
}

#[test]
fn a_grant_is_new_unless_an_old_one_covers_it() {
    let check = |now: &[&str], expected: &[&str]| check(&pin(), &PluginPin { grants: grants(now), ..pin() }, expected);
    check(&["http:a.example:8080"], &[]);
    check(&["http:b.example:443"], &[]);
    check(&["http:b.example"], &["new grant http:b.example"]);
    check(&["http:b.example:80"], &["new grant http:b.example:80"]);
    check(&["http:sub.a.example"], &["new grant http:sub.a.example"]);
    check(&["store:notes", "store:more"], &["new grant store:more"]);
    check(&["host-function:notes"], &["new grant host-function:notes"]);
}

#[test]
fn a_plugin_without_grants_is_read_only_whatever_it_says() {
    let harmless = PluginPin { grants: grants(&[]), ..with_tool("shout", tool("Shouts.", "{}", true)) };
    check(&pin(), &harmless, &[]);
    let granted = ["new grant http:a.example", "new grant http:b.example:443", "new grant store:notes"];
    check(&harmless, &pin(), &granted);
}

#[test]
fn what_is_seen_first_takes_over_and_what_cannot_be_read_does_not() {
    for origin in [PluginOrigin::Configured, PluginOrigin::Folder] {
        assert_eq!(check_against_pin(&PinLookup::Missing, &pin(), origin), ApprovalVerdict::Accepted(Vec::new()));
        let unreadable = PinLookup::Unreadable("it is of form 2".to_owned());
        let ApprovalVerdict::NeedsApproval(changes) = check_against_pin(&unreadable, &pin(), origin) else {
            panic!("an unreadable pin was passed")
        };
        let told: Vec<String> = changes.iter().map(PluginChange::to_string).collect();
        assert_eq!(told, ["what was approved of it cannot be read: it is of form 2"]);
    }
}

#[test]
fn the_operator_may_grant_more_to_the_file_that_was_approved() {
    let known = PinLookup::Known(pin());
    let more = PluginPin { grants: grants(&["store:more"]), ..pin() };
    let granted = || vec![PluginChange::Grant("store:more".parse().unwrap())];
    assert_eq!(check_against_pin(&known, &more, PluginOrigin::Configured), ApprovalVerdict::Accepted(granted()));
    assert_eq!(check_against_pin(&known, &more, PluginOrigin::Folder), ApprovalVerdict::NeedsApproval(granted()));
    let other_file = PluginPin { sha256: "bb".into(), ..more };
    assert_eq!(
        check_against_pin(&known, &other_file, PluginOrigin::Configured),
        ApprovalVerdict::NeedsApproval(granted())
    );
    // The same file may say another thing about itself today; that is never the operator's word.
    let other_words = PluginPin { grants: grants(&["store:more"]), ..with_tool("shout", tool("Other.", "{}", false)) };
    let both = [granted(), vec![PluginChange::Tool("shout".into(), ToolDifference::Description)]].concat();
    assert_eq!(check_against_pin(&known, &other_words, PluginOrigin::Configured), ApprovalVerdict::NeedsApproval(both));
}

fn any_pin() -> impl Strategy<Value = PluginPin> {
    let imports = prop::collection::btree_set(prop::sample::select(vec!["http", "log", "store"]), 0..3);
    let grant = prop::sample::select(vec!["http:a", "http:a:1", "http:a:2", "http:b:1", "store:a", "host-function:a"]);
    let tools =
        prop::collection::btree_map(prop::sample::select(vec!["x", "y", "z"]), (0..2u8, 0..2u8, any::<bool>()), 0..3);
    (imports, prop::collection::btree_set(grant, 0..4), any::<bool>(), tools, 0..3u8).prop_map(
        |(imports, grants, has_channel, tools, hash)| PluginPin {
            sha256: hash.to_string().into(),
            imports: imports.into_iter().map(Into::into).collect(),
            // Without grants all tools are read-only, as versions have it.
            tools: tools
                .into_iter()
                .map(|(name, (description, schema, read_only))| {
                    let read_only = read_only || grants.is_empty();
                    (name.into(), tool(&description.to_string(), &schema.to_string(), read_only))
                })
                .collect(),
            grants: grants.into_iter().map(|grant| grant.parse().unwrap()).collect(),
            has_channel,
        },
    )
}

/// Every host and port that the grants of the property reach.
fn reached(pin: &PluginPin) -> Vec<String> {
    let hosts = ["a", "b"].into_iter().flat_map(|host| [1, 2, 3].map(|port| (host, port)));
    let mut reached: Vec<String> = hosts
        .filter(|(host, port)| {
            pin.grants.iter().any(|grant| matches!(grant, PluginGrant::Http(granted) if granted.covers(host, *port)))
        })
        .map(|(host, port)| format!("{host}:{port}"))
        .collect();
    reached.extend(pin.grants.iter().filter(|grant| !matches!(grant, PluginGrant::Http(_))).map(ToString::to_string));
    reached
}

proptest! {
    #[test]
    fn what_passes_unasked_can_do_nothing_that_was_not_approved(before in any_pin(), now in any_pin()) {
        prop_assert_eq!(diff(&before, &before), vec![]);
        if diff(&before, &now).is_empty() {
            let could = reached(&before);
            prop_assert!(reached(&now).iter().all(|target| could.contains(target)));
            prop_assert!(now.imports.is_subset(&before.imports));
            prop_assert!(before.has_channel || !now.has_channel);
            for (name, tool) in &now.tools {
                let approved = &before.tools[name];
                prop_assert_eq!((&tool.description, &tool.input_schema), (&approved.description, &approved.input_schema));
                let is_believed_only_for_lack_of_grants = now.grants.is_empty();
                prop_assert!(!tool.read_only || approved.read_only || is_believed_only_for_lack_of_grants);
            }
        }
    }

    #[test]
    fn less_always_passes(before in any_pin(), keeps in any::<[bool; 3]>()) {
        let mut now = PluginPin { sha256: "less".into(), ..before.clone() };
        if keeps[0] { now.imports.clear(); }
        if keeps[1] { now.tools.clear(); }
        if keeps[2] { now.has_channel = false; }
        let less_granted = now.grants.pop_last();
        if less_granted.is_some() && now.grants.is_empty() {
            now.tools.values_mut().for_each(|tool| tool.read_only = true);
        }
        prop_assert_eq!(diff(&before, &now), vec![]);
    }
}
