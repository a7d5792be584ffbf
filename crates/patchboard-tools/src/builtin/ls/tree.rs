//! Renders a listing as indented text.

use super::super::file_scan::excluded_files_remark;
use super::listing::{FolderListing, FolderNode, ListingExtent, NodeState};
use crate::text::escape_control_chars;

pub(super) fn render(path: &str, listing: &FolderListing) -> String {
    let mut text = escape_control_chars(path.as_ref());
    if !text.ends_with('/') {
        text.push('/');
    }
    text.push('\n');
    if let Some(listed) = listing.nodes.first() {
        render_node(listed, 1, listing, &mut text);
    }
    if listing.extent == ListingExtent::Partial {
        let (files, folders) = (count(listing.files, "file"), count(listing.folders, "folder"));
        text.push_str(&format!("[{files} and {folders} shown, not all there are; list a folder by its `path`]\n"));
    }
    for remark in excluded_files_remark(listing.excluded_files).iter().chain(&listing.unread_rules) {
        push_line(0, remark, &mut text);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Recursion depth is bounded by the number of folders shown.
fn render_node(node: &FolderNode, depth: usize, listing: &FolderListing, text: &mut String) {
    for folder in node.folders.iter().filter_map(|index| listing.nodes.get(*index)) {
        match &folder.state {
            NodeState::Listed | NodeState::PartlyListed => {
                push_line(depth, &format!("{}/", folder.name), text);
                render_node(folder, depth + 1, listing, text);
            }
            NodeState::NotListed(reason) => push_line(depth, &format!("{}/ ({reason})", folder.name), text),
        }
    }
    for file in &node.files {
        push_line(depth, file, text);
    }
    let more = node.more_folders + node.more_files;
    let nothing_shown = node.folders.is_empty() && node.files.is_empty();
    if node.state == NodeState::PartlyListed {
        push_line(depth, &format!("… at least {more} more"), text);
    } else if more > 0 {
        let (files, folders) = (count(node.more_files, "file"), count(node.more_folders, "folder"));
        let rest = match (node.more_files, node.more_folders) {
            (_, 0) => files,
            (0, _) => folders,
            (_, _) => format!("{folders} and {files}"),
        };
        push_line(depth, &format!("… {rest} more"), text);
    } else if nothing_shown && depth == 1 {
        // Only the listed folder is marked empty: for nested folders it is apparent.
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
