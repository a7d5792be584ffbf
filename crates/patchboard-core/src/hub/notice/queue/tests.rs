//! Tables of posted and shown notices. The fixture plays the notifier: it takes whenever something is due.

use std::fmt::Write;

use jiff::tz;
use proptest::prelude::*;

use super::*;

/// Every test starts at midnight, local time.
const MIDNIGHT: i64 = 1_773_100_800;

struct Fixture {
    queue: NoticeQueue,
    now: Duration,
    seen: String,
    wakes: usize,
}

impl Fixture {
    fn new(options: NoticeOptions) -> Self {
        Self { queue: NoticeQueue::new(options), now: Duration::ZERO, seen: String::new(), wakes: 0 }
    }

    fn at(&self, uptime: Duration) -> ClockReading {
        let wall = Timestamp::from_second(MIDNIGHT).unwrap() + jiff::SignedDuration::try_from(uptime).unwrap();
        ClockReading { uptime, wall }
    }

    /// Advances the time, showing what is due on the way.
    fn wait(&mut self, until: Duration) {
        self.show();
        while let Some(due) = self.queue.next_due(self.at(self.now)).filter(|due| *due <= until) {
            assert!(due > self.now, "due at {due:?}, which is not after {:?}: a busy loop", self.now);
            self.now = due;
            self.wakes += 1;
            self.show();
        }
        self.now = until;
        self.show();
    }

    fn show(&mut self) {
        for notice in self.queue.take(self.at(self.now)) {
            let urgency = match notice.priority {
                NoticePriority::High => "!",
                NoticePriority::Normal => "",
                NoticePriority::Low => "-",
            };
            let (title, body) = (&notice.title, notice.body.replace('\n', " / "));
            writeln!(self.seen, "{:>4} {urgency}{title}: {body}", self.now.as_secs()).unwrap();
        }
    }

    /// `5 notebook - text`: at second 5 the app `notebook` says `text` with low priority. `x9` at the end: nine times,
    /// with `#` for the number. The app `hub` is the hub.
    fn post(&mut self, line: &str) {
        let (second, rest) = line.split_once(' ').unwrap();
        self.wait(Duration::from_secs(second.parse().unwrap()));
        let (app, rest) = rest.split_once(' ').unwrap();
        let (priority, text) = match rest.split_once(' ') {
            Some(("!", text)) => (NoticePriority::High, text),
            Some(("-", text)) => (NoticePriority::Low, text),
            _ => (NoticePriority::Normal, rest),
        };
        let (text, count) = match text.rsplit_once(" x") {
            Some((text, count)) => (text, count.parse().unwrap()),
            None => (text, 1),
        };
        for number in 1..=count {
            let (title, body) = text.split_once('|').unwrap_or((app, text));
            let notice = UserNotice {
                app: (app != "hub").then(|| app.into()),
                title: title.into(),
                body: body.replace('#', &number.to_string()).into(),
                priority,
                message: None,
                at: self.at(self.now).wall,
            };
            self.queue.post(notice, self.at(self.now));
        }
        self.show();
    }
}

fn play(options: NoticeOptions, posted: &str, until: u64) -> Fixture {
    let mut fixture = Fixture::new(options);
    for line in posted.lines().map(str::trim).filter(|line| !line.is_empty()) {
        fixture.post(line);
    }
    fixture.wait(Duration::from_secs(until));
    fixture
}

#[track_caller]
fn check_with(options: NoticeOptions, posted: &str, seen: &str) {
    let fixture = play(options, posted, 100_000);
    let expected: Vec<&str> = seen.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found: Vec<&str> = fixture.seen.lines().map(str::trim).collect();
    assert_eq!(found, expected, "\n{}", fixture.seen);
    assert_eq!(fixture.queue.queued_count(), 0);
    assert!(fixture.queue.app_queues.is_empty(), "idle queues are kept");
}

#[track_caller]
fn check(posted: &str, seen: &str) {
    check_with(NoticeOptions::default(), posted, seen);
}

fn quiet(hours: &str) -> NoticeOptions {
    let zone = tz::offset(0).to_time_zone();
    NoticeOptions { quiet: Some(hours.parse().unwrap()), zone, ..NoticeOptions::default() }
}

#[test]
fn different_words_are_never_merged() {
    check(
        "0 notebook one\n0 notebook two\n1 notebook Title|one\n1 other one",
        "0 notebook: one\n0 notebook: two\n1 Title: one\n1 other: one",
    );
}

#[test]
fn the_same_again_is_counted_and_shown_once_more() {
    check(
        "0 notebook saved\n2 notebook saved\n4 notebook saved",
        "0 notebook: saved\n5 notebook: saved (2 more times)",
    );
    check("0 notebook saved\n4 notebook saved", "0 notebook: saved\n5 notebook: saved (once more)");
    check("0 notebook saved\n5 notebook saved", "0 notebook: saved\n5 notebook: saved");
    // The repeat window restarts with every shown notice.
    check(
        "0 notebook saved\n1 notebook saved\n7 notebook saved\n9 notebook saved\n30 notebook saved",
        "0 notebook: saved\n5 notebook: saved (once more)\n10 notebook: saved (2 more times)\n30 notebook: saved",
    );
    check("0 a ! fire\n1 a ! fire\n2 a fire", "0 !a: fire\n5 !a: fire (2 more times)");
    check("0 hub lost\n1 hub lost", "0 hub: lost\n5 hub: lost (once more)");
}

#[test]
fn a_repeated_flood_is_two_lines_every_five_seconds() {
    check("0 notebook saved x1000", "0 notebook: saved\n5 notebook: saved (999 more times)");
}

#[test]
fn what_waits_takes_in_its_like() {
    check("0 a - news\n20 a - news\n29 a - news", "30 -a: news (3 times)");
    check("0 a - news\n1 a - other\n2 a - news", "30 -3 more from a: news (2 times) / other");
}

#[test]
fn the_more_urgent_wins_when_the_same_is_said() {
    check("0 a fire\n1 a fire\n2 a ! fire", "0 a: fire\n2 !a: fire (2 more times)");
    check("0 a fire\n2 a ! fire", "0 a: fire\n2 !a: fire");
    check("0 a - fire\n2 a ! fire", "2 !a: fire (2 times)");
    check("0 a - fire\n2 a fire", "2 a: fire (2 times)");
}

#[test]
fn more_than_the_rate_is_one_digest() {
    check(
        "0 a n# x17",
        "0 a: n1\n0 a: n2\n0 a: n3\n0 a: n4\n0 a: n5\n0 a: n6\n0 a: n7\n0 a: n8\n0 a: n9\n0 a: n10
         6 7 more from a: n11 / n12 / n13 / n14 / n15 / n16 / n17",
    );
    let two = NoticeOptions { per_minute: 2, ..NoticeOptions::default() };
    check_with(two.clone(), "0 a n# x3\n0 b m# x3", "0 a: n1\n0 a: n2\n0 b: m1\n0 b: m2\n30 a: n3\n30 b: m3");
    // Queued notices are not overtaken.
    check_with(two.clone(), "0 a n# x4\n29 a late", "0 a: n1\n0 a: n2\n30 3 more from a: n3 / n4 / late");
    check_with(two, "0 hub n# x4", "0 hub: n1\n0 hub: n2\n30 2 more from the hub: hub: n3 / hub: n4");
}

#[test]
fn the_rate_holds_in_the_long_run() {
    let mut fixture = Fixture::new(NoticeOptions::default());
    for second in 0..600 {
        fixture.post(&format!("{second} a number {second}"));
    }
    fixture.wait(Duration::from_secs(700));
    let shown = fixture.seen.lines().count();
    assert!((100..=111).contains(&shown), "{shown} were shown in ten minutes");
    assert!(fixture.wakes <= shown, "{} wakes for {shown} notices", fixture.wakes);
}

#[test]
fn the_urgent_is_shown_at_once_but_cannot_drown_the_rest() {
    check_with(
        NoticeOptions { per_minute: 1, ..NoticeOptions::default() },
        "0 a one\n0 a two\n1 a ! fire\n2 a ! flood",
        "0 a: one\n1 !a: fire\n2 !a: flood\n60 a: two",
    );
    let flood = play(NoticeOptions::default(), "0 a ! n# x1000\n1 b hello", 100);
    let lines: Vec<&str> = flood.seen.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 32, "{}", flood.seen);
    assert_eq!((lines[29], lines[30]), ("0 !a: n30", "1 b: hello"));
    assert!(
        lines[31].starts_with("2 !970 more from a: n31 / n32 / ")
            && lines[31].ends_with("… and 958 more were not shown; see `patchboard hub messages`"),
        "{}",
        lines[31]
    );
}

#[test]
fn the_unimportant_waits_for_company() {
    check("0 a - x", "30 -a: x");
    check("0 a - x\n10 a - y", "30 -2 more from a: x / y");
    check("0 a - x\n10 a - y\n12 a now", "12 a: now\n12 -2 more from a: x / y");
    // A notice of another app does not flush the queue.
    check("0 a - x\n10 b now", "10 b: now\n30 -a: x");
    check("0 a - x\n10 a ! now", "10 !a: now\n30 -a: x");
}

#[test]
fn quiet_hours_leave_only_the_urgent() {
    check_with(
        quiet("22:00-07:00"),
        "60 a one\n120 a - two\n180 a one\n200 b alone\n300 a ! fire\n25200 a day\n25201 a - later",
        "300 !a: fire
         25200 3 more from a: one (2 times) / two
         25200 b: alone
         25200 a: day
         25231 -a: later",
    );
    let night = play(quiet("22:00-07:00"), "0 a one", 25_199);
    assert_eq!((night.seen.as_str(), night.queue.queued_count()), ("", 1));
    assert!(night.wakes <= 420, "{} wakes in seven hours", night.wakes);
}

#[test]
fn what_was_said_before_quiet_hours_and_again_in_them_waits_too() {
    check_with(quiet("00:01-07:00"), "58 a one\n59 a one\n61 a one", "58 a: one\n25200 a: one (2 more times)");
}

#[test]
fn a_night_full_of_notices_is_one_digest() {
    let fixture = play(quiet("22:00-07:00"), "0 a n# x5000\n0 b m# x2", 30_000);
    let lines: Vec<&str> = fixture.seen.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 2, "{}", fixture.seen);
    assert!(lines[0].starts_with("25200 5000 more from a: n1 / n2 / "), "{}", lines[0]);
    assert!(lines[0].ends_with("… and 4988 more were not shown; see `patchboard hub messages`"), "{}", lines[0]);
    assert_eq!(lines[1], "25200 2 more from b: m1 / m2");
}

#[test]
fn the_whole_queue_is_bounded_and_says_so() {
    let mut fixture = Fixture::new(quiet("22:00-07:00"));
    for app in 0..40 {
        fixture.post(&format!("1 app{app} n# x20"));
    }
    assert_eq!(fixture.queue.queued_count(), MAX_WAITING);
    fixture.wait(Duration::from_secs(30_000));
    let lines: Vec<&str> = fixture.seen.lines().map(str::trim).collect();
    let digests = lines.iter().filter(|line| line.contains("20 more from app")).count();
    let unseen = lines.iter().filter(|line| line.ends_with("20 were not shown; see `patchboard hub messages`")).count();
    assert_eq!((lines.len(), digests, unseen), (40, 40, 15), "{}", fixture.seen);
}

#[test]
fn more_apps_than_queues_are_counted_by_the_hub() {
    let mut fixture = Fixture::new(NoticeOptions::default());
    for app in 0..300 {
        fixture.post(&format!("0 app{app} hello"));
    }
    let lines = fixture.seen.lines().count();
    assert_eq!(fixture.queue.app_queues.len(), MAX_APP_QUEUES + 1);
    assert!(lines > MAX_APP_QUEUES, "{lines}");
    fixture.wait(Duration::from_secs(100));
    let reported: u64 = fixture
        .seen
        .lines()
        .filter_map(|line| line.trim().strip_prefix("0 ").or_else(|| line.trim().split_once(' ').map(|(_, rest)| rest)))
        .filter_map(|line| line.split_once(" more from other apps")?.0.parse::<u64>().ok())
        .sum();
    assert_eq!(reported, 300 - MAX_APP_QUEUES as u64, "{}", fixture.seen);
    assert!(fixture.queue.app_queues.is_empty());
}

#[test]
fn nobody_takes_anything() {
    let mut queue = NoticeQueue::new(NoticeOptions { per_minute: 600, ..NoticeOptions::default() });
    let fixture = Fixture::new(NoticeOptions::default());
    for number in 0_u32..2000 {
        let now = fixture.at(Duration::from_secs(number.into()));
        let body = number.to_string().into();
        let notice = UserNotice {
            app: None,
            title: "t".into(),
            body,
            priority: NoticePriority::Normal,
            message: None,
            at: now.wall,
        };
        queue.post(notice, now);
    }
    assert_eq!((queue.ready.len(), queue.queued_count()), (MAX_READY, 50));
    let now = fixture.at(Duration::from_secs(2000));
    let taken = queue.take(now);
    assert_eq!(taken.len(), MAX_READY + 1);
    assert_eq!(&*taken[MAX_READY].title, "1744 more from the hub");
}

#[test]
fn closing_shows_what_waits() {
    let closed = |options, posted| {
        let mut fixture = play(options, posted, 61);
        let now = fixture.at(fixture.now);
        let rest = fixture.queue.close(now);
        rest.iter().map(|notice| format!("{}: {}", notice.title, notice.body.replace('\n', " / "))).collect::<Vec<_>>()
    };
    let all = "60 a n# x12\n60 a - low\n60 b same\n61 b same\n61 b same";
    assert_eq!(closed(NoticeOptions::default(), all), ["3 more from a: n11 / n12 / low", "b: same (2 more times)"]);
    assert_eq!(closed(quiet("22:00-07:00"), all), [] as [&str; 0]);
}

proptest! {
    /// Every posted notice is accounted for in what is shown, and nothing loops.
    #[test]
    fn nothing_disappears(
        posts in prop::collection::vec((0_u64..20, 0_usize..4, 0_usize..6, 0_usize..3), 0..200),
        is_quiet in any::<bool>(),
        per_minute in 1_u32..30,
    ) {
        let options = if is_quiet { quiet("00:05-00:20") } else { NoticeOptions::default() };
        let mut fixture = Fixture::new(NoticeOptions { per_minute, ..options });
        let (mut clock, total) = (0, posts.len() as u64);
        for (pause, app, text, priority) in posts {
            clock += pause;
            fixture.post(&format!("{clock} app{app} {} t{text}", ["!", "-", ""][priority]).replace("  ", " "));
        }
        fixture.wait(Duration::from_secs(clock + 100_000));
        prop_assert_eq!(fixture.queue.queued_count(), 0);
        let reported: u64 = fixture.seen.lines().map(told_by).sum();
        prop_assert_eq!(reported, total, "{}", fixture.seen);
    }
}

/// How many notices one shown line stands for.
fn told_by(line: &str) -> u64 {
    let text = line.trim().split_once(' ').unwrap().1.trim_start_matches(['!', '-']);
    let number = |text: &str| text.rsplit(['(', ' ']).next().and_then(|number| number.parse::<u64>().ok());
    let counted = |end| text.strip_suffix(end).and_then(number);
    if let Some((count, _)) = text.split_once(" more from ") {
        return count.parse().unwrap();
    }
    counted(" more times)").or_else(|| counted(" times)")).unwrap_or(1)
}
