use super::*;

fn line(level: &str, message: &str) -> Vec<u8> {
    let line = serde_json::json!({
        "timestamp": "2026-11-20T10:00:00.5Z", "level": level, "target": "patchboard::x", "message": message,
        "tool.name": "bash", "duration_ms": 12, "span": { "name": "run" }, "spans": [],
    });
    format!("{line}\n").into_bytes()
}

#[test]
fn warnings_and_errors_are_kept_with_their_fields() {
    let log = FaultLog::default();
    for bytes in [line("WARN", "slow"), line("INFO", "ready"), line("ERROR", "broken"), b"not json".to_vec()] {
        log.record(&bytes);
    }
    let fault = |number, level, message: &str| Fault {
        number,
        at: "2026-11-20T10:00:00.5Z".parse().unwrap(),
        level,
        source: "patchboard::x".to_owned(),
        message: message.to_owned(),
        fields: vec![("duration_ms".to_owned(), "12".to_owned()), ("tool.name".to_owned(), "bash".to_owned())],
    };
    assert_eq!(log.list(), [fault(2, FaultLevel::Error, "broken"), fault(1, FaultLevel::Warning, "slow")]);
    assert_eq!(log.counts(), FaultCounts { warnings: 1, errors: 1 });
}

#[test]
fn the_last_ones_are_kept_and_long_ones_are_cut() {
    let log = FaultLog::default();
    for number in 0..MAX_FAULTS + 5 {
        log.record(&line("WARN", &format!("{number} {}", "é".repeat(MAX_MESSAGE))));
    }
    let faults = log.list();
    assert_eq!((faults.len(), faults[0].number, faults[MAX_FAULTS - 1].number), (MAX_FAULTS, 205, 6));
    assert!(faults.iter().all(|fault| fault.message.len() <= MAX_MESSAGE + 8), "{}", faults[0].message.len());
}
