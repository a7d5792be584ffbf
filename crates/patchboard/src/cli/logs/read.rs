//! Reads the last lines of a set of rotated files, and follows them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::telemetry::log_file::{LOG_FILES, log_name};

/// Longer lines are split; no real log line is that long.
const MAX_LINE: usize = 1024 * 1024;
/// Larger than any log file, so that only other files are cut.
const MAX_READ: u64 = 64 * 1024 * 1024;

/// The last `most` matching lines, oldest first, and a follower that continues after them.
pub(super) fn open_log(
    folder: &Path,
    limit: usize,
    is_wanted: &dyn Fn(&str) -> bool,
) -> io::Result<(Vec<String>, LogFollower)> {
    let mut newest_first: Vec<String> = Vec::new();
    let mut follower = LogFollower { folder: folder.to_owned(), current: None, partial_line: Vec::new() };
    for (age, opened) in files(folder)?.into_iter().enumerate() {
        let mut opened = opened;
        let mut rest = Vec::new();
        let mut lines = read_lines(&mut opened.file, &mut rest)?;
        if age == 0 {
            follower.partial_line = rest;
            follower.current = Some(opened);
        } else if !rest.is_empty() {
            lines.push(text(&rest));
        }
        newest_first.extend(lines.into_iter().rev().filter(|line| is_wanted(line)));
        if newest_first.len() >= limit {
            break;
        }
    }
    newest_first.truncate(limit);
    newest_first.reverse();
    Ok((newest_first, follower))
}

/// An open file with its identity, which survives renaming.
#[derive(Debug)]
struct OpenLogFile {
    file: File,
    identity: (u64, u64),
}

/// Continues where it stopped, even if the files are renamed meanwhile.
#[derive(Debug)]
pub(super) struct LogFollower {
    folder: PathBuf,
    current: Option<OpenLogFile>,
    /// The beginning of a line that is not complete yet.
    partial_line: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NewLines {
    pub(super) lines: Vec<String>,
    /// A file was deleted before it was read.
    pub(super) has_gap: bool,
}

impl LogFollower {
    pub(super) fn has_file(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn read_new(&mut self) -> io::Result<NewLines> {
        let mut news = NewLines::default();
        // Listed before the final read of the current file: if it has been replaced in this list, it is complete.
        let files = files(&self.folder)?;
        if let Some(current) = &mut self.current {
            news.lines = read_lines(&mut current.file, &mut self.partial_line)?;
        }
        let known = self.current.as_ref().map(|current| current.identity);
        let position = files.iter().position(|opened| Some(opened.identity) == known);
        if position == Some(0) || files.is_empty() {
            return Ok(news);
        }
        news.has_gap = known.is_some() && position.is_none();
        for mut opened in files.into_iter().take(position.unwrap_or(usize::MAX)).collect::<Vec<_>>().into_iter().rev() {
            if !self.partial_line.is_empty() {
                news.lines.push(text(&std::mem::take(&mut self.partial_line)));
            }
            news.lines.extend(read_lines(&mut opened.file, &mut self.partial_line)?);
            self.current = Some(opened);
        }
        Ok(news)
    }
}

/// Newest first. A file renamed meanwhile may be found under both names, and is taken once.
fn files(folder: &Path) -> io::Result<Vec<OpenLogFile>> {
    let mut files: Vec<OpenLogFile> = Vec::new();
    for age in 0..LOG_FILES {
        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let options = options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
        let file = match options.open(folder.join(log_name(age))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let found = file.metadata()?;
        let identity = (found.dev(), found.ino());
        if found.is_file() && !files.iter().any(|known| known.identity == identity) {
            files.push(OpenLogFile { file, identity });
        }
    }
    Ok(files)
}

/// Reads whole lines up to the end of the file. `rest` holds the incomplete line from the previous call and receives
/// the new one.
fn read_lines(file: &mut File, rest: &mut Vec<u8>) -> io::Result<Vec<String>> {
    file.take(MAX_READ).read_to_end(rest)?;
    let Some(end) = rest.iter().rposition(|&byte| byte == b'\n') else {
        return Ok(if rest.len() > MAX_LINE { vec![text(&std::mem::take(rest))] } else { Vec::new() });
    };
    let left = rest.split_off(end + 1);
    let whole = std::mem::replace(rest, left);
    let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(text).collect())
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests;
