use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(expected: Option<BlockedAddress>, addresses: &[&str]) {
    for address in addresses {
        assert_eq!(blocked_address(address.parse().unwrap()), expected, "{address}");
    }
}

#[test]
fn public_addresses_are_open() {
    check(
        None,
        &[
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00::1",
            "3ffe::1",
        ],
    );
}

#[test]
fn every_class_is_closed_to_its_last_address() {
    for (reason, addresses) in [
        (BlockedAddress::Unspecified, &["0.0.0.0", "0.1.2.3", "0.255.255.255", "::"][..]),
        (BlockedAddress::Loopback, &["127.0.0.1", "127.255.255.255", "::1"]),
        (
            BlockedAddress::Private,
            &[
                "10.0.0.0",
                "10.255.255.255",
                "172.16.0.0",
                "172.31.255.255",
                "192.168.0.0",
                "192.168.255.255",
                "fc00::",
                "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "fec0::1",
                "feff::1",
            ],
        ),
        (BlockedAddress::CarrierGrade, &["100.64.0.0", "100.127.255.255"]),
        (BlockedAddress::LinkLocal, &["169.254.0.0", "169.254.255.255", "fe80::1", "febf::1"]),
        (
            BlockedAddress::Metadata,
            &[
                "169.254.169.254",
                "169.254.170.2",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd20:ce::254",
            ],
        ),
        (BlockedAddress::Multicast, &["224.0.0.0", "239.255.255.255", "ff02::1", "ff0e::1"]),
        (
            BlockedAddress::Documentation,
            &["192.0.2.1", "198.51.100.1", "203.0.113.255", "2001:db8::1", "3fff::1", "3fff:fff:ffff::1"],
        ),
        (
            BlockedAddress::Reserved,
            &[
                "192.0.0.1",
                "192.88.99.1",
                "198.18.0.0",
                "198.19.255.255",
                "240.0.0.0",
                "255.255.255.255",
                "64:ff9b:1::808:808",
                "100::1",
                "2001:2::1",
                "2001:1ff:ffff::1",
                "4000::1",
                "5f00::1",
            ],
        ),
    ] {
        check(Some(reason), addresses);
    }
}

#[test]
fn addresses_inside_addresses_count() {
    check(
        Some(BlockedAddress::Loopback),
        &[
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "2002:7f00:1::",
            "2002:7f00:1:5:6:7:8:9",
            // Teredo: as the server, and as the client.
            "2001:0:7f00:1::",
            "2001:0:808:808:0:0:80ff:fffe",
            // ISATAP, behind a public prefix.
            "2606:4700::5efe:127.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
        ],
    );
    check(Some(BlockedAddress::Metadata), &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]);
    check(None, &["::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2606:4700::5efe:8.8.8.8"]);
}

proptest! {
    #[test]
    fn wrapping_an_address_opens_nothing(bits in any::<u32>(), rest in any::<u64>()) {
        let inner = Ipv4Addr::from(bits);
        let (high, low) = ((bits >> 16) as u16, bits as u16);
        let expected = blocked_address(inner.into());
        let wrapped = [
            inner.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::from((0x2002_u128 << 112) | (u128::from(bits) << 80)),
        ];
        for address in wrapped {
            prop_assert_eq!(blocked_address(address.into()), expected, "{}", address);
        }
        if expected.is_some() {
            let teredo = (0x2001_u128 << 112) | (u128::from(bits) << 64) | u128::from(rest);
            prop_assert!(blocked_address(Ipv6Addr::from(teredo).into()).is_some());
            prop_assert!(blocked_address(Ipv6Addr::from(u128::from(bits)).into()).is_some());
        }
    }
}
