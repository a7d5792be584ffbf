//! Every file under `transcripts/<surface>/` is one conversation; see `patchboard_testkit::transcript` for its marks.
//! `UPDATE_TRANSCRIPTS=1` rewrites the files with what really happened, for review.

use std::path::{Path, PathBuf};

use patchboard_surfaces::dialect::Dialect;
use patchboard_surfaces::limit::RateLimit;
use patchboard_surfaces::{gateway, hub, runs};
use patchboard_testkit::transcript;

#[test]
fn gateway_conversations() {
    check("gateway", |_| gateway::dialect("0.1.0", RateLimit { per_second: 1.0, burst: 20.0 }));
}

/// The first line may set options: `#! strict_clients`, `#! close_on_error`, `#! draining`.
#[test]
fn runs_conversations() {
    check("runs", |text| {
        let first = text.lines().next().unwrap_or_default();
        let options = runs::ConnectionOptions {
            strict_clients: first.contains("strict_clients"),
            close_on_error: first.contains("close_on_error"),
            ..runs::ConnectionOptions::default()
        };
        if first.contains("draining") {
            options.draining.cancel();
        }
        runs::dialect(options)
    });
}

/// The first line may say what the connection brought along: `#! bearer=TOKEN`, `#! origin=ORIGIN`.
#[test]
fn hub_conversations() {
    check("hub", |text| {
        let first = text.lines().next().unwrap_or_default();
        let brought = |name: &str| first.split(' ').find_map(|word| word.strip_prefix(name)).map(Into::into);
        hub::dialect(hub::HubDialectOptions {
            token: brought("bearer="),
            origin: brought("origin="),
            ..hub::HubDialectOptions::default()
        })
    });
}

fn check<D: Dialect>(surface: &str, dialect: impl Fn(&str) -> D) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/transcripts").join(surface);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no transcripts in {}", folder.display());
    let update = option_env!("UPDATE_TRANSCRIPTS").is_some();
    let mut differing = Vec::new();
    for file in files {
        let expected = std::fs::read_to_string(&file).unwrap();
        let actual = transcript::play(&expected, dialect(&expected));
        if actual == expected {
            continue;
        }
        if update {
            std::fs::write(&file, &actual).unwrap();
        }
        differing.push(format!("--- {}\n{}", file.display(), difference(&expected, &actual)));
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The lines around the first difference.
fn difference(expected: &str, actual: &str) -> String {
    let same = expected.lines().zip(actual.lines()).take_while(|(left, right)| left == right).count();
    let show = |text: &str| text.lines().skip(same).take(4).collect::<Vec<_>>().join("\n");
    format!("line {}\nexpected:\n{}\nactual:\n{}", same + 1, show(expected), show(actual))
}
