//! What the program says, as its sources have it.

use crate::pages::{files, read};
use std::collections::BTreeSet;

/// What makes an error or a line of the log.
const MACROS: [&str; 5] = ["#[error(", "warn!(", "error!(", "bail!(", "anyhow!("];

/// Where messages are for who has just given the argument, the manifest or the policy that they quote: there is nothing to look
/// up about them.
const SELF_EVIDENT: [&str; 7] = [
    "src/policy/",
    "src/cli/certs.rs",
    "src/cli/chart/",
    "src/cli/explain/",
    "src/cli/inject",
    "src/cli/policy",
    "src/cli/check/",
];

/// As short a piece of a message says too little to be looked for.
const SHORTEST: usize = 8;

/// The sources without their tests.
fn sources() -> impl Iterator<Item = (String, String)> {
    let all = files("src", ".rs").into_iter().filter(|path| !path.contains("/tests"));
    all.map(|path| {
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        (path, code)
    })
}

/// The longest piece of each message, between what is filled in, and where it is.
pub(crate) fn messages() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (path, code) in sources() {
        if SELF_EVIDENT.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        for start in MACROS {
            for (at, _) in code.match_indices(start) {
                let before = code[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                    continue;
                }
                let literals = literals(arguments(&code[at + start.len()..]));
                let longest = literals.iter().max_by_key(|literal| literal.len());
                let piece = longest.and_then(|text| pieces(text).into_iter().max_by_key(String::len));
                found.extend(
                    piece
                        .filter(|it| it.len() >= SHORTEST)
                        .map(|piece| (piece, path.clone())),
                );
            }
        }
    }
    found
}

/// The same of what templates of the charts fail with.
pub(crate) fn messages_of_charts() -> BTreeSet<(String, String)> {
    let templates = [".yaml", ".tpl"].into_iter().flat_map(|ending| files("charts", ending));
    let mut found = BTreeSet::new();
    for path in templates {
        let text = read(&path);
        for call in text.split("{{- fail ").skip(1) {
            let message = literals(call.split("}}").next().unwrap()).remove(0);
            let message = message.replace("%s", "{}").replace("%d", "{}");
            let piece = pieces(&message).into_iter().max_by_key(String::len).unwrap();
            found.insert((piece, path.clone()));
        }
    }
    found
}

/// Everything that the program and the charts can say, and the transcripts that show it.
pub(crate) fn everything() -> String {
    let mut all: Vec<String> = sources().flat_map(|(_, code)| literals(&code)).collect();
    for (folder, ending) in [("charts", ".yaml"), ("charts", ".tpl"), ("tests/cmd", ".md")] {
        all.extend(files(folder, ending).iter().map(|path| read(path)));
    }
    all.push(read("docs/preview.md"));
    all.join("\n")
}

/// What stands before the parenthesis that closes an open one.
fn arguments(code: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (1, false, false);
    for (at, c) in code.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[..at];
        }
    }
    panic!("no end: {}", &code[..80]);
}

/// The literal texts of code.
fn literals(code: &str) -> Vec<String> {
    let code = code.replace("'\"'", "");
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find('"') {
        let mut text = String::new();
        let mut characters = rest[at + 1..].char_indices().peekable();
        let mut end = rest.len();
        while let Some((place, c)) = characters.next() {
            match c {
                '"' => {
                    end = at + 1 + place + 1;
                    break;
                }
                '\\' => match characters.next().map(|(_, c)| c) {
                    // The text goes on where the next line begins.
                    Some('\n') => while characters.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                    Some('n') => text.push('\n'),
                    Some(c) => text.push(c),
                    None => {}
                },
                c => text.push(c),
            }
        }
        found.push(text);
        rest = &rest[end..];
    }
    found
}

/// A message without what is filled in.
fn pieces(message: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0;
    let plain = message.replace("{{", "(").replace("}}", ")");
    for c in plain.chars() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                found.push(String::new());
            }
            '\n' => found.push(String::new()),
            c if depth == 0 => found.last_mut().unwrap().push(c),
            _ => {}
        }
    }
    let ends = |c: char| c.is_whitespace() || ",:;".contains(c);
    found.iter().map(|piece| piece.trim_matches(ends).to_owned()).collect()
}
