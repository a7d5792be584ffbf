use super::*;

fn address(number: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, number])
}

#[test]
fn one_address_cannot_fill_the_room() {
    let room = WaitingRoom::default();
    let seats: Vec<Seat> = (0..MAX_FROM_ONE).map(|_| room.enter(address(1)).unwrap()).collect();
    let mapped: IpAddr = "::ffff:203.0.113.1".parse().unwrap();
    assert!(room.enter(address(1)).is_none() && room.enter(mapped).is_none(), "in either spelling");
    assert!(room.enter(address(2)).is_some());
    drop(seats);
    assert!(room.enter(address(1)).is_some());
    assert!(room.inside.lock().unwrap().is_empty(), "an empty room remembers nobody");
}

#[test]
fn on_loopback_nobody_is_turned_away() {
    let room = WaitingRoom::default();
    let seats: Vec<Option<Seat>> = (0..2 * MAX_WAITING).map(|_| room.enter([127, 0, 0, 1].into())).collect();
    assert!(seats.iter().all(Option::is_some));
    assert!(room.enter(address(1)).is_some(), "and they take nobody's seat");
}

#[test]
fn the_room_has_so_many_seats() {
    let room = WaitingRoom::default();
    let seats: Vec<Seat> = (0..MAX_WAITING)
        .map(|number| room.enter(address(u8::try_from(number / MAX_FROM_ONE).unwrap())).unwrap())
        .collect();
    assert!(room.enter(address(200)).is_none());
    drop(seats);
    assert!(room.enter(address(200)).is_some());
}
