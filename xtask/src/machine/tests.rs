use super::*;

#[test]
fn idle_and_waiting_processors_are_not_busy() {
    let stat = "cpu  100 1 50 800 20 2 3 4 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
    assert_eq!(parse_busy(stat), Some(Ticks { busy: 160, total: 980 }));
    assert_eq!(parse_busy("cpu  1 2 3\n"), None);
}
