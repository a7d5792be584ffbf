//! A survey as indented text.

use super::survey::{Complete, Place, State, Survey};
use crate::words::plain;

pub(super) fn draw(path: &str, survey: &Survey) -> String {
    let mut text = plain(path.as_ref());
    if !text.ends_with('/') {
        text.push('/');
    }
    text.push('\n');
    if let Some(listed) = survey.places.first() {
        inside(listed, 1, survey, &mut text);
    }
    if survey.complete == Complete::No {
        let (files, folders) = (count(survey.files, "file"), count(survey.folders, "folder"));
        text.push_str(&format!("[{files} and {folders} shown, not all there are; list a folder by its `path`]\n"));
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// As deep as folders are shown, which is bounded by their number.
fn inside(place: &Place, depth: usize, survey: &Survey, text: &mut String) {
    for folder in place.folders.iter().filter_map(|index| survey.places.get(*index)) {
        match &folder.state {
            State::Listed | State::PartlyListed => {
                line(depth, &format!("{}/", folder.name), text);
                inside(folder, depth + 1, survey, text);
            }
            State::NotListed(reason) => line(depth, &format!("{}/ ({reason})", folder.name), text),
        }
    }
    for file in &place.files {
        line(depth, file, text);
    }
    let more = place.more_folders + place.more_files;
    let nothing_shown = place.folders.is_empty() && place.files.is_empty();
    if place.state == State::PartlyListed {
        line(depth, &format!("… at least {more} more"), text);
    } else if more > 0 {
        let (files, folders) = (count(place.more_files, "file"), count(place.more_folders, "folder"));
        let rest = match (place.more_files, place.more_folders) {
            (_, 0) => files,
            (0, _) => folders,
            (_, _) => format!("{folders} and {files}"),
        };
        line(depth, &format!("… {rest} more"), text);
    } else if nothing_shown && depth == 1 {
        // Only the listed folder says so: further down an empty folder is seen to be empty.
        line(depth, "(nothing)", text);
    }
}

fn line(depth: usize, content: &str, text: &mut String) {
    text.extend(std::iter::repeat_n("  ", depth));
    text.push_str(content);
    text.push('\n');
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
