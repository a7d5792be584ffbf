use super::*;

#[test]
fn expressions() {
    let allowed = ["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0 / MIT", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH LLVM-exception", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("(MIT OR GPL-3.0) AND BSL-1.0", false),
        // AND binds tighter.
        ("MIT OR GPL-3.0 AND LGPL-3.0", true),
        ("GPL-3.0 AND MIT OR LGPL-3.0", false),
        ("", false),
        ("MIT OR", false),
        ("(MIT", false),
        ("MIT)", false),
        ("MIT MIT", false),
        ("OR MIT", false),
    ] {
        assert_eq!(is_satisfied(expression, &allowed), expected, "{expression}");
    }
}
