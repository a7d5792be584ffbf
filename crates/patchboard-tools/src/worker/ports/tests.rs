use std::net::TcpListener;

use super::*;

#[test]
fn blocks_lie_outside_the_range_of_outgoing_connections_where_there_is_room() {
    let first = |length, range: RangeInclusive<u16>| candidates(length, &range).first().cloned();
    assert_eq!(first(512, 32_768..=60_999), Some(61_000..=61_511));
    // No room above it, then below; then at its own end.
    assert_eq!(first(512, 32_768..=65_535), Some(32_256..=32_767));
    assert_eq!(first(512, 1024..=65_535), Some(65_024..=65_535));
    assert_eq!(first(512, 1024..=65_500), Some(64_989..=65_500));
    assert_eq!(first(60_000, 32_768..=60_999), None);
    let all = candidates(512, &(32_768..=60_999));
    let outside = |block: &RangeInclusive<u16>| *block.end() < 32_768 || *block.start() > 60_999;
    assert!(all.iter().skip_while(|block| outside(block)).all(|block| !outside(block)));
    for block in &all {
        assert!(block.len() == 512 && *block.start() >= MIN_PORT, "{block:?}");
    }
}

#[test]
fn the_kernels_range_is_read() {
    assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
    for wrong in ["", "7", "a b", "9 8", "1 70000"] {
        assert_eq!(parse_range(wrong), None, "{wrong}");
    }
}

#[test]
fn two_servers_of_one_machine_have_different_blocks() {
    let (first, second) = (PortBlock::choose(16, &[]).unwrap(), PortBlock::choose(16, &[]).unwrap());
    assert_eq!((first.ports().len(), second.ports().len()), (17, 17));
    assert!(!first.ports().iter().any(|port| second.ports().contains(port)), "{first:?} {second:?}");
    let avoided = PortBlock::choose(16, first.ports()).unwrap();
    assert!(!avoided.ports().iter().any(|port| first.ports().contains(port)));
}

#[test]
fn ports_are_leased_once_and_given_back() {
    let block = PortBlock::choose(4, &[]).unwrap();
    let (one, two) = (block.lease(2).unwrap(), block.lease(2).unwrap());
    let mut leased = [one.ports(), two.ports()].concat();
    leased.sort_unstable();
    assert_eq!(leased, block.ports()[1..], "the first only marks the block");
    let refused = block.lease(1).unwrap_err();
    assert!(refused.contains("all 4 ports of `bridge.private_ports`") && refused.contains("raise it"), "{refused}");
    let ports = one.ports().to_vec();
    drop(one);
    assert_eq!(block.lease(2).unwrap().ports(), ports);
    assert!(block.lease(3).is_err(), "nothing of a lease that failed is kept");
    assert!(block.lease(2).is_ok());
}

#[test]
fn a_port_that_somebody_listens_on_is_not_leased() {
    let block = PortBlock::choose(2, &[]).unwrap();
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, block.ports()[1])).unwrap();
    assert_eq!(block.lease(1).unwrap().ports(), &block.ports()[2..]);
    assert!(block.lease(2).is_err());
    drop(other);
    assert!(block.lease(2).is_ok());
}

#[test]
fn a_part_of_a_block_is_the_whole_blocks_again_when_it_goes() {
    let block = PortBlock::choose(4, &[]).unwrap();
    let part = PortBlock::from_lease(block.lease(3).unwrap(), "no line left".to_owned());
    let line = part.lease(1).unwrap();
    assert!(part.ports().contains(&line.callback_port()) && line.worker_port() == 0);
    assert_eq!(part.lease(3).unwrap_err(), "no line left");
    assert!(block.lease(2).is_err());
    drop((part, line));
    assert!(block.lease(4).is_ok());
}
