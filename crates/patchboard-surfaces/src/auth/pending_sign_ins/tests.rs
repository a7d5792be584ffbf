use super::*;

fn address(number: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, number])
}

#[test]
fn one_address_cannot_fill_the_room() {
    let room = PendingSignIns::default();
    let seats: Vec<SignInPermit> =
        (0..MAX_PENDING_PER_ADDRESS).map(|_| room.try_acquire(address(1)).unwrap()).collect();
    let mapped: IpAddr = "::ffff:203.0.113.1".parse().unwrap();
    assert!(room.try_acquire(address(1)).is_none() && room.try_acquire(mapped).is_none(), "in either spelling");
    assert!(room.try_acquire(address(2)).is_some());
    drop(seats);
    assert!(room.try_acquire(address(1)).is_some());
    assert!(room.counts.lock().unwrap().is_empty(), "an empty room remembers nobody");
}

#[test]
fn on_loopback_nobody_is_turned_away() {
    let room = PendingSignIns::default();
    let seats: Vec<Option<SignInPermit>> =
        (0..2 * MAX_PENDING).map(|_| room.try_acquire([127, 0, 0, 1].into())).collect();
    assert!(seats.iter().all(Option::is_some));
    assert!(room.try_acquire(address(1)).is_some(), "and they take nobody's seat");
}

#[test]
fn the_room_has_so_many_seats() {
    let room = PendingSignIns::default();
    let seats: Vec<SignInPermit> = (0..MAX_PENDING)
        .map(|number| room.try_acquire(address(u8::try_from(number / MAX_PENDING_PER_ADDRESS).unwrap())).unwrap())
        .collect();
    assert!(room.try_acquire(address(200)).is_none());
    drop(seats);
    assert!(room.try_acquire(address(200)).is_some());
}
