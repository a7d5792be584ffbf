use super::*;

const MIB: u64 = 1 << 20;

fn usage(resident: u64, in_use: u64) -> MemoryUsage {
    MemoryUsage { resident: resident * MIB, in_use: in_use * MIB }
}

#[test]
fn memory_in_use_is_never_worth_a_walk_and_memory_left_behind_is() {
    let mut trimmer = TrimSchedule::new(usage(22, 4));
    assert!(!trimmer.is_worth_it(usage(388, 370)), "clients are there");
    assert!(trimmer.is_worth_it(usage(386, 4)), "clients have left");
    trimmer.trimmed(usage(23, 4));
    assert!(!trimmer.is_worth_it(usage(23, 4)));
}

#[test]
fn what_could_not_be_returned_is_tried_again_ever_more_seldom() {
    let mut trimmer = TrimSchedule::new(usage(22, 4));
    let mut walks = Vec::new();
    for look in 0..40 {
        if trimmer.is_worth_it(usage(100, 4)) {
            trimmer.trimmed(usage(90, 4));
            walks.push(look);
        }
    }
    assert_eq!(walks, [0, 2, 6, 12, 18, 24, 30, 36]);
    // A walk in the middle of a burst does not keep what the burst leaves behind.
    assert!((0..MAX_INTERVAL).any(|_| trimmer.is_worth_it(usage(60, 4))));
    trimmer.trimmed(usage(23, 4));
    assert!(trimmer.is_worth_it(usage(60, 4)), "the next burst is looked at as the first one was");
}

#[test]
fn the_least_ever_held_is_what_counts() {
    let mut trimmer = TrimSchedule::new(usage(60, 4));
    assert!(!trimmer.is_worth_it(usage(30, 10)));
    assert!(trimmer.is_worth_it(usage(40, 10)));
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn free_blocks_between_blocks_in_use_are_returned() {
    // Blocks below the size that gets a mapping of its own, every other one of which stays.
    let mut blocks: Vec<Option<Vec<u8>>> = (0..4000).map(|_| Some(vec![1; 64 * 1024])).collect();
    let before = heap::measure().expect("/proc is there");
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    let freed = heap::measure().expect("/proc is there");
    assert!(before.in_use - freed.in_use > 100 * MIB, "{before:?} {freed:?}");
    heap::trim();
    let trimmed = heap::measure().expect("/proc is there");
    assert!(freed.resident.saturating_sub(trimmed.resident) > 60 * MIB, "{freed:?} {trimmed:?}");
    assert!(blocks.iter().flatten().all(|block| block.iter().all(|byte| *byte == 1)));
}
