use super::{CompletionChoices, ParsedLine, SlashCommand, completions, help, hint, parse_line};

#[test]
fn lines_are_messages_or_commands() {
    let message = |text: &str| ParsedLine::Message(text.to_owned());
    let cases = [
        ("", ParsedLine::Empty),
        ("  \n", ParsedLine::Empty),
        ("hello there ", message("hello there")),
        ("/help", ParsedLine::Command(SlashCommand::Help)),
        ("/model", ParsedLine::Command(SlashCommand::Model(None))),
        ("/model  main/gpt-4o ", ParsedLine::Command(SlashCommand::Model(Some("main/gpt-4o".to_owned())))),
        ("/new", ParsedLine::Command(SlashCommand::New(None))),
        ("/sessions two words", ParsedLine::Command(SlashCommand::Sessions(Some("two words".to_owned())))),
        ("/exit", ParsedLine::Command(SlashCommand::Quit)),
        // Paths and pasted text are messages, and so is what has a space before it.
        ("/etc/hosts says what?", message("/etc/hosts says what?")),
        (" /call read {}", message("/call read {}")),
        ("/call read {\"path\": \"a\"} ", message("/call read {\"path\": \"a\"}")),
        ("/call", message("/call")),
        ("/ alone", message("/ alone")),
        ("/usage\nis a command", message("/usage\nis a command")),
        ("first\\\nsecond", message("first\nsecond")),
        ("    indented", message("    indented")),
    ];
    for (line, typed) in cases {
        assert_eq!(parse_line(line), typed, "{line:?}");
    }
}

#[test]
fn unknown_commands_name_the_near_ones() {
    let mistaken = |line: &str| match parse_line(line) {
        ParsedLine::Invalid(why) => why.lines().next().unwrap_or_default().to_owned(),
        other @ (ParsedLine::Empty | ParsedLine::Message(_) | ParsedLine::Command(_)) => panic!("{other:?}"),
    };
    assert_eq!(mistaken("/modle x"), "there is no command /modle: did you mean /model?");
    assert_eq!(mistaken("/session"), "there is no command /session: did you mean /sessions?");
    assert_eq!(mistaken("/q"), "there is no command /q: did you mean /quit?");
    assert_eq!(mistaken("/weather"), "there is no command /weather");
    assert_eq!(mistaken("/quit now"), "/quit takes no `now`");
}

#[test]
fn commands_and_their_arguments_are_completed() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let choices = CompletionChoices {
        models: names(&["main/gpt-4o", "main/gpt-5", "claude/opus"]),
        agents: names(&["default", "coder"]),
        sessions: names(&["main"]),
        tools: names(&["read"]),
    };
    let cases: [(&str, usize, &[&str]); 9] = [
        ("/mo", 0, &["/model "]),
        ("/u", 0, &["/usage"]),
        ("/model ", 7, &["main/gpt-4o", "main/gpt-5", "claude/opus"]),
        ("/model main/", 7, &["main/gpt-4o", "main/gpt-5"]),
        ("/model opus", 7, &["claude/opus"]),
        ("/agent c", 7, &["coder"]),
        ("/quit ", 6, &[]),
        ("hello", 0, &[]),
        ("hello wor", 9, &[]),
    ];
    for (line, start, wanted) in cases {
        assert_eq!(completions(line, &choices), (start, names(wanted)), "{line:?}");
    }
}

#[test]
fn a_command_that_is_being_typed_says_what_it_is_for() {
    let (rest, about) = hint("/mod").unwrap();
    assert_eq!((rest.as_str(), about.as_str()), ("el", "  [MODEL]  show the models, or answer with another one"));
    assert_eq!(hint("/quit").unwrap().0, "");
    for line in ["", "/", "hello", "/model x", "/nothing"] {
        assert_eq!(hint(line), None, "{line:?}");
    }
}

#[test]
fn help_names_every_command() {
    let help = help(80).join("\n");
    for command in super::COMMANDS {
        assert!(help.contains(command.name), "{help}");
    }
}

#[test]
fn help_is_broken_between_words() {
    for columns in [80, 40] {
        let lines = help(columns);
        let words = |lines: &[String]| {
            lines.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{lines:#?}");
        assert_eq!(words(&lines), words(&help(500)));
    }
}
