use super::*;

#[test]
fn names_and_numbers() {
    for (text, expected) in [
        ("www-data", Some(SystemUser::Name("www-data".into()))),
        ("1001", Some(SystemUser::Number(1001))),
        ("user.name", Some(SystemUser::Name("user.name".into()))),
        ("0", Some(SystemUser::Number(0))),
        ("99999999999", None),
        ("", None),
        (" alice", None),
        ("a:b", None),
        ("a\nb", None),
    ] {
        assert_eq!(text.parse::<SystemUser>().ok(), expected, "{text:?}");
    }
}

#[test]
fn names_are_found_whole() {
    let users = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nbroken\nodd:x:many:1::/:/\n";
    for (name, number) in [("root", Some(0)), ("www-data", Some(33)), ("www", None), ("x", None), ("odd", None)] {
        assert_eq!(number_of(name, users), number, "{name}");
    }
    assert_eq!(SystemUser::Name("root".into()).number().unwrap(), 0);
    let unknown = SystemUser::Name("nobody-of-that-name".into()).number().unwrap_err();
    assert!(unknown.to_string().contains("id -u nobody-of-that-name"), "{unknown}");
}
