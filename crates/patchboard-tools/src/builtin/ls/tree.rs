//! A survey as indented text.

use super::listing::{FolderListing, FolderNode, ListingExtent, NodeState};
use crate::text::escape_control_chars;

pub(super) fn render(path: &str, survey: &FolderListing) -> String {
    let mut text = escape_control_chars(path.as_ref());
    if !text.ends_with('/') {
        text.push('/');
    }
    text.push('\n');
    if let Some(listed) = survey.nodes.first() {
        render_node(listed, 1, survey, &mut text);
    }
    if survey.extent == ListingExtent::Partial {
        let (files, folders) = (count(survey.files, "file"), count(survey.folders, "folder"));
        text.push_str(&format!("[{files} and {folders} shown, not all there are; list a folder by its `path`]\n"));
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// As deep as folders are shown, which is bounded by their number.
fn render_node(place: &FolderNode, depth: usize, survey: &FolderListing, text: &mut String) {
    for folder in place.folders.iter().filter_map(|index| survey.nodes.get(*index)) {
        match &folder.state {
            NodeState::Listed | NodeState::PartlyListed => {
                push_line(depth, &format!("{}/", folder.name), text);
                render_node(folder, depth + 1, survey, text);
            }
            NodeState::NotListed(reason) => push_line(depth, &format!("{}/ ({reason})", folder.name), text),
        }
    }
    for file in &place.files {
        push_line(depth, file, text);
    }
    let more = place.more_folders + place.more_files;
    let nothing_shown = place.folders.is_empty() && place.files.is_empty();
    if place.state == NodeState::PartlyListed {
        push_line(depth, &format!("… at least {more} more"), text);
    } else if more > 0 {
        let (files, folders) = (count(place.more_files, "file"), count(place.more_folders, "folder"));
        let rest = match (place.more_files, place.more_folders) {
            (_, 0) => files,
            (0, _) => folders,
            (_, _) => format!("{folders} and {files}"),
        };
        push_line(depth, &format!("… {rest} more"), text);
    } else if nothing_shown && depth == 1 {
        // Only the listed folder says so: further down an empty folder is seen to be empty.
        push_line(depth, "(nothing)", text);
    }
}

fn push_line(depth: usize, content: &str, text: &mut String) {
    text.extend(std::iter::repeat_n("  ", depth));
    text.push_str(content);
    text.push('\n');
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
