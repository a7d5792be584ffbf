//! Rules between sections.

use super::bench::Bench;

/// Codes and paths of all problems, with `?` after warnings.
pub(super) fn found(bench: &Bench) -> Vec<String> {
    let problems = bench.problems();
    let line = |problem: &crate::problem::ConfigProblem| {
        let warning = match problem.severity {
            crate::problem::Severity::Error => "",
            crate::problem::Severity::Warning => "?",
        };
        format!("{}{warning} {}", problem.code.as_str(), problem.path)
    };
    problems.iter().map(line).collect()
}

#[track_caller]
pub(super) fn check(text: &str, wanted: &[&str]) {
    let bench = Bench::with_file(text).env("TOKEN", "0123456789abcdef");
    assert_eq!(found(&bench), wanted, "for:\n{text}\n{}", bench.complaints());
}

#[test]
fn listeners_off_loopback() {
    let token = "token = \"env:TOKEN\"";
    check("[gateway]\nlisten = \"0.0.0.0:1\"", &["PB0114 gateway.token", "PB0115 gateway.listen"]);
    check(&format!("[gateway]\nlisten = \"0.0.0.0:1\"\n{token}"), &["PB0115 gateway.listen"]);
    check("[gateway]\nlisten = \"[::]:1\"\ninsecure = true", &["PB0114 gateway.token"]);
    check(&format!("[gateway]\nlisten = \"10.0.0.1:1\"\ninsecure = true\n{token}"), &[]);
    check("[gateway]\nlisten = \"[::ffff:127.0.0.1]:1\"", &[]);
    check("[gateway]\nlisten = \"off\"", &[]);

    check("[runs]\nlisten = \"0.0.0.0:1\"\ninsecure = true", &["PB0114 runs.token"]);
    check(&format!("[runs]\nlisten = \"0.0.0.0:1\"\ninsecure = true\n{token}"), &[]);
    // The gateway's token serves runs too.
    check(&format!("[gateway]\n{token}\n[runs]\nlisten = \"0.0.0.0:1\"\ninsecure = true"), &[]);

    check("[hub]\nlisten = \"0.0.0.0:1\"", &["PB0116 hub.listen"]);
}

#[test]
fn listeners_do_not_share_addresses() {
    check("[runs]\nlisten = \":7200\"", &["PB0122 runs.listen"]);
    check("[gateway]\nlisten = \":0\"\n[runs]\nlisten = \":0\"", &[]);
    check("[gateway]\nlisten = \"off\"\n[runs]\nlisten = \":7200\"", &[]);
    check("[gateway]\nlisten = \"127.0.0.2:1\"\n[runs]\nlisten = \"127.0.0.1:1\"", &[]);
    let everywhere =
        "[gateway]\nlisten = \"0.0.0.0:1\"\ninsecure = true\ntoken = \"env:TOKEN\"\n[hub]\nlisten = \":1\"";
    check(everywhere, &["PB0122 hub.listen"]);
}

#[test]
fn origins_and_hosts() {
    check(
        "[gateway]\nallowed_origins = [\"https://a.example\", \"*\"]\nallowed_hosts = [\"https://a\"]\n[hub]\nallowed_origins = [\"x\"]",
        &["PB0121 gateway.allowed_origins[1]", "PB0121 gateway.allowed_hosts[0]", "PB0121 hub.allowed_origins[0]"],
    );
    check("[tools]\nfetch_private_hosts = [\"a b\"]", &["PB0121 tools.fetch_private_hosts[0]"]);
}

#[test]
fn agents_and_providers() {
    let two = "[providers.a]\nkind = \"openai\"\n[providers.b]\nkind = \"anthropic\"\n";
    check("[agents.default]\nprovider = \"offline\"\nfallback = [\"x\"]", &["PB0112 agents.default.fallback[0]"]);
    check("[agents.default]\nprovider = \"offline\"", &[]);
    check(two, &["PB0117 agents.default.provider"]);
    check(&format!("{two}[agents.default]\nprovider = \"a\"\nfallback = [\"b\"]"), &[]);
    check(&format!("{two}[providers.main]\nkind = \"offline\""), &[]);
    check(
        &format!("{two}[agents.default]\nprovider = \"a\"\nfallback = [\"a\", \"b\", \"b\"]"),
        &["PB0122 agents.default.fallback[0]", "PB0122 agents.default.fallback[2]"],
    );
    check(
        "[agents.react]\n[agents.\"a b\"]\n[agents.-x]",
        &["PB0118 agents.react", "PB0118 agents.\"a b\"", "PB0118 agents.-x"],
    );
    check("[providers.\"../x\"]\nkind = \"offline\"", &["PB0118 providers.\"../x\""]);
    check("[agents.default]\nmax_tokens = 4096\ncontext_window = 2048", &["PB0122 agents.default.max_tokens"]);
    check("[hub]\nagent = \"router\"", &["PB0112 hub.agent"]);
    check("[hub]\nagent = \"router\"\n[agents.router]", &[]);
    check("[agents.default]\nsoul = \"SOUL.md\"", &["PB0120? agents.default.soul"]);
    check("[agents.default]\nsoul = \".\"", &["PB0120? agents.default.soul"]);
}

#[test]
fn aliases_and_rules_of_the_hub() {
    let long = "a".repeat(65);
    check("[hub.aliases]\nnb = \"notebook\"\nN2 = \"notebook\"", &[]);
    check("[hub.aliases]\n1nb = \"notebook\"", &["PB0118 hub.aliases.1nb"]);
    check("[hub.aliases]\n\"n b\" = \"notebook\"", &["PB0118 hub.aliases.\"n b\""]);
    check("[hub.aliases]\n\"\" = \"notebook\"", &["PB0118 hub.aliases.\"\""]);
    check("[hub.aliases]\nnb = \"note book\"", &["PB0118 hub.aliases.nb"]);
    check(&format!("[hub.aliases]\nnb = \"{long}\""), &["PB0118 hub.aliases.nb"]);
    check("[hub.aliases]\nNB = \"notebook\"\nnb = \"music\"", &["PB0118 hub.aliases.nb"]);
    check("[hub.aliases]\nMusic = \"music\"", &["PB0122? hub.aliases.Music"]);
    check("[hub]\ncatch_all = \"note book\"", &["PB0118 hub.catch_all"]);

    let rule = |settings: &str| format!("[[hub.rules]]\n{settings}");
    check(&rule("when = [\"play *\", \"*in the kitchen?\"]\napp = \"music\""), &[]);
    check(&rule("when = [\"play *\"]"), &["PB0117 hub.rules[0].app"]);
    check(&rule("app = \"music\""), &["PB0117 hub.rules[0].when"]);
    check(&rule("when = []\napp = \"music\""), &["PB0117 hub.rules[0].when"]);
    check(&rule("when = [\"play *\", \" * ?\"]\napp = \"music\""), &["PB0119 hub.rules[0].when[1]"]);
    check(&rule(&format!("when = [\"{}\"]\napp = \"m\"", "x".repeat(257))), &["PB0119 hub.rules[0].when[0]"]);
    check(&rule("when = [\"play *\"]\napp = \"2nd\""), &["PB0118 hub.rules[0].app"]);
    check(&rule("when = [\"play *\"]\napp = \"music\"\nthen = 1"), &["PB0103 hub.rules[0].then"]);
}

#[test]
fn the_hub_has_a_bounded_number_of_rules() {
    let rules = |count: usize| "[[hub.rules]]\nwhen = [\"x\"]\napp = \"x\"\n".repeat(count);
    check(&rules(1000), &[]);
    check(&rules(1001), &["PB0111 hub.rules"]);
}

#[test]
fn names_of_strategies_are_reserved() {
    for name in ["react", "dup", "tot", "got"] {
        check(&format!("[agents.{name}]"), &[&format!("PB0118 agents.{name}")]);
    }
    check("[agents.default]\nstrategy = \"tot\"", &[]);
}

#[test]
fn reasoning_has_bounds() {
    let tot = |setting: &str| format!("[agents.default.tot]\n{setting}");
    let got = |setting: &str| format!("[agents.default.got]\n{setting}");
    for good in ["breadth = 2", "breadth = 5", "depth = 10", "beam = 5", "threshold = 0", "threshold = 1.0"] {
        check(&tot(good), &[]);
    }
    for bad in ["breadth = 1", "breadth = 6", "depth = 0", "depth = 11", "beam = 0", "beam = 6", "threshold = 1.5"] {
        let key = bad.split(' ').next().unwrap_or_default();
        check(&tot(bad), &[&format!("PB0111 agents.default.tot.{key}")]);
    }
    for bad in ["max_tasks = 0", "max_tasks = 65", "parallel = 0", "parallel = 17"] {
        let key = bad.split(' ').next().unwrap_or_default();
        check(&got(bad), &[&format!("PB0111 agents.default.got.{key}")]);
    }
    check(&tot("search = \"breadth-first\""), &["PB0110 agents.default.tot.search"]);
    check("[agents.default]\nmax_turns = 0", &["PB0111 agents.default.max_turns"]);
}

#[test]
fn search_endpoints() {
    let search = |settings: &str| format!("[tools.search]\n{settings}");
    check(&search("kind = \"searxng\"\nurl = \"http://127.0.0.1:8888/search\""), &[]);
    check(&search("kind = \"exa\"\nurl = \"https://api.exa.ai/search\"\napi_key = \"env:TOKEN\""), &[]);
    check(&search("kind = \"exa\""), &["PB0117 tools.search.url"]);
    check(&search("kind = \"exa\"\nurl = \"x\""), &["PB0121 tools.search.url"]);
    check(
        &search("kind = \"exa\"\nurl = \"https://h\"\napi_key = \"env:UNSET_VARIABLE\""),
        &["PB0108 tools.search.api_key"],
    );
    check(
        &search("kind = \"exa\"\nurl = \"http://h.example\"\napi_key = \"env:TOKEN\""),
        &["PB0123? tools.search.url"],
    );
}

#[test]
fn provider_addresses() {
    let provider =
        |url: &str| format!("[providers.x]\nkind = \"openai\"\napi_key = \"env:TOKEN\"\nbase_url = \"{url}\"");
    check(&provider("http://127.0.0.1:11434/v1"), &[]);
    check(&provider("https://api.example.com"), &[]);
    check(&provider("http://api.example.com"), &["PB0123? providers.x.base_url"]);
    check(&provider("api.example.com"), &["PB0121 providers.x.base_url"]);
    check("[providers.x]\nkind = \"openai\"\nbase_url = \"http://10.0.0.1:11434\"", &[]);
}

#[test]
fn memory_models() {
    let provider = "[providers.x]\nkind = \"anthropic\"\n";
    check("[memory]\nembedding = { provider = \"y\", model = \"m\" }", &["PB0112 memory.embedding.provider"]);
    check(
        "[memory]\nembedding = { provider = \"y\" }",
        &["PB0117 memory.embedding.model", "PB0112 memory.embedding.provider"],
    );
    check(
        &format!("{provider}[memory]\nembedding = {{ provider = \"x\", model = \"m\" }}"),
        &["PB0122 memory.embedding.provider"],
    );
    check("[memory]\nextract_with = { provider = \"x\", model = \"m\" }", &["PB0103 memory.extract_with"]);
}

#[test]
fn bindings() {
    check("[[bindings]]\nagent = \"default\"\npeer = \"p\"", &[]);
    check("[[bindings]]\nagent = \"default\"", &["PB0113 bindings[0]"]);
    check("[[bindings]]\nagent = \"x\"\npeer = \"p\"", &["PB0112 bindings[0].agent"]);
    check("[[bindings]]\nagent = \"default\"\npeer = \"\"", &["PB0104 bindings[0].peer"]);
    let twice = "[[bindings]]\nagent = \"default\"\nchannel = \"c\"\n[[bindings]]\nagent = \"other\"\nchannel = \"c\"\n[agents.other]";
    check(twice, &["PB0113 bindings[1]"]);
    let near = "[[bindings]]\nagent = \"default\"\nchannel = \"c\"\n[[bindings]]\nagent = \"default\"\naccount = \"c\"";
    check(near, &[]);
    check(
        "[[bindings]]\nagent = \"default\"\n[[bindings]]\nagent = \"default\"",
        &["PB0113 bindings[0]", "PB0113 bindings[1]"],
    );
}

#[test]
fn workers() {
    check(
        "[[workers]]\nname = \"a\"\ncommand = [\"x\"]\n[[workers]]\nname = \"a\"\ncommand = [\"x\"]",
        &["PB0118 workers[1].name"],
    );
    check("[[workers]]\nname = \"a\"\ncommand = []", &["PB0117 workers[0].command"]);
    check("[[workers]]\nname = \"a\"\ncommand = [\"x\"]\ncount = 0", &["PB0111 workers[0].count"]);
    check(
        "[[workers]]\nname = \"a\"\ncommand = [\"x\"]\nworking_folder = \"no\"",
        &["PB0120 workers[0].working_folder"],
    );
    check("[[workers]]\nname = \"a\"\ncommand = [\"\"]", &["PB0104 workers[0].command[0]"]);
}

#[test]
fn child_environments() {
    let worker = |env: &str| format!("[[workers]]\nname = \"a\"\ncommand = [\"x\"]\nenv = {{ {env} }}");
    check(&worker("LOG_LEVEL = \"debug\", KEYBOARD = \"de\", MAX_TOKENS = \"5\", EMPTY = \"\""), &[]);
    check(&worker("API_KEY = \"env:TOKEN\""), &[]);
    check(&worker("API_KEY = \"abc\""), &["PB0107 workers[0].env.API_KEY"]);
    check(&worker("github_token = \"abc\""), &["PB0107 workers[0].env.github_token"]);
    check(&worker("\"A=B\" = \"x\""), &["PB0118 workers[0].env.\"A=B\""]);
    check(&worker("PASSWORD = \"env:UNSET_VARIABLE\""), &["PB0108 workers[0].env.PASSWORD"]);
}

#[test]
fn mcp_servers() {
    check("[mcp.a]\ncommand = [\"npx\", \"server\"]", &[]);
    check("[mcp.a]\nurl = \"https://mcp.example.com\"\ntoken = \"env:TOKEN\"", &[]);
    check("[mcp.a]", &["PB0117 mcp.a"]);
    check("[mcp.a]\ncommand = [\"x\"]\nurl = \"https://h\"", &["PB0122 mcp.a.url"]);
    check("[mcp.a]\ncommand = [\"x\"]\ntoken = \"env:TOKEN\"", &["PB0122 mcp.a.token"]);
    check("[mcp.\"a.b\"]\ncommand = [\"x\"]", &["PB0118 mcp.\"a.b\""]);
}

#[test]
fn notification_sinks() {
    check("[notifications]\nquiet = \"22:00-07:00\"\ndesktop = false\nper_minute = 600", &[]);
    check("[notifications.ntfy]\ntopic = \"my-topic_1\"\ntoken = \"env:TOKEN\"", &[]);
    check("[notifications.ntfy]\nserver = \"https://ntfy.sh\"", &["PB0117 notifications.ntfy.topic"]);
    check("[notifications.ntfy]\ntopic = \"a/b\"", &["PB0118 notifications.ntfy.topic"]);
    check(
        "[notifications.ntfy]\ntopic = \"t\"\nserver = \"http://n.example\"\ntoken = \"env:TOKEN\"",
        &["PB0123? notifications.ntfy.server"],
    );
    check("[notifications.ntfy]\ntopic = \"t\"\ntoken = \"env:UNSET_VARIABLE\"", &["PB0108 notifications.ntfy.token"]);
    let webhook = |settings: &str, expected: &[&str]| {
        check(&format!("[[notifications.webhooks]]\n{settings}"), expected);
    };
    webhook("url = \"http://10.0.0.7:8123/hook\"", &[]);
    webhook("", &["PB0117 notifications.webhooks[0].url"]);
    webhook("url = \"http://h.example/x\"\ntoken = \"env:TOKEN\"", &["PB0123? notifications.webhooks[0].url"]);
    webhook(
        "url = \"https://h.example/x\"\ntoken = \"env:UNSET_VARIABLE\"",
        &["PB0108 notifications.webhooks[0].token"],
    );
}

#[test]
fn working_folders() {
    check("[runs]\nworking_folder = \"no\"", &["PB0120 runs.working_folder"]);
    check("[runs]\nallowed_roots = [\".\", \"no\"]", &["PB0120 runs.allowed_roots[1]"]);
    check("[runs]\nallowed_roots = [\"/\"]", &["PB0123? runs.allowed_roots[0]"]);
    let bench = Bench::with_file("[runs]\nallowed_roots = [\"inner\"]").folder("project/inner");
    assert_eq!(found(&bench), ["PB0122? runs.working_folder"]);
    let linked = Bench::with_file("[runs]\nworking_folder = \"link\"").folder("project/inner");
    std::os::unix::fs::symlink(linked.path("project/inner"), linked.path("project/link")).unwrap();
    assert!(found(&linked).is_empty());
}

#[test]
fn folders_of_commands() {
    let check = |text: &str, expected: &[&str]| {
        let bench = Bench::with_file(&format!("[tools.bash]\n{text}")).folder("tools/bin").folder("project/a:b");
        assert_eq!(found(&bench), expected, "{text}");
    };
    check("readable = [\"~/tools\", \"/usr\"]\npath = [\"~/tools/bin\"]\nlisten = true", &[]);
    check("readable = [\"~/tools\", \"no\"]", &["PB0120 tools.bash.readable[1]"]);
    check("path = [\"~/tools/lib\"]", &["PB0120 tools.bash.path[0]"]);
    check("path = [\"a:b\"]", &["PB0119 tools.bash.path[0]"]);
    check("readable = [\"/\"]", &["PB0123? tools.bash.readable[0]"]);
}

#[test]
fn data_folder_is_a_folder() {
    let bench = Bench::with_file("data_dir = \"file\"").file("project/file", "x");
    assert_eq!(found(&bench), ["PB0120 data_dir"]);
    check("data_dir = \"not/yet/there\"", &[]);
}

#[test]
fn a_script_above_the_folder_of_agents_is_warned_of() {
    let text = |script: &str| {
        format!(
            "[runs]\nworking_folder = \"work\"\nallowed_roots = [\"work\"]\n\
             [[workers]]\nname = \"py\"\ncommand = [\"python3\", \"{script}\"]\n\
             [mcp.files]\ncommand = [\"python3\", \"{script}\"]\n"
        )
    };
    let complaints = |script: &str| {
        let bench = Bench::with_file(&text(script)).folder("project/work").file("project/own/tools.py", "");
        let bench = bench.file("project/tools.py", "").file("project/work/tools.py", "");
        bench.complaints()
    };
    for script in ["tools.py", "work/tools.py"] {
        let found = complaints(script);
        for key in ["workers[0].command", "mcp.files.command"] {
            let told = found
                .lines()
                .any(|line| line.contains(key) && line.contains("contains the folder in which agents work"));
            assert!(told, "{script} {key}: {found}");
        }
        assert!(found.contains("move the script to a folder of its own"), "{found}");
    }
    assert!(!complaints("own/tools.py").contains("in which agents work"));
    assert!(!complaints("-c").contains("in which agents work"), "no script at all");
}
