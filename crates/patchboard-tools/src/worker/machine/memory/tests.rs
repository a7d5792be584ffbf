use super::*;

#[test]
fn memory_is_that_of_the_whole_tree() {
    let own = of_process(std::process::id()).unwrap();
    assert!(own > 1024 * 1024, "{own}");
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (tree, alone) = (of_tree(std::process::id()).unwrap(), of_process(child.id()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(alone > 0 && tree > alone, "{tree} {alone}");
    assert_eq!(of_tree(u32::MAX), None);
}

#[test]
fn the_kernels_words_are_read() {
    let text = "Rss:   1 kB\nPss:     1234 kB\nPss_Dirty: 7 kB\n";
    assert_eq!(kilobytes(text, "Pss:"), Some(1234 * 1024));
    assert_eq!(kilobytes(text, "Swap:"), None);
}
