use super::*;

#[test]
fn sizes_are_read_in_bytes() {
    let status = "Name:\tx\nVmHWM:\t  23456 kB\nVmRSS:\t   12345 kB\nThreads:\t3\n";
    assert_eq!(parse_size(status, "VmRSS:"), Some(12_641_280));
    assert_eq!(parse_size(status, "VmHWM:"), Some(24_018_944));
    assert_eq!(parse_size("Name:\tx\n", "VmRSS:"), None);
}

#[test]
fn processor_time_is_the_processes_own_and_the_kernels_for_it() {
    let stat = "42 (a name) with) S 1 42 42 0 -1 4194560 200 0 0 0 150 25 7 8 20 0 5 0 100 200 300";
    assert_eq!(parse_processor_time(stat), Some(Duration::from_millis(1750)));
    assert_eq!(parse_processor_time("42 (x) S 1"), None);
}

#[test]
fn the_file_limit_is_the_soft_one() {
    let limits = |soft: &str| {
        format!("Limit  Soft Limit  Hard Limit  Units\nMax open files            {soft}                20000  files\n")
    };
    assert_eq!(parse_file_limit(&limits("1024")), Some(1024));
    assert_eq!(parse_file_limit(&limits("unlimited")), Some(u64::MAX));
    assert_eq!(parse_file_limit("Max processes 1 2 processes\n"), None);
}
