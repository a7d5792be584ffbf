use super::*;

#[test]
fn the_processes_of_a_measurement_have_their_verbs() {
    let part = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let verb = words.next().unwrap_or_default();
        Part::parse(&verb, words).map_err(|error| error.to_string())
    };
    assert_eq!(part("bench-stub"), Ok(Part::Stub));
    assert_eq!(part("bench-echo"), Ok(Part::Echo));
    assert_eq!(part("bench-grpc-echo"), Ok(Part::GrpcEcho));
    assert_eq!(part("bench-watchdog some/folder"), Ok(Part::Watchdog { scratch: "some/folder".into() }));
    assert_eq!(part("bench-measure --seconds 1"), Ok(Part::Measure(Options { seconds: 1, ..Options::default() })));
    assert_eq!(part("bench-mark"), Err("unknown command `bench-mark`".to_owned()));
}
