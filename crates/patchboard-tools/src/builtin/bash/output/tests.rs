use super::*;
use crate::sandbox::Namespaces;

const CONFINED: Confinement = Confinement {
    landlock_abi: 7,
    namespaces: Namespaces { mounts: true, processes: true, own_proc: true, own_shared_memory: true },
    covers: false,
    system_calls: true,
    has_closed_parts: false,
    left_out: 0,
};

fn kept(text: &str) -> StreamExcerpt {
    let mut kept = StreamExcerpt::default();
    kept.push(text.as_bytes());
    kept
}

#[test]
fn streams_are_named_when_there_is_a_second_one() {
    for (stdout, stderr, expected) in [
        ("", "", ""),
        ("out\n", "", "out\n"),
        ("", "err\n", "stderr:\nerr\n"),
        ("out", "err", "stdout:\nout\nstderr:\nerr"),
        ("out\n", "err\n", "stdout:\nout\nstderr:\nerr\n"),
    ] {
        assert_eq!(format_streams(&kept(stdout), &kept(stderr)), expected);
    }
}

#[test]
fn two_long_streams_share_the_room() {
    let long = "x".repeat(1_000_000);
    for (stdout, stderr) in [(&*long, &*long), (&*long, "short"), ("short", &*long), (&*long, "\u{ff}")] {
        let content = format_streams(&kept(stdout), &kept(stderr));
        assert!(content.len() < OUTPUT_BYTES, "{}", content.len());
        for short in [stdout, stderr].into_iter().filter(|text| text.len() < 10) {
            assert!(content.contains(short), "{short}");
        }
    }
}

#[test]
fn the_last_line_says_how_it_ended() {
    let lost = CommandOutcome::from(Err(SandboxError::Lost));
    for (outcome, line, is_error) in [
        (CommandOutcome::Ended(CommandExit::Exited(0)), "exit code: 0", false),
        (CommandOutcome::Ended(CommandExit::Exited(2)), "exit code: 2", true),
        (CommandOutcome::Ended(CommandExit::Signalled(9)), "killed by signal 9", true),
        (CommandOutcome::TimedOut(Duration::from_millis(1500)), "timed out after 1500 ms", true),
        (CommandOutcome::Cancelled, "cancelled", true),
        (lost, "the supervisor of a command died", true),
    ] {
        let mut content = "text".to_owned();
        append_line(&mut content, &outcome.last_line());
        assert_eq!((content, !outcome.is_success()), (format!("text\n{line}"), is_error));
    }
}

#[test]
fn a_note_explains_refusals_beside_protected_files() {
    assert_eq!(protected_note(CONFINED), None);
    assert_eq!(protected_note(Confinement { has_closed_parts: true, landlock_abi: 0, ..CONFINED }), None);
    assert!(protected_note(Confinement { has_closed_parts: true, ..CONFINED }).unwrap().ends_with("in there]"));
    let left_out = Confinement { has_closed_parts: true, left_out: 3, ..CONFINED };
    assert!(protected_note(left_out).unwrap().ends_with("in there, 3 entries excepted]"));
}

#[test]
fn a_note_explains_refused_sockets_to_who_speaks_of_them() {
    let open = NetworkAccess { unix_sockets: true, listen: TcpAccess::Open, ..NetworkAccess::default() };
    let docker = "permission denied while trying to connect to unix:///var/run/docker.sock";
    assert!(network_note(docker, &NetworkAccess::default()).unwrap().contains("`tools.bash.unix_sockets`"));
    assert!(network_note("listen EACCES", &NetworkAccess::default()).unwrap().contains("`tools.bash.listen`"));
    assert_eq!(network_note(docker, &open), None);
    assert_eq!(network_note("no such file", &NetworkAccess::default()), None);
}
