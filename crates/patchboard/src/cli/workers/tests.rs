use clap::Parser;
use serde_json::json;

use super::{WatchFormat, WatchView, truncate_lines};
use crate::cli::Cli;
use crate::output::screen::{LiveBlock, TerminalSize};

const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

fn view(show: WatchFormat) -> WatchView {
    WatchView { format: show, live_block: LiveBlock::default(), frames_shown: 0 }
}

#[test]
fn what_can_be_said() {
    for line in ["", "--json", "--watch", "--watch --json --data-dir x", "--url ws://127.0.0.1:1/ws"] {
        let words = ["patchboard", "workers"].into_iter().chain(line.split_whitespace());
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
    assert!(Cli::try_parse_from(["patchboard", "workers", "py"]).is_err());
}

#[test]
fn blocks_have_an_empty_line_between_them() {
    let mut view = view(WatchFormat::Blocks);
    let block = "no pool of workers is configured: [[workers]] adds one\n";
    assert_eq!(view.next(&[], SIZE).unwrap(), block);
    assert_eq!(view.next(&[], SIZE).unwrap(), format!("\n{block}"));
}

#[test]
fn json_is_an_object_a_line_with_all_the_server_said() {
    let mut view = view(WatchFormat::Json);
    let pools = [json!({"name": "py", "news": [1]})];
    for _ in 0..2 {
        assert_eq!(view.next(&pools, SIZE).unwrap(), "{\"pools\":[{\"name\":\"py\",\"news\":[1]}]}\n");
    }
}

#[test]
fn a_picture_is_drawn_only_when_it_changed() {
    let mut view = view(WatchFormat::Redraw);
    assert!(view.next(&[], SIZE).unwrap().contains("no pool"));
    assert_eq!(view.next(&[], SIZE).unwrap(), "");
    let next = view.next(&[json!({"name": "py"})], SIZE).unwrap();
    assert!(next.starts_with("\x1b[1A\r") && next.contains("py: 0 of 0 ready"), "{next:?}");
}

#[test]
fn an_answer_that_is_no_pool_is_an_error() {
    assert!(view(WatchFormat::Blocks).next(&[json!({"workers": 5})], SIZE).is_err());
}

#[test]
fn what_has_no_room_is_counted() {
    let lines = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    assert_eq!(truncate_lines(lines(3), 3), ["0", "1", "2"]);
    assert_eq!(truncate_lines(lines(5), 3), ["0", "1", "… 3 more lines"]);
}
