//! Pools as text. Everything from workers is sanitised for the terminal here.

use jiff::Timestamp;

use super::report::{PoolStatus, WorkerStatus};
use crate::output::{self, Column, PageLayout, TableCell, TextRole, TextTable};

/// Shown for an unknown value.
const UNKNOWN: &str = "–";

/// A paragraph per pool, separated by empty lines.
pub(super) fn pools(pools: &[PoolStatus], now: Timestamp, page: PageLayout) -> Vec<String> {
    if pools.is_empty() {
        return vec!["no pool of workers is configured: [[workers]] adds one".to_owned()];
    }
    let mut lines = Vec::new();
    for (position, pool) in pools.iter().enumerate() {
        if position > 0 {
            lines.push(String::new());
        }
        paragraph(pool, now, page, &mut lines);
    }
    lines
}

fn paragraph(pool: &PoolStatus, now: Timestamp, page: PageLayout, lines: &mut Vec<String>) {
    let PoolStatus { name, ready, wanted, queued, tools, .. } = pool;
    lines.push(output::one_line(&format!(
        "{name}: {ready} of {wanted} ready, {queued} queued, {}",
        counted(*tools, "tool", "tools")
    )));
    let PoolStatus { succeeded, failed, timed_out, refused, restarts, recycled, .. } = pool;
    let restarts = counted(*restarts, "restart", "restarts");
    lines.push(format!(
        "  calls: {succeeded} succeeded, {failed} failed, {timed_out} timed out, {refused} refused; {restarts}, {recycled} recycled"
    ));
    if let Some(trouble) = &pool.trouble {
        lines.push(format!("  last trouble: {}", output::one_line(trouble)));
    }
    if pool.workers.is_empty() {
        return lines.push("  no worker yet".to_owned());
    }
    let mut table = TextTable::new([
        Column::whole("WORKER"),
        Column::whole("STATE"),
        Column::number("PID"),
        Column::number("BUSY"),
        Column::number("DONE"),
        Column::number("MEMORY"),
        Column::number("AGE"),
    ]);
    pool.workers.iter().for_each(|worker| table.push_row(row(worker, now)));
    lines.extend(table.lines(page.inset(2)).into_iter().map(|line| format!("  {line}")));
}

fn row(worker: &WorkerStatus, now: Timestamp) -> [TableCell; 7] {
    let known = |text: Option<String>| TableCell::from(text.unwrap_or_else(|| UNKNOWN.to_owned()));
    [
        TableCell::painted(&worker.id, TextRole::Name),
        state(&worker.state),
        known(worker.pid.map(|pid| pid.to_string())),
        format!("{}/{}", worker.in_flight, worker.capacity).into(),
        worker.calls.to_string().into(),
        known(worker.memory_bytes.map(memory)),
        known(worker.since.parse().ok().map(|since| age(since, now))),
    ]
}

fn state(state: &str) -> TableCell {
    let words = state.replace('_', " ");
    match state {
        "ready" | "busy" => TableCell::painted(&words, TextRole::Good),
        "backing_off" => TableCell::painted(&words, TextRole::Bad),
        _ => TableCell::painted(&words, TextRole::Note),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn memory(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let mib = bytes as f64 / MIB;
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.1} GiB", mib / 1024.0) }
}

/// The two largest units. A clock behind the server's gives an age of zero.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests;
