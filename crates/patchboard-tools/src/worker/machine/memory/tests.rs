use super::*;

#[test]
fn memory_is_that_of_the_whole_tree() {
    let own = process_memory(std::process::id()).unwrap();
    assert!(own > 1024 * 1024, "{own}");
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (tree, alone) = (process_tree_memory(std::process::id()).unwrap(), process_memory(child.id()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(alone > 0 && tree > alone, "{tree} {alone}");
    assert_eq!(process_tree_memory(u32::MAX), None);
}

#[test]
fn the_kernels_words_are_read() {
    let text = "Rss:   1 kB\nPss:     1234 kB\nPss_Dirty: 7 kB\n";
    assert_eq!(parse_kilobytes(text, "Pss:"), Some(1234 * 1024));
    assert_eq!(parse_kilobytes(text, "Swap:"), None);
}
