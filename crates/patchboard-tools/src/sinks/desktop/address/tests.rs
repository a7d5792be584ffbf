use proptest::prelude::*;

use super::*;

fn sockets(address: Option<&str>) -> Vec<PathBuf> {
    SessionBus { address: address.map(str::to_owned), runtime_dir: Some("/run/user/7".into()) }.sockets()
}

#[test]
fn addresses_of_a_bus() {
    let cases: &[(&str, &[&str])] = &[
        ("unix:path=/run/user/1000/bus", &["/run/user/1000/bus"]),
        ("unix:path=/tmp/bus,guid=0123abc", &["/tmp/bus"]),
        ("unix:guid=0123abc,path=/tmp/bus", &["/tmp/bus"]),
        ("unix:path=/tmp/a%20b%2fc", &["/tmp/a b/c"]),
        ("unix:runtime=yes", &["/run/user/7/bus"]),
        ("tcp:host=localhost,port=1;unix:path=/one;unix:path=/two", &["/one", "/two"]),
        ("unix:path=/bad%2;unix:path=/bad%zz;unix:path=", &[]),
        ("autolaunch:", &[]),
        ("unix:", &[]),
        ("", &[]),
    ];
    for (address, wanted) in cases {
        let wanted: Vec<PathBuf> = wanted.iter().map(PathBuf::from).collect();
        assert_eq!(sockets(Some(address)), wanted, "{address}");
    }
    assert_eq!(sockets(None), [PathBuf::from("/run/user/7/bus")]);
}

#[cfg(target_os = "linux")]
#[test]
fn sockets_without_a_file() {
    assert_eq!(sockets(Some("unix:abstract=/tmp/dbus-x%3d,guid=1")), [PathBuf::from("\0/tmp/dbus-x=")]);
}

#[test]
fn the_users_own_bus_is_the_last_resort() {
    let user = rustix::process::getuid().as_raw();
    assert_eq!(SessionBus::default().sockets(), [PathBuf::from(format!("/run/user/{user}/bus"))]);
}

proptest! {
    #[test]
    fn any_text_is_bounded(address in "[unixpathbsrc:=,;%/0-9a-z]{0,200}") {
        prop_assert!(sockets(Some(&address)).len() <= MAX_ADDRESSES);
    }
}
